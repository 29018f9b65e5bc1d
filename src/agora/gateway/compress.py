"""Messages compressed on request, for whoever sends them on: `POST /v1/compress`.

The wire contract is the one that LiteLLM's guardrail `headroom` speaks: messages and a model go
in, as many messages and the counts come out. A whole conversation gets whole steps elided; rows
without the calls they answer are replaced in place (`agora.rows`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agora.adapters import known_format
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Reason, Rung
from agora.core.prices import PriceSheet, sheet_for
from agora.core.tokens import TokenCounter
from agora.errors import AgoraError
from agora.gateway.body import Unreadable, decode, deeper_than, encode, fields
from agora.gateway.edit import LINES_SHARE, EditorSettings, Timed
from agora.rows import compress_rows, is_partial

PATH = "/v1/compress"
_MESSAGES = ("messages", "input", "contents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A body whose messages are to be compressed, and how long somebody waits for it."""

    body: bytes
    until: float = float("inf")
    gone: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class Squeezed:
    """An answer, or why there is none."""

    body: bytes = b""
    reason: str = ""
    rung: Rung = Rung.UNTOUCHED
    tokens_before: int = 0
    tokens_after: int = 0
    model: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """Compresses the messages of bodies. Safe to call from threads."""

    settings: EditorSettings
    counter: TokenCounter
    sheets: Mapping[str, PriceSheet]

    def __call__(self, order: Order) -> Squeezed:
        """Return the compressed messages, or what is wrong with the body."""
        if deeper_than(order.body, self.settings.depth):
            return Squeezed(problem=f"the body is nested more than {self.settings.depth} deep")
        try:
            body = decode(order.body)
        except Unreadable:
            return Squeezed(problem="the body is not JSON")
        problem = _problem(body)
        if problem:
            return Squeezed(problem=problem)
        try:
            return self._squeezed(body, order)
        except AgoraError as error:
            return Squeezed(problem=str(error))

    def _squeezed(self, body: dict[str, Any], order: Order) -> Squeezed:
        field = next(name for name in _MESSAGES if name in body)
        messages, named = body[field], body.get("model")
        model = named if isinstance(named, str) else None
        compressor = self.compressor(model, Timed(self.settings.scorer, order.until, order.gone))
        if field == "messages" and (body.get("rows") == "keep" or is_partial(messages)):
            found = compress_rows(compressor, messages, model=model, tools=body.get("tools"))
            compression, new = found.compression, found.rows
            before, after = found.tokens_before, found.tokens_after
        else:
            format = body.get("format")
            compression = compressor.compress(
                messages,
                model=model,
                format=known_format(format) if format else None,
                system=body.get("system", body.get("instructions")),
                tools=body.get("tools"),
                observations=self.settings.observations,
            )
            before, after = compression.tokens_before, compression.tokens_after
            new = compression.messages
        if self.settings.shadow:
            new, after = messages, before
        return _answer(field, new, compression, before, after, model)

    def compressor(self, model: str | None, scorer: Any) -> Compressor:
        """Return the compressor for a model, as the editor would make it."""
        settings = self.settings
        return Compressor(
            scorer=scorer,
            budget=Budget(keep_ratio=settings.keep_ratio),
            k_recent=settings.k_recent,
            schedule="every_call" if settings.schedule == "every_call" else "by_price",
            least_tokens=settings.least_tokens,
            sheet=sheet_for(model or "", self.sheets),
            skeleton_share=LINES_SHARE if settings.lines else 0.0,
            counter=self.counter,
        )


def unchanged(body: bytes, reason: str) -> bytes:
    """Return the answer that hands the caller's own messages back, by a look at where they stand.

    For when there was no time: whoever waits here has a request to send on.
    """
    spans = fields(body) or {}
    field = next((name for name in _MESSAGES if name in spans), "")
    if not field:
        return b""
    start, end = spans[field]
    told = encode({"reason": reason, **_counts(0, 0)})
    return b'{"%b":%b,%b' % (field.encode(), body[start:end], told[1:])


def _answer(
    field: str, new: Any, compression: Compression, before: int, after: int, model: str | None
) -> Squeezed:
    changed = after < before
    reason = str(compression.reason)
    if compression.changed and not changed:
        reason = str(Reason.NOTHING_GAINED)
    said = {field: new, "reason": reason, "detail": compression.detail, **_counts(before, after)}
    rung = compression.rung if changed else Rung.UNTOUCHED
    return Squeezed(encode(said), reason, rung, before, after, model or "")


def _counts(before: int, after: int) -> dict[str, Any]:
    return {
        "tokens_before": before,
        "tokens_after": after,
        "tokens_saved": before - after,
        "compression_ratio": after / before if before else 1.0,
        "transforms_applied": ["agora"] if after < before else [],
        "ccr_hashes": [],
    }


def _problem(body: Any) -> str:
    if not isinstance(body, dict):
        return f"the body is a {type(body).__name__}; send an object with messages"
    found = [name for name in _MESSAGES if name in body]
    if not found:
        return "there are no messages; send an object with messages, input or contents"
    if not isinstance(body[found[0]], list):
        return f"{found[0]} is a {type(body[found[0]]).__name__}; send a list"
    format = body.get("format")
    if format is not None and not isinstance(format, str):
        return f"format is a {type(format).__name__}; name one, or leave it out"
    return ""
