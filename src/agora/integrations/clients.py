"""The OpenAI and Anthropic clients: every request is shortened on its way out.

An Anthropic client gets a `middleware`, an OpenAI client (or one of Anthropic before 2.10) an
`http_client` that sends by the client's own.
"""

import asyncio
import json
import sys
from dataclasses import fields, replace
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.errors import SettingError, nearest
from agora.formats.usage_stream import readable_encodings
from agora.integrations.base import Shortener
from agora.integrations.client_calls import REFUSALS, ClientCall, client_call, library_of
from agora.savings import LEDGER

C = TypeVar("C")
_INNER = "agora_inner"


def wrap(client: C, compressor: Compressor | None = None, **settings: Any) -> C:
    """Return a client like `client` whose requests are shortened; see `agora.wrap`."""
    own: Any = client
    if isinstance(own, type) or not hasattr(own, "with_options"):
        kind = own if isinstance(own, type) else type(own)
        shown = f"{'the class' if kind is own else 'a'} {kind.__module__}.{kind.__qualname__}"
        raise SettingError("client", shown, "a client of openai or anthropic, such as OpenAI()")
    shortener = Shortener(configured(compressor, settings))
    if hasattr(own, "middleware"):
        others = [each for each in own.middleware if not hasattr(each, LEDGER)]
        wrapped = own.with_options(middleware=[*others, _middleware(shortener)])
    else:
        # The only attribute without a public name: the connections, proxies and certificates.
        inner = getattr(own._client, _INNER, own._client)
        wrapped = own.with_options(http_client=_http_client(inner, shortener))
    return wrapped  # type: ignore[no-any-return]


def configured(compressor: Compressor | None, settings: dict[str, Any]) -> Compressor:
    """Return the compressor with the settings that were given by name.

    Raises:
        SettingError: A setting is unknown or out of range.
    """
    known = [field.name for field in fields(Compressor) if field.init]
    for name in settings:
        if name not in known:
            near = nearest(name, known) or f": {', '.join(known)}"
            raise SettingError(name, "no setting of Compressor", f"one that it has{near}")
    return replace(compressor or Compressor(), **settings)


def _middleware(shortener: Shortener) -> Any:
    """Return a middleware for Anthropic's clients, synchronous and asynchronous."""

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
    # Its fields are in the body already, and would be written over it once more.
    copied.options.extra_json = None
    return copied


def _http_client(inner: Any, shortener: Shortener) -> Any:
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
    setattr(http_client, _INNER, inner)
    return http_client
