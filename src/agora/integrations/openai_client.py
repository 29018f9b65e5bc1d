"""OpenAI's clients: an HTTP client that shortens requests and sends them by the client's own."""

import asyncio
import json
from typing import Any

from agora.formats.usage_stream import readable_encodings
from agora.integrations.base import Shortener
from agora.integrations.client_calls import REFUSALS, ClientCall, client_call, library_of
from agora.savings import LEDGER

INNER = "agora_inner"
"""The attribute of our HTTP client with the client that it sends by."""


def http_client_for(inner: Any, shortener: Shortener) -> Any:
    """Return an HTTP client that shortens requests and sends them by `inner`."""
    library = library_of(inner)

    def opened(request: Any) -> ClientCall | None:
        if request.headers.get("authorization", "").startswith("AWS4"):
            return None  # The body is signed.
        call = shortener.attempt(
            lambda: client_call(shortener, request.method, request.url.path, request.content), None
        )
        if call:
            encodings = request.headers.get("accept-encoding", "")
            request.headers["accept-encoding"] = readable_encodings(encodings)
        return call

    def with_body(request: Any, body: Any) -> Any:
        if not body:
            return request
        headers = request.headers.copy()
        del headers["content-length"]
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        options = {"headers": headers, "content": content, "extensions": request.extensions}
        return library.Request(request.method, request.url, **options)

    class SyncClient(library.Client):  # type: ignore[misc, name-defined]
        def send(self, request: Any, **options: Any) -> Any:
            call = opened(request)
            response = inner.send(with_body(request, call and call.body), **options)
            if call and response.status_code in REFUSALS:
                body = call.body_after_refusal(response.read())
                response = inner.send(with_body(request, body), **options) if body else response
            if call:
                call.watch(response)
            return response

        def close(self) -> None:
            inner.close()

    class AsyncClient(library.AsyncClient):  # type: ignore[misc, name-defined]
        async def send(self, request: Any, **options: Any) -> Any:
            call = await asyncio.to_thread(opened, request)
            response = await inner.send(with_body(request, call and call.body), **options)
            if call and response.status_code in REFUSALS:
                body = call.body_after_refusal(await response.aread())
                if body:
                    response = await inner.send(with_body(request, body), **options)
            if call:
                call.watch(response)
            return response

        async def aclose(self) -> None:
            await inner.aclose()

    asynchronous = isinstance(inner, library.AsyncClient)
    http_client = (AsyncClient if asynchronous else SyncClient)(
        headers=inner.headers,
        cookies=inner.cookies,
        params=inner.params,
        timeout=inner.timeout,
        base_url=inner.base_url,
        transport=(library.AsyncBaseTransport if asynchronous else library.BaseTransport)(),
        trust_env=False,
    )
    setattr(http_client, LEDGER, shortener.ledger)
    setattr(http_client, INNER, inner)
    return http_client
