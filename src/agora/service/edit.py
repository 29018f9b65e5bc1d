"""The decision on one prompt, as a worker makes it."""

from dataclasses import replace
from functools import lru_cache

from msgspec import DecodeError

from agora.compressor import Since
from agora.core.request import Request
from agora.core.tokens import EstimatedTokens
from agora.errors import AgoraError
from agora.formats import known_format, read_request
from agora.rows import compress_rows, is_partial
from agora.service.call import Call
from agora.service.prompt import UNREADABLE, decode, encode
from agora.service.settings import Settings
from agora.session import Made, made_of

_MAX_COUNTS = 8_192
_MAX_COUNTED = 1 << 14


class Counter:
    """The library's estimate, cached by text: a conversation comes back with one more step."""

    def __init__(self) -> None:
        self._estimate = EstimatedTokens().count
        self._remembered = lru_cache(maxsize=_MAX_COUNTS)(self._estimate)

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self._remembered(text) if len(text) <= _MAX_COUNTED else self._estimate(text)


def request_of(call: Call) -> Request:
    """Return the request in a call's body.

    Raises:
        UNREADABLE: It is not a JSON object with messages.
    """
    body = decode(call.body)
    if not isinstance(body, dict) or call.route.fields.messages not in body:
        raise DecodeError("there are no messages")
    request: Request = call.route.fields.request(call.route.format, body)
    return replace(request, model=call.model)


class Editor:
    """Decides on prompts. Its memory only saves time."""

    def __init__(self, settings: Settings) -> None:
        self._compressor = settings.compressor(Counter())

    def decide(self, call: Call, since: Since) -> Made:
        """Return the edit that the compressor makes of a prompt; its body is written elsewhere."""
        request = request_of(call)
        compression = self._compressor.compress_request(request, since=since)
        return made_of(self._compressor, request, compression)

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
        compressor, messages = self._compressor, request.messages
        if request.field == "messages" and (asked.get("rows") == "keep" or is_partial(messages)):
            # A caller that withholds messages needs as many rows back as it sent.
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
