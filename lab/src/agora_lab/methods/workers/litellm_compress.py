"""LiteLLM's compress(), from its released package."""

import importlib
from collections.abc import Callable
from typing import Any


def prepare(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that compresses chat messages."""
    compress = importlib.import_module("litellm.compression.compress").compress
    token_counter = importlib.import_module("litellm").token_counter

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        own = {**options, **request.get("options", {})}
        if "keep" in own:
            # A share, in its own tokens, so that the target does not depend on the tokenizer.
            whole = token_counter(model=own["model"], messages=request["messages"])
            own["compression_target"] = own["compression_trigger"] = int(whole * own.pop("keep"))
        result = compress(messages=request["messages"], **own)
        return {
            "messages": result["messages"],
            "skipped": result.get("compression_skipped_reason") or "",
            "tools": len(result.get("tools") or ()),
        }

    return answer
