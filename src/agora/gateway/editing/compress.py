"""Messages compressed on request, for whoever sends them on: `POST /v1/compress`.

The wire contract is the one that LiteLLM's guardrail `headroom` speaks: messages and a model go
in, as many messages and the counts come out. A whole conversation gets whole steps elided; rows
without the calls they answer are replaced in place (`agora.rows`).
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from agora.adapters import known_format
from agora.adapters.registry import body_formats
from agora.compressor import Compressor
from agora.core.compression import Compression, Reason, Rung
from agora.core.prices import PriceSheet, sheet_for
from agora.core.scorer import Scorer
from agora.core.tokens import TokenCounter
from agora.errors import AgoraError
from agora.gateway.body import Unreadable, decode, deeper_than, encode, fields
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.editing.timed import Timed
from agora.rows import compress_rows, is_partial

PATH = "/v1/compress"


def _messages_field(body: Container[str]) -> str:
    """Return where a body has its messages, by what the known formats call them; empty if nowhere.

    What most of them call so comes first: where two stand next to each other it is meant.
    """
    names = [format.fields.messages for format in body_formats().values() if format.fields]
    return next((name for name in sorted(names, key=names.count, reverse=True) if name in body), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressJob:
    """A body whose messages are to be compressed, and how long somebody waits for it."""

    body: bytes
    until: float = float("inf")
    gone: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class Compressed:
    """An answer, or why there is none."""

    body: bytes = b""
    reason: str = ""
    rung: Rung = Rung.UNTOUCHED
    tokens_before: int = 0
    tokens_after: int = 0
    model: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressEndpoint:
    """Compresses the messages of bodies. Safe to call from threads."""

    settings: EditorSettings
    counter: TokenCounter
    sheets: Mapping[str, PriceSheet]

    def __call__(self, job: CompressJob) -> Compressed:
        """Return the compressed messages, or what is wrong with the body."""
        if deeper_than(job.body, self.settings.depth):
            return Compressed(problem=f"the body is nested more than {self.settings.depth} deep")
        try:
            body = decode(job.body)
        except Unreadable:
            return Compressed(problem="the body is not JSON")
        problem = _problem(body)
        if problem:
            return Compressed(problem=problem)
        try:
            return self._compressed(body, job)
        except AgoraError as error:
            return Compressed(problem=str(error))

    def _compressed(self, body: dict[str, Any], job: CompressJob) -> Compressed:
        field = _messages_field(body)
        messages, named = body[field], body.get("model")
        model = named if isinstance(named, str) else None
        compressor = self.compressor(model, Timed(self.settings.scorer, job.until, job.gone))
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

    def compressor(self, model: str | None, scorer: Scorer) -> Compressor:
        """Return the compressor for a model, as the editor would make it."""
        sheet = sheet_for(model or "", self.sheets)
        return self.settings.compressor(scorer, sheet, self.counter)


def unchanged(body: bytes, reason: str) -> bytes:
    """Return the answer that hands the caller's own messages back, by a look at where they stand.

    For when there was no time: whoever waits here has a request to send on.
    """
    spans = fields(body) or {}
    field = _messages_field(spans)
    if not field:
        return b""
    start, end = spans[field]
    told = encode({"reason": reason, **_counts(0, 0)})
    return b'{"%b":%b,%b' % (field.encode(), body[start:end], told[1:])


def _answer(
    field: str, new: Any, compression: Compression, before: int, after: int, model: str | None
) -> Compressed:
    changed = after < before
    reason = str(compression.reason)
    if compression.changed and not changed:
        reason = str(Reason.NOTHING_GAINED)
    said = {field: new, "reason": reason, "detail": compression.detail, **_counts(before, after)}
    rung = compression.rung if changed else Rung.UNTOUCHED
    return Compressed(encode(said), reason, rung, before, after, model or "")


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
    found = _messages_field(body)
    if not found:
        return "there are no messages; send an object with messages, input or contents"
    if not isinstance(body[found], list):
        return f"{found} is a {type(body[found]).__name__}; send a list"
    format = body.get("format")
    if format is not None and not isinstance(format, str):
        return f"format is a {type(format).__name__}; name one, or leave it out"
    return ""
