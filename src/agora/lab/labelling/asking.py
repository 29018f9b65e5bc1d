"""Ask a backbone what a plan wants to know, and write down what it answers as one row."""

import contextvars
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from agora.lab.backbones.openai_compatible import AsyncOpenAICompatible, Sampling
from agora.lab.backbones.patience import Call, Heard, Patience, Silence
from agora.lab.labelling.answers import Answered
from agora.lab.labelling.plan import Ask, Request, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """Where a plan is asked, and how. What the answers depend on is in the plan."""

    address: str
    """The base URL of an OpenAI-compatible endpoint, with `/v1`."""
    model: str
    """What the endpoint calls the model."""
    scoring: Literal["llama.cpp", "echo"] = "llama.cpp"
    samples_at_once: int | None = None
    """Samples a server gives to one request, at most. llama.cpp: its slots; None for no limit."""
    patience: Patience = field(default_factory=Patience)
    key_variable: str = ""
    """The environment variable that holds the API key, on every machine that asks."""

    def connect(self, settings: Settings, concurrency: int) -> "CountingBackbone":
        """Return a client that asks as the plan says, so many requests at once."""
        return CountingBackbone(
            self.address,
            self.model,
            sampling=Sampling(
                temperature=settings.temperature,
                seed=settings.seed,
                max_tokens=settings.max_tokens,
                stop=settings.stop,
            ),
            patience=self.patience,
            concurrency=concurrency,
            api_key=os.environ.get(self.key_variable) if self.key_variable else None,
            scoring=self.scoring,
        )


@dataclass(slots=True)
class _Count:
    """What one ask took on the wire."""

    calls: int = 0
    again: int = 0
    scored_tokens: int = 0


_COUNT: contextvars.ContextVar[_Count] = contextvars.ContextVar("agora_asking_count")


class CountingBackbone(AsyncOpenAICompatible):
    """A client that counts, for each ask, the calls it made and those it had to make again."""

    async def _call(self, call: Call) -> Heard | Silence:
        heard = await super()._call(call)
        count = _COUNT.get(None)
        if count is not None:
            count.calls += 1
            if not (isinstance(heard, Heard) and 200 <= heard.status < 300):
                count.again += 1
            else:
                # Scores come without a bill, so the prompt that was sent is counted.
                count.scored_tokens = max(count.scored_tokens, call.prompt_tokens)
        return heard


async def ask(
    one: Ask, request: Request, client: AsyncOpenAICompatible, *, at_once: int | None = None
) -> Answered:
    """Return what the backbone answers to an ask.

    A server that gives fewer samples to a request than are wanted is asked
    several times, each time with a seed of its own.

    Raises:
        BackboneError: there was no answer within the client's patience.
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
    """Return the text as Parquet takes it: half a character, as JSON can hold, becomes `?`."""
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
