"""Asks a backbone one question of a plan and returns the answer as a row."""

import contextvars
import os
from dataclasses import dataclass, field
from typing import Any

from agora_lab.agents.openai_compatible import AsyncOpenAICompatible, Sampling
from agora_lab.agents.retries import Call, HttpReply, NoReply, RetryPolicy
from agora_lab.label.answers import Answered
from agora_lab.label.plan import Ask, PlanSettings, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """Where and how to ask. What the answers depend on is in the plan."""

    address: str
    """The base URL of an OpenAI-compatible endpoint, with `/v1`."""
    model: str
    """The endpoint's name for the model."""
    samples_at_once: int | None = None
    """Most samples per request; for llama.cpp, its slots. None for no limit."""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    key_variable: str = ""
    """The environment variable that holds the API key, on every machine that asks."""

    def connect(self, settings: PlanSettings, concurrency: int) -> "CountingBackbone":
        """Return a client with the plan's sampling and this many concurrent requests."""
        return CountingBackbone(
            self.address,
            self.model,
            sampling=Sampling(
                temperature=settings.temperature,
                seed=settings.seed,
                max_tokens=settings.max_tokens,
                stop=settings.stop,
            ),
            retry_policy=self.retry_policy,
            concurrency=concurrency,
            api_key=os.environ.get(self.key_variable) if self.key_variable else None,
        )


@dataclass(slots=True)
class _Count:
    """The calls one ask needed."""

    calls: int = 0
    again: int = 0
    scored_tokens: int = 0


_COUNT: contextvars.ContextVar[_Count] = contextvars.ContextVar("agora_asking_count")


class CountingBackbone(AsyncOpenAICompatible):
    """A client that counts calls and retries per ask."""

    async def _call(self, call: Call) -> HttpReply | NoReply:
        heard = await super()._call(call)
        count = _COUNT.get(None)
        if count is not None:
            count.calls += 1
            if not (isinstance(heard, HttpReply) and 200 <= heard.status < 300):
                count.again += 1
            else:
                # Servers report no usage for scores, so the prompt sent is counted.
                count.scored_tokens = max(count.scored_tokens, call.prompt_tokens)
        return heard


async def ask(
    one: Ask, request: Request, client: AsyncOpenAICompatible, *, at_once: int | None = None
) -> Answered:
    """Return the backbone's answer to an ask.

    If a request can return fewer samples than needed, several are made, each with
    its own seed.

    Raises:
        BackboneError: there was no answer within the client's retry policy.
    """
    count = _Count()
    _COUNT.set(count)
    if request.kind == "score":
        scores = await client.score(request.messages, request.continuation or "")
        return _answered(
            one,
            count,
            logprob=sum(score.logprob for score in scores),
            logprob_tokens=len(scores),
            input_tokens=count.scored_tokens,
            output_tokens=len(scores),
        )
    texts: list[str] = []
    input_tokens = cached_tokens = output_tokens = 0
    while len(texts) < request.samples:
        wanted = request.samples - len(texts)
        reply = await client.chat(
            request.messages,
            samples=wanted if at_once is None else min(wanted, at_once),
            seed=request.seed + len(texts),
        )
        texts += [_writable(choice.text) for choice in reply.choices]
        input_tokens += reply.input_tokens
        cached_tokens += reply.cached_tokens
        output_tokens += reply.output_tokens
    return _answered(
        one,
        count,
        texts=tuple(texts),
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
    )


def _writable(text: str) -> str:
    """Return the text as valid UTF-8 for Parquet: a lone surrogate, legal in JSON, becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _answered(one: Ask, count: _Count, **found: Any) -> Answered:
    return Answered(
        key=one.key,
        kind=one.kind,
        case=one.case,
        anchor=one.anchor,
        candidate=one.candidate,
        attempts=1 + count.again,
        **found,
    )
