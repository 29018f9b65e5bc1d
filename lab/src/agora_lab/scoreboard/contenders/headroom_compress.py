"""Headroom's compress(), from the released package."""

import importlib
from collections.abc import Callable
from typing import Any

TITLE = "headroom compress()"
SOURCE = "headroom-ai on PyPI: compress()"
PACKAGES = ("headroom-ai==0.42.0",)
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "prefix frozen, as its proxy does": {"freeze": True},
}
KEEPS = True


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook. A changed message stays changed; its text model is not installed.

    `freeze` gives it the number of messages of the last request, as the documentation asks.
    """
    compress = importlib.import_module("headroom").compress
    options = {key: value for key, value in settings.items() if key != "freeze"}
    sent: list[int] = [0]

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        if settings.get("freeze"):
            options["frozen_message_count"] = sent[0]
        result = compress([dict(m) for m in messages], model=about["model"], **options)
        sent[0] = len(messages)
        return [
            old if new.get("content") == old["content"] else {**old, "content": new["content"]}
            for old, new in zip(messages, result.messages, strict=True)
        ]

    return edit
