"""The gateway's own no, in the words of the API that was asked."""

import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from agora.gateway.body import encode
from agora.gateway.routing.routes import Header, Route, refusal

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RefusedError(Exception):
    """The gateway itself says no."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = 1.0 if retry_after is None and status == 503 else retry_after
        """Seconds after which it may be tried again; None where that would not help."""


async def say(
    send: Send, route: Route, refused: RefusedError, more: tuple[Header, ...] = ()
) -> None:
    """Answer with an error of our own, in the words of the API that was asked."""
    body = encode(refusal(route.family, refused.status, f"agora gateway: {refused.message}"))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        # What is left of the request is not read.
        (b"connection", b"close"),
        *more,
    ]
    if refused.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(refused.retry_after))))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
