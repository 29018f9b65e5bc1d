"""AGORA, through its public names: the default, free edits, the preset, an edit at every call."""

from collections.abc import Callable
from typing import Any

from agora import Budget, Compressor, EstimatedTokens
from agora_lab.scoreboard.shapes import from_anthropic, to_anthropic

TITLE = "AGORA"
OURS = True
PRICED = True
THINKING = True
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "preset for tools over databases (keep .4)": {"budget": Budget(keep_ratio=0.4)},
    "an edit at every call (the paper's schedule)": {"schedule": "every_call"},
}
_FILLER = "The system text and the tools, which logs do not show. "


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook. A system text of the right size stands for the one that logs lack."""
    compressor = Compressor(**settings)
    filler: list[str] = []

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        if not filler:
            unit = EstimatedTokens().count(_FILLER * 100) / 100
            filler.append(_FILLER * round(about["before"] / about["scale"] / unit))
        if about["format"] != "anthropic":
            result = compressor.compress(messages, format="openai", model=about["model"])
            return list(result.messages) if result.changed else messages
        _, native = to_anthropic(messages)
        result = compressor.compress(
            native, format="anthropic", model=about["model"], system=filler[0] or None
        )
        return from_anthropic(result.messages)[0] if result.changed else messages

    return edit
