"""A language model behind any OpenAI-compatible endpoint.

The same client talks to a provider, to vLLM and to llama.cpp's server on a laptop. The `openai`
package sends the requests, waits and tries again.
"""

import asyncio
import json
import logging
import os
import threading
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import openai

from agora_lab.agents.base import Answer, BackboneError, Messages
from agora_lab.agents.purse import Prices, Purse

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_OPTIONAL = ("temperature", "seed", "stop")
"""Parameters that some models refuse, and that a request can do without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a model samples."""

    temperature: float = 0.0
    seed: int | None = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The sampled texts of one question, and their cost."""

    texts: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    finish: str
    """The finish reason of the first text."""
    attempts: int
    """HTTP requests sent, with those that failed."""


@dataclass(slots=True)
class _Tries:
    """HTTP requests sent for one call."""

    sent: int = 0
    free: int = 0
    """Requests that the server refused before it generated anything."""


_TRIES: ContextVar[_Tries] = ContextVar("tries")


async def _count_request(_: object) -> None:
    _TRIES.get().sent += 1


async def _count_response(response: Any) -> None:
    if 400 <= response.status_code < 500 and response.status_code not in (408, 409):
        _TRIES.get().free += 1


class ModelClient:
    """A model behind an OpenAI-compatible endpoint.

    `answer` blocks; `chat` is a coroutine for many concurrent requests. Use one client from one
    event loop only.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        sampling: Sampling | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 4,
        concurrency: int = 8,
        purse: Purse | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Prepare a client. Nothing is sent yet.

        Args:
            model: The server's name for the model.
            base_url: The address with its `/v1`; default `OPENAI_BASE_URL`, then OpenAI's.
            api_key: Default `OPENAI_API_KEY`. A server at an own address may need none.
            sampling: How to sample; temperature 0 by default.
            timeout_s: How long one try may take.
            max_retries: How often the package tries again, with backoff.
            concurrency: Most requests in flight.
            purse: Where each call reserves its dollars before it is sent.
            prices: Needed for a purse if the model has no price sheet.

        Raises:
            BackboneError: There is no key for OpenAI's own address.
            NoPriceError: There is a purse, and the model has no known price.
        """
        self.model = model
        self.sampling = sampling or Sampling()
        self.refused: set[str] = set()
        """Parameters that the model refused, which are not sent any more."""
        self._purse = purse
        self._prices = prices or (Prices.of(model) if purse else None)
        self._max_retries = max_retries
        self._most_samples = 1 << 16
        self._room = asyncio.Semaphore(concurrency)
        address = base_url or os.environ.get("OPENAI_BASE_URL")
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if address else None)
        local = urlsplit(address or "").hostname in ("127.0.0.1", "localhost", "::1")
        try:
            self._client = openai.AsyncOpenAI(
                api_key=key,
                base_url=address,
                timeout=timeout_s,
                max_retries=max_retries,
                http_client=openai.DefaultAsyncHttpxClient(
                    trust_env=not local,
                    event_hooks={"request": [_count_request], "response": [_count_response]},
                ),
            )
        except openai.OpenAIError as error:
            raise BackboneError(f"openai:{model}", f"cannot be asked: {error}") from error
        self.base_url = str(self._client.base_url).rstrip("/")

    def answer(self, messages: Messages, *, max_tokens: int | None = None) -> Answer:
        """Return the answer to these messages.

        Raises:
            BackboneError: There was no usable answer.
            PurseEmptyError: The call might pass the cap; nothing was sent.
        """
        reply = _wait(self.chat(messages, max_tokens=max_tokens))
        return Answer(
            text=reply.texts[0],
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
            finish=reply.finish,
        )

    async def chat(
        self,
        messages: Messages,
        *,
        samples: int = 1,
        seed: int | None = None,
        max_tokens: int | None = None,
    ) -> Reply:
        """Sample several texts.

        A server that samples fewer texts at once is asked several times, each with its own seed.

        Raises:
            BackboneError: There was no usable answer.
            PurseEmptyError: The call might pass the cap; nothing was sent.
        """
        most = max_tokens or self.sampling.max_tokens
        first_seed = self.sampling.seed if seed is None else seed
        texts: list[str] = []
        finish, tokens, attempts = "", [0, 0, 0], 0
        while len(texts) < samples:
            count = min(samples - len(texts), self._most_samples)
            own_seed = None if first_seed is None else first_seed + len(texts)
            body = self._body(messages, count, own_seed, most)
            try:
                found, tries = await self._post("/chat/completions", body, count * most)
            except openai.APIStatusError as error:
                attempts += 1
                if not self._without(error, body):
                    raise self._refusal(error) from error
                continue
            attempts += tries
            choices = found.get("choices")
            if not choices:
                raise BackboneError(self.base_url, f"answered without a choice: {str(found)[:200]}")
            finish = finish or str(choices[0].get("finish_reason") or "")
            texts += [str(choice["message"].get("content") or "") for choice in choices]
            tokens = [sum(pair) for pair in zip(tokens, _usage(found), strict=True)]
        return Reply(
            texts=tuple(texts),
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cached_tokens=tokens[2],
            finish=finish,
            attempts=attempts,
        )

    async def aclose(self) -> None:
        """Close the connections, in the event loop that used the client."""
        await self._client.close()

    def close(self) -> None:
        """Close the connections that `answer` opened."""
        _wait(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _body(
        self, messages: Messages, samples: int, seed: int | None, max_tokens: int
    ) -> dict[str, Any]:
        limit = "max_completion_tokens" if "max_tokens" in self.refused else "max_tokens"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": self.sampling.temperature,
            "seed": seed,
            "stop": list(self.sampling.stop) or None,
            "n": samples if samples > 1 else None,
            limit: max_tokens,
        }
        return {
            name: value
            for name, value in body.items()
            if value is not None and name not in self.refused
        }

    def _without(self, error: openai.APIStatusError, body: Mapping[str, Any]) -> bool:
        """Remember which parameter the server refused; return True if another try makes sense."""
        if error.status_code not in (400, 422):
            return False
        said = str(error.message)
        named = {name for name in body if name == error.param or f"'{name}'" in said}
        if "n" in named:
            self._most_samples = max(1, body["n"] // 2)
            return True
        for name in (*_OPTIONAL, "max_tokens"):
            if name in named:
                self.refused.add(name)
                _LOG.warning("%s refuses %s: %s", self.model, name, said[:200])
                return True
        return False

    async def _post(self, path: str, body: Mapping[str, Any], output: int) -> tuple[Any, int]:
        """Send a request; return the answer as JSON and the number of tries."""
        tries = _Tries()
        most = 0.0
        if self._prices:
            most = self._prices.most(json.dumps(body).encode(), output)
        async with self._room:
            reserved = most * (1 + self._max_retries)
            if self._purse:
                self._purse.reserve(reserved)
            # The provider may bill each try that it did not refuse, until it reports usage.
            answered: float | None = None
            token = _TRIES.set(tries)
            try:
                found: Any = await self._client.post(path, cast_to=object, body=dict(body))
                found = dict(found)
                if self._prices and found.get("usage"):
                    input_tokens, output_tokens, cached = _usage(found)
                    answered = self._prices.dollars(
                        input_tokens=input_tokens,
                        output_tokens=output_tokens,
                        cached_tokens=cached,
                    )
            except openai.APIStatusError as error:
                if error.status_code >= 500 or error.status_code == 429:
                    raise self._failure(error, tries.sent) from error
                raise
            except openai.APIError as error:
                raise self._failure(error, tries.sent) from error
            except (TypeError, ValueError) as error:
                raise BackboneError(self.base_url, f"did not answer with JSON: {error}") from error
            finally:
                _TRIES.reset(token)
                if self._purse:
                    billable = tries.sent - tries.free
                    spent = most * billable
                    if answered is not None:
                        spent = most * (billable - 1) + answered
                    self._purse.settle(reserved, spent)
        return found, tries.sent

    def _refusal(self, error: openai.APIStatusError) -> BackboneError:
        return BackboneError(
            self.base_url,
            f"refused the request with status {error.status_code}: {str(error.message)[:300]}",
        )

    def _failure(self, error: openai.APIError, tries: int) -> BackboneError:
        what = f"gave no answer in {tries} {'try' if tries == 1 else 'tries'}"
        return BackboneError(self.base_url, f"{what}: {str(error.message)[:300]}")


def _usage(found: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return input, output and cached tokens as the server counted them."""
    usage = found.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    prompt = int(usage.get("prompt_tokens") or 0)
    cached = min(int(details.get("cached_tokens") or 0), prompt)
    return prompt, int(usage.get("completion_tokens") or 0), cached


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Start the event loop of all blocking calls in this process, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="agora-models", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
