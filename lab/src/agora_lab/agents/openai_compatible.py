"""Language models behind any OpenAI-compatible endpoint.

The same code talks to a llama.cpp server on a laptop, vLLM, or a vendor. The bytes
hashed for the answer cache are the bytes sent.
"""

import asyncio
import functools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import httpx2

from agora_lab.agents import scoring
from agora_lab.agents.answers import Answers, request_key
from agora_lab.agents.base import Answer, Messages
from agora_lab.agents.retries import (
    BackboneError,
    Call,
    Flow,
    HttpReply,
    NoReply,
    Pause,
    RetryPolicy,
    ask,
)
from agora_lab.agents.scoring import Token, TokenScore

T = TypeVar("T")

# Made once: with these options, `json.dumps` would make a new encoder for every request.
_write = json.JSONEncoder(separators=(",", ":")).encode

_MOST_BYTES = 64 * 1024 * 1024
"""Longer answers are rejected, so that a wrong address does not exhaust memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a backbone samples. Part of a cell's definition, so it is recorded."""

    temperature: float = 0.0
    seed: int | None = 0
    max_tokens: int = 64
    """An answer is a line or two; anything after that is ignored."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of the answers to a request."""

    text: str
    finish: str
    """The finish reason reported by the server: `stop` or `length`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A backbone's reply to one request, with the usage reported by the server."""

    choices: tuple[Choice, ...]
    input_tokens: int
    output_tokens: int
    """As the server reports them; llama.cpp counts those of the first choice only."""
    cached_tokens: int

    def answer(self) -> Answer:
        """Return the first choice as the lab's answer."""
        return Answer(
            text=self.choices[0].text,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            finish=self.choices[0].finish,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """What both clients share: building requests and reading replies."""

    base_url: str
    model: str
    sampling: Sampling
    answers: Answers | None
    retry_policy: RetryPolicy

    def chat(
        self,
        messages: Messages,
        *,
        samples: int = 1,
        seed: int | None = None,
    ) -> Flow[Reply]:
        sampling = self.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
        }
        chosen_seed = sampling.seed if seed is None else seed
        if chosen_seed is not None:
            body["seed"] = chosen_seed
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if samples != 1:
            body["n"] = samples
        record = yield from self._remembered(
            f"{self.base_url}/chat/completions", body, lambda found: _chat_record(found, samples)
        )
        return _read_reply(record)

    def score(self, messages: Messages, continuation: str) -> Flow[tuple[TokenScore, ...]]:
        root = self._root()
        found = yield from self._remembered(
            f"{root}/apply-template",
            {"model": self.model, "messages": [dict(message) for message in messages]},
            lambda found: str(found["prompt"]),
        )
        before = yield from self._tokens(found, special=True)
        return (yield from self._forced(before, continuation))

    def _forced(self, before: Sequence[Token], text: str) -> Flow[tuple[TokenScore, ...]]:
        prompt = [token.id for token in before]
        tokens = yield from self._tokens(text, special=False)
        whole: list[list[Any]] = []
        for piece in scoring.pieces(tokens):
            whole += yield from self._remembered(
                f"{self._root()}/completion",
                scoring.forced_body(self.model, prompt, piece),
                functools.partial(scoring.forced_record, forced=piece),
                prompt_tokens=len(prompt),
            )
            prompt += [token.id for token in piece]
        return scoring.read_record(whole)

    def _tokens(self, text: str, *, special: bool) -> Flow[list[Token]]:
        body = {
            "model": self.model,
            "content": text,
            "add_special": special,
            "parse_special": special,
            "with_pieces": True,
        }
        found = yield from self._remembered(f"{self._root()}/tokenize", body, scoring.read_tokens)
        return [Token(number, bytes.fromhex(data)) for number, data in found]

    def _remembered(
        self,
        url: str,
        body: Mapping[str, Any],
        record: Callable[[Any], Any],
        *,
        prompt_tokens: int = 0,
    ) -> Flow[Any]:
        """Return the cached answer, or ask and cache it.

        Only the parts that are used are cached: the rest is ids and times.
        """
        # Not sorted: the backbone sees the order of a tool's parameters.
        data = _write(body).encode("ascii")
        key = ""
        if self.answers is not None:
            key = request_key(urlsplit(url).path, data)
            found = self.answers.get(key)
            if found is not None:
                return found
        found = yield from ask(url, data, self.retry_policy, prompt_tokens=prompt_tokens)
        try:
            made = record(found)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            said = error if type(error) is ValueError else f"has no {error}"
            raise BackboneError(
                url, f"gave an unusable answer ({said}): {str(found)[:300]}"
            ) from error
        return made if self.answers is None else self.answers.keep(key, made)

    def _root(self) -> str:
        """Return the base URL of llama.cpp's own endpoints: next to /v1, not under it."""
        return self.base_url.removesuffix("/v1")


def _requests(
    base_url: str,
    model: str,
    sampling: Sampling | None,
    answers: Answers | None,
    retry_policy: RetryPolicy | None,
) -> _Requests:
    return _Requests(
        base_url=base_url.rstrip("/"),
        model=model,
        sampling=sampling or Sampling(),
        answers=answers,
        retry_policy=retry_policy or RetryPolicy(),
    )


class OpenAICompatible:
    """A backbone behind an endpoint, with a blocking client. Thread-safe."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        sampling: Sampling | None = None,
        answers: Answers | None = None,
        retry_policy: RetryPolicy | None = None,
        concurrency: int = 4,
        api_key: str | None = None,
    ) -> None:
        self._requests = _requests(base_url, model, sampling, answers, retry_policy)
        self._room = threading.BoundedSemaphore(concurrency)
        self._client = httpx2.Client(
            headers=_headers(api_key),
            limits=httpx2.Limits(max_connections=concurrency),
            trust_env=not _is_here(base_url),
        )

    def answer(self, messages: Messages) -> Answer:
        """Return the answer to these messages.

        Raises:
            BackboneError: it gave no answer, or an unreadable one.
        """
        return self._carry_out(self._requests.chat(messages)).answer()

    def chat(
        self,
        messages: Messages,
        *,
        samples: int = 1,
        seed: int | None = None,
    ) -> Reply:
        """Return the full reply, of several samples if asked for.

        A llama.cpp server gives at most as many samples as it has slots.

        Raises:
            BackboneError: it gave no answer, or an unreadable one.
        """
        return self._carry_out(
            self._requests.chat(
                messages,
                samples=samples,
                seed=seed,
            )
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out(self, flow: Flow[T]) -> T:
        with self._room:
            heard: HttpReply | NoReply | None = None
            while True:
                try:
                    wanted = flow.send(heard)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if isinstance(wanted, Pause):
                    time.sleep(wanted.seconds)
                    heard = None
                else:
                    heard = self._call(wanted)

    def _call(self, call: Call) -> HttpReply | NoReply:
        # The client's own timeout is per read: a server that dribbles could go on forever.
        until = time.monotonic() + call.timeout_s
        try:
            with self._client.stream(
                "POST", call.url, content=call.body, timeout=call.timeout_s
            ) as response:
                body = bytearray()
                for data in response.iter_bytes():
                    body += data
                    if time.monotonic() > until:
                        return NoReply(f"answer incomplete after {call.timeout_s:g} s")
                    if len(body) > _MOST_BYTES:
                        return NoReply(f"more than {_MOST_BYTES:,} bytes")
                return _heard(response, bytes(body))
        except httpx2.TransportError as error:
            return _silence(error, call)


class AsyncOpenAICompatible:
    """The same backbone for thousands of requests on one event loop.

    It uses aiohttp, which takes an eighth of httpx2's time per request
    (lab/notebook/2026-11.md).
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        sampling: Sampling | None = None,
        answers: Answers | None = None,
        retry_policy: RetryPolicy | None = None,
        concurrency: int = 4,
        api_key: str | None = None,
    ) -> None:
        self._requests = _requests(base_url, model, sampling, answers, retry_policy)
        self._concurrency = concurrency
        self._room = asyncio.Semaphore(concurrency)
        self._headers = _headers(api_key)
        self._trust_env = not _is_here(base_url)
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, messages: Messages) -> Answer:
        """Return the answer to these messages; see `OpenAICompatible.answer`."""
        return (await self._carry_out(self._requests.chat(messages))).answer()

    async def chat(
        self,
        messages: Messages,
        *,
        samples: int = 1,
        seed: int | None = None,
    ) -> Reply:
        """Return the full reply; see `OpenAICompatible.chat`."""
        return await self._carry_out(
            self._requests.chat(
                messages,
                samples=samples,
                seed=seed,
            )
        )

    async def score(self, messages: Messages, continuation: str) -> tuple[TokenScore, ...]:
        """Return the log-probability of each token of a continuation; llama.cpp only.

        Raises:
            BackboneError: it gave no answer, or is not a llama.cpp server.
        """
        return await self._carry_out(self._requests.score(messages, continuation))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _carry_out(self, flow: Flow[T]) -> T:
        async with self._room:
            heard: HttpReply | NoReply | None = None
            while True:
                try:
                    wanted = flow.send(heard)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if isinstance(wanted, Pause):
                    await asyncio.sleep(wanted.seconds)
                    heard = None
                else:
                    heard = await self._call(wanted)

    async def _call(self, call: Call) -> HttpReply | NoReply:
        try:
            async with (
                asyncio.timeout(call.timeout_s),
                self._connected().post(call.url, data=call.body, allow_redirects=False) as response,
            ):
                parts: list[bytes] = []
                left = _MOST_BYTES
                async for data in response.content.iter_any():
                    parts.append(data)
                    left -= len(data)
                    if left < 0:
                        return NoReply(f"more than {_MOST_BYTES:,} bytes")
                return HttpReply(
                    response.status, b"".join(parts), response.headers.get("retry-after")
                )
        except TimeoutError:
            return NoReply(f"answer incomplete after {call.timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return NoReply(f"{type(error).__name__}: {error}")

    def _connected(self) -> aiohttp.ClientSession:
        """Return the session, opened by the first call, since it belongs to that event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=self._concurrency),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=self._trust_env,
            )
        return self._session


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    return headers if api_key is None else headers | {"authorization": f"Bearer {api_key}"}


def _is_here(url: str) -> bool:
    """Whether a server is on this machine, where proxy settings must not apply."""
    return urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}


def _heard(response: httpx2.Response, body: bytes) -> HttpReply:
    return HttpReply(response.status_code, body, response.headers.get("retry-after"))


def _silence(error: httpx2.TransportError, call: Call) -> NoReply:
    if isinstance(error, httpx2.TimeoutException):
        return NoReply(f"no answer after {call.timeout_s:g} s")
    return NoReply(f"{type(error).__name__}: {error}")


def _chat_record(found: Any, samples: int) -> dict[str, Any]:
    choices = []
    for choice in found["choices"]:
        message = choice["message"]
        choices.append(
            {
                "text": message.get("content") or "",
                "finish": choice.get("finish_reason") or "",
            }
        )
    if len(choices) != samples:
        raise ValueError(f"gave {len(choices)} choices instead of {samples}")
    usage = found.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    timings = found.get("timings") or {}
    return {
        "choices": choices,
        "input_tokens": int(usage.get("prompt_tokens") or 0),
        "output_tokens": int(usage.get("completion_tokens") or 0),
        "cached_tokens": int(details.get("cached_tokens") or timings.get("cache_n") or 0),
    }


def _read_reply(record: Mapping[str, Any]) -> Reply:
    return Reply(
        choices=tuple(
            Choice(
                text=choice["text"],
                finish=choice["finish"],
            )
            for choice in record["choices"]
        ),
        input_tokens=record["input_tokens"],
        output_tokens=record["output_tokens"],
        cached_tokens=record["cached_tokens"],
    )
