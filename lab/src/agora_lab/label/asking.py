"""Asks a backbone one question of a plan and returns the answer as a row."""

import os
from dataclasses import dataclass
from typing import Any

from agora_lab.agents.client import ModelClient, Sampling
from agora_lab.label.answers import Answered
from agora_lab.label.plan import Ask, PlanSettings, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """Where and how to ask. What the answers depend on is in the plan."""

    address: str
    """The base URL of an OpenAI-compatible endpoint, with `/v1`."""
    model: str
    """The endpoint's name for the model."""
    max_retries: int = 10
    key_variable: str = ""
    """The environment variable that holds the API key, on every machine that asks."""

    def connect(self, settings: PlanSettings, concurrency: int) -> ModelClient:
        """Return a client with the plan's sampling and this many concurrent requests."""
        return ModelClient(
            self.model,
            base_url=self.address,
            sampling=Sampling(
                temperature=settings.temperature,
                seed=settings.seed,
                max_tokens=settings.max_tokens,
                stop=settings.stop,
            ),
            max_retries=self.max_retries,
            concurrency=concurrency,
            api_key=os.environ.get(self.key_variable) if self.key_variable else None,
        )


async def ask(one: Ask, request: Request, client: ModelClient) -> Answered:
    """Return the backbone's answer to an ask.

    Raises:
        BackboneError: There was no usable answer.
    """
    if request.kind == "score":
        score = await client.score(request.messages, request.continuation or "")
        return _answered(
            one,
            attempts=score.attempts,
            logprob=score.logprob,
            logprob_tokens=len(score.tokens),
            input_tokens=score.input_tokens,
            output_tokens=len(score.tokens),
        )
    reply = await client.chat(request.messages, samples=request.samples, seed=request.seed)
    return _answered(
        one,
        attempts=reply.attempts,
        texts=tuple(_writable(text) for text in reply.texts),
        input_tokens=reply.input_tokens,
        cached_tokens=reply.cached_tokens,
        output_tokens=reply.output_tokens,
    )


def _writable(text: str) -> str:
    """Replace lone surrogates, legal in JSON, by `?`: Parquet takes valid UTF-8 only."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _answered(one: Ask, **found: Any) -> Answered:
    return Answered(
        key=one.key,
        kind=one.kind,
        case=one.case,
        anchor=one.anchor,
        candidate=one.candidate,
        **found,
    )
