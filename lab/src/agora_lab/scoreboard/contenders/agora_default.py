"""AGORA, through its public names: the default, free edits only, and the preset."""

from collections.abc import Callable
from typing import Any

from agora import Budget, Compressor, EstimatedTokens, Session
from agora.logs import Usage
from agora_lab.scoreboard.shapes import from_anthropic, to_anthropic

TITLE = "AGORA"
OURS = True
PRICED = True
THINKING = True
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    'edits="free"': {"edits": "free"},
    "for_databases()": {"budget": Budget(keep_ratio=0.4)},
}
_FILLER = "The system text and the tools, which logs do not show. "
_FILLER_TOKENS = EstimatedTokens().count(_FILLER * 100) / 100


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: a session with the recording's clock and each call's usage.

    A system text of the right size replaces the one that logs lack; marks are the client's.
    """
    clock: list[float] = [0.0]
    session = Session(Compressor(**settings), clock=lambda: clock[0])
    sent: list[Any] = []

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        native = about["format"] == "anthropic"
        shown = to_anthropic(messages)[1] if native else messages
        if about["answered"] is not None:
            newest = next(m for m in reversed(shown) if m["role"] == "assistant")
            bill = about["answered"]
            usage = Usage(uncached=bill.uncached, read=bill.read, written=bill.written)
            session.answered(sent.pop(), answer=newest, usage=usage)
        clock[0] = about["now"] if about["now"] is not None else clock[0] + 1
        system = None
        if native:
            mark = {"type": "ephemeral", **({"ttl": about["ttl"]} if about["ttl"] else {})}
            units = round(about["before"] / about["scale"] / _FILLER_TOKENS)
            system = [{"type": "text", "text": _FILLER * (units or 1), "cache_control": mark}]
            shown[-1]["content"][-1]["cache_control"] = mark
        sent[:] = [
            session.compress(shown, format=about["format"], model=about["model"], system=system)
        ]
        if not sent[0].changed:
            return messages
        return from_anthropic(sent[0].messages)[0] if native else list(sent[0].messages)

    return edit
