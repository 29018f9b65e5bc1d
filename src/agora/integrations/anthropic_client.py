"""Anthropic's clients: a middleware, synchronous and asynchronous, for any cloud."""

import asyncio
import sys
from typing import Any

from agora.integrations.base import Shortener
from agora.integrations.client_calls import REFUSALS, ClientCall, client_call
from agora.savings import LEDGER


def middleware_for(shortener: Shortener) -> Any:
    """Return the middleware that shortens a client's requests."""

    class AgoraMiddleware(sys.modules["anthropic"].Middleware):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            setattr(self, LEDGER, shortener.ledger)

        def handle(self, request: Any, call_next: Any) -> Any:
            call = _requested(shortener, request)
            response = call_next(_with_body(request, call and call.body))
            if call and response.status_code in REFUSALS:
                body = call.body_after_refusal(response.http_response.read())
                response = call_next(_with_body(request, body)) if body else response
            if call:
                call.watch(response.http_response)
            return response

        async def handle_async(self, request: Any, call_next: Any) -> Any:
            call = await asyncio.to_thread(_requested, shortener, request)
            response = await call_next(_with_body(request, call and call.body))
            if call and response.status_code in REFUSALS:
                body = call.body_after_refusal(await response.http_response.aread())
                response = await call_next(_with_body(request, body)) if body else response
            if call:
                call.watch(response.http_response)
            return response

    return AgoraMiddleware()


def _requested(shortener: Shortener, request: Any) -> ClientCall | None:
    body = request.json
    if isinstance(body, dict):
        body = {**body, **(request.options.extra_json or {})}
    return shortener.attempt(
        lambda: client_call(shortener, request.method, request.url, body), None
    )


def _with_body(request: Any, body: Any) -> Any:
    if not body:
        return request
    copied = request.copy(body=body)
    # The fields of `extra_json` are in the body already, and would overwrite it.
    copied.options.extra_json = None
    return copied
