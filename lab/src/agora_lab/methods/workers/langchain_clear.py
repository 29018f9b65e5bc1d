"""LangChain's ClearToolUsesEdit, from its released package."""

import importlib
from collections.abc import Callable
from typing import Any


def prepare(_options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that applies the edit to messages with OpenAI tool calls."""
    editing = importlib.import_module("langchain.agents.middleware.context_editing")
    utils = importlib.import_module("langchain_core.messages.utils")

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        edit = editing.ClearToolUsesEdit(**request["options"])
        messages = utils.convert_to_messages(request["messages"])
        # The middleware's default way of counting.
        edit.apply(messages, count_tokens=utils.count_tokens_approximately)
        return {"contents": [message.content for message in messages]}

    return answer
