"""The decision on one prompt, as a worker makes it: which edit, and why."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from msgspec import DecodeError

from agora import Compression, Compressor, Reason
from agora.core.tokens import EstimatedTokens
from agora.errors import AgoraError
from agora.formats import known_format, read_request
from agora.rows import compress_rows, is_partial
from agora.service.call import Call, Edited
from agora.service.prompt import (
    UNREADABLE,
    decode,
    digests_of,
    edit_of,
    encode,
)
from agora.service.settings import Settings
from agora.summaries import asks_for_summary

_LAST_MESSAGES = 4
"""How many messages may hold a request for a summary: system text can follow it."""
_MAX_COMPRESSORS = 64
_MAX_COUNTS = 8_192
_MAX_COUNTED = 1 << 14


class _Counter:
    """The library's estimate, remembered by text: a conversation comes back with one more step."""

    def __init__(self) -> None:
        self._estimate = EstimatedTokens().count
        self._remembered = lru_cache(maxsize=_MAX_COUNTS)(self._estimate)

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._remembered(text) if len(text) <= _MAX_COUNTED else self._estimate(text)


class Editor:
    """Decides on prompts. It remembers nothing but what saves time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._compressors: dict[str, Compressor] = {}
        self._counter = _Counter()

    def decide(self, call: Call) -> Edited:
        """Return the edit that the compressor makes of a prompt; its body is written elsewhere."""
        try:
            body, messages = _decoded(call)
        except UNREADABLE:
            return Edited(body=b"", reason="unreadable")
        request = call.route.fields.request(call.route.format, body)
        if request.server_side:
            return Edited(body=b"", reason="server_side_history")
        model = call.model
        compression = self._compressor(model).compress(
            messages,
            model=model,
            format=call.route.format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
        return replace(
            looked_at(call, messages, str(compression.reason)),
            edit=_edit(messages, compression),
            decided=compression.reason is not Reason.FAILED,
            tokens_before=compression.tokens_before,
            tokens_after=compression.tokens_after,
            thinking_blocks=compression.thinking.blocks,
            detail=compression.rule or compression.detail,
            was_edited=compression.changed,
            whole=self._goes_whole(messages, model, compression),
        )

    def compress(self, body: bytes) -> tuple[int, bytes]:
        """Return the status and the answer to a request for `/v1/compress`.

        The body holds `messages`, `input` or `contents`, and may hold `model`, `format`, `system`
        and `tools`. Results without their calls, or `"rows": "keep"`, are replaced in place.
        """
        try:
            asked = decode(body)
            format = asked.get("format")
            request = read_request(asked, format=known_format(format) if format else None)
        except (*UNREADABLE, AgoraError, AttributeError, TypeError) as error:
            return 400, encode({"error": {"message": str(error), "type": "invalid_request_error"}})
        model = request.model if isinstance(request.model, str) else None
        compressor, messages = self._compressor(model or ""), request.messages
        if request.field == "messages" and (asked.get("rows") == "keep" or is_partial(messages)):
            # A caller that holds messages back puts these into their places: as many, no fewer.
            rows = compress_rows(compressor, messages, model=model, tools=request.tools)
            compression, new = rows.compression, rows.rows
            before, after = rows.tokens_before, rows.tokens_after
        else:
            compression = compressor.compress(
                messages,
                model=model,
                format=request.format,
                system=request.system,
                tools=request.tools,
                thinking=request.thinking,
            )
            new, before, after = (
                compression.messages,
                compression.tokens_before,
                compression.tokens_after,
            )
        return 200, encode(
            {
                request.field: new,
                "reason": str(compression.reason),
                "detail": compression.detail,
                "tokens_before": before,
                "tokens_after": after,
                "tokens_saved": before - after,
                "compression_ratio": after / before if before else 1.0,
                "transforms_applied": ["agora"] if after < before else [],
            }
        )

    def _compressor(self, model: str) -> Compressor:
        found = self._compressors.get(model)
        if found is None:
            if len(self._compressors) >= _MAX_COMPRESSORS:
                self._compressors.clear()
            found = self._settings.compressor(self._settings.sheet(model), self._counter)
            self._compressors[model] = found
        return found

    def _goes_whole(self, messages: list[Any], model: str, compression: Compression) -> bool:
        """Return True for an agent's own summary, unless the whole prompt would not fit."""
        window = self._settings.sheet(model).window
        fits = window is None or compression.tokens_before <= window
        return fits and asks_for_summary(messages[-_LAST_MESSAGES:])


def looked_at(call: Call, messages: list[Any], reason: str) -> Edited:
    """Return what a look at a prompt tells without a decision: by what it is remembered.

    Nobody asked whether earlier calls were edited, so they may have been.
    """
    digests = digests_of(f"{call.owner} {call.route.format}", messages)
    whole = asks_for_summary(messages[-_LAST_MESSAGES:])
    return Edited(body=b"", reason=reason, digests=digests, was_edited=True, whole=whole)


def look(call: Call, reason: str) -> Edited:
    """Return `looked_at` for a body as it came."""
    try:
        return looked_at(call, _decoded(call)[1], reason)
    except UNREADABLE:
        return Edited(body=b"", reason="unreadable")


def _decoded(call: Call) -> tuple[dict[str, Any], list[Any]]:
    """Return the body of a call and the list of its messages.

    Raises:
        UNREADABLE: It is not a JSON object with such a list.
    """
    body = decode(call.body)
    messages = body.get(call.route.fields.messages) if isinstance(body, dict) else None
    if not isinstance(messages, list):
        raise DecodeError("there is no list of messages")
    return body, messages


def _edit(messages: list[Any], compression: Compression) -> Any:
    if not compression.changed:
        return None
    return edit_of(messages, compression.messages, compression.positions)
