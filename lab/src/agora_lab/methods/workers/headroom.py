"""Headroom's compress(), from its released package."""

import importlib
from collections.abc import Callable
from typing import Any


def prepare(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that compresses messages with OpenAI tool calls."""
    compress = importlib.import_module("headroom").compress
    text = importlib.import_module("headroom.transforms.kompress_compressor")
    has_text_model = bool(text.is_kompress_available())

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        result = compress(request["messages"], **options, **request["options"])
        return {
            "contents": [message.get("content") for message in result.messages],
            "has_text_model": has_text_model,
            "did": sorted({str(name) for name in result.transforms_applied}),
        }

    return answer
