"""LangChain's trim_messages: the newest messages that fit, from the released package."""

import importlib
from collections.abc import Callable
from typing import Any

TITLE = "LangChain trim_messages"
SOURCE = "reference.langchain.com: trim_messages, the options of its chat example"
PACKAGES = ("langchain==1.4.7",)
SETTINGS: dict[str, dict[str, Any]] = {"last 60k tokens, from a human message": {"tokens": 60_000}}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: at every call, as in a function that runs before the model."""
    utils = importlib.import_module("langchain_core.messages.utils")
    converted: dict[int, Any] = {}
    origin: dict[str, dict[str, Any]] = {}

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        fresh = [message for message in messages if id(message) not in converted]
        for message, one in zip(fresh, utils.convert_to_messages(fresh), strict=True):
            converted[id(message)] = one
            one.id = str(len(origin))
            origin[one.id] = message
        trimmed = utils.trim_messages(
            [converted[id(message)] for message in messages],
            strategy="last",
            token_counter=utils.count_tokens_approximately,
            max_tokens=settings["tokens"],
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        return [origin[one.id] for one in trimmed]

    return edit
