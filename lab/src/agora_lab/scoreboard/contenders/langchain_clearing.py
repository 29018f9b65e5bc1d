"""LangChain's ContextEditingMiddleware with its ClearToolUsesEdit, from the released package."""

import importlib
from collections.abc import Callable
from typing import Any

TITLE = "LangChain context editing"
SOURCE = "docs.langchain.com, prebuilt middleware: context editing"
PACKAGES = ("langchain==1.4.7",)
SETTINGS: dict[str, dict[str, Any]] = {
    "default: trigger 100k, keep 3": {},
    "clear_at_least 20k at trigger 60k": {"trigger": 60_000, "clear_at_least": 20_000},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: the edit runs on a copy, and counts as the middleware does by default."""
    editing = importlib.import_module("langchain.agents.middleware.context_editing")
    utils = importlib.import_module("langchain_core.messages.utils")
    edit_of = editing.ClearToolUsesEdit(**settings)
    converted: dict[int, Any] = {}

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        fresh = [message for message in messages if id(message) not in converted]
        for message, one in zip(fresh, utils.convert_to_messages(fresh), strict=True):
            converted[id(message)] = one
        own = [converted[id(message)] for message in messages]
        edited = list(own)
        # The middleware neither edits nor counts the system text.
        first = sum(message["role"] == "system" for message in messages)
        body = edited[first:]
        edit_of.apply(body, count_tokens=utils.count_tokens_approximately)
        edited[first:] = body
        return [
            message if new is old else {**message, "content": new.content}
            for message, old, new in zip(messages, own, edited, strict=True)
        ]

    return edit
