"""LiteLLM's compress(), from its released package."""

import importlib
from collections.abc import Callable
from typing import Any


def prepare(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that compresses chat messages."""
    compress = importlib.import_module("litellm.compression.compress").compress
    token_counter = importlib.import_module("litellm").token_counter

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        # A share, in its own tokens, so that the target does not depend on the tokenizer.
        whole = token_counter(model=options["model"], messages=request["messages"])
        target = int(whole * request["options"]["keep"])
        result = compress(
            messages=request["messages"],
            compression_trigger=target,
            compression_target=target,
            **options,
        )
        return {
            "messages": result["messages"],
            "skipped": result.get("compression_skipped_reason") or "",
        }

    return answer
