"""Legal histories by construction, with the truth about the steps they were built from."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agora.core import Observations
from agora.formats import known_format
from harness.histories.choices import TAPE_BYTES, Choices
from harness.histories.draft import Draft
from harness.histories.writers import anthropic, bedrock, gemini, openai, responses, texts

MAX_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a history is written from: the same recipe gives the same history everywhere."""

    format: str
    tape: bytes
    text: str = ""
    max_steps: int = MAX_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A legal request, and what is true of it by construction."""

    format: str
    messages: Any
    system: object = None
    tools: object = None
    thinking: bool | None = None
    observations: Observations | None = None
    closed: tuple[tuple[int, ...], ...] = ()
    """Per step the positions of its calls and results, which stand or fall together. In text
    formats where the step begins and ends."""
    calls: tuple[int, ...] = ()
    """Where the backbone was called: so many messages (characters) were a legal request then."""
    recalls: tuple[tuple[int, int], ...] = ()
    """Calls of the recall tool: the step that made it, and the number it asked for."""
    results: int = 0
    """How many observations there are."""
    recipe: Recipe = field(repr=False, compare=False)

    @property
    def steps(self) -> int:
        """How many steps it was built with."""
        return len(self.closed)

    @property
    def request(self) -> dict[str, Any]:
        """What `Compressor.compress` takes with the messages."""
        return {"format": self.format, "observations": self.observations, **self.options}

    @property
    def options(self) -> dict[str, Any]:
        """What `agora.validate` takes with the messages, except the format."""
        return {"system": self.system, "tools": self.tools, "thinking": self.thinking}

    def upto(self, call: int) -> Any:
        """Return the messages as they were at one of `calls`."""
        return self.messages[:call]

    def retold(self, result: int, text: str) -> "History":
        """Return the same history with another text for one of its observations."""
        return build(self.recipe, retold={result: text})


_WRITERS: Mapping[str, Callable[[Choices, int], Draft]] = MappingProxyType(
    {
        "openai": openai.write,
        "responses": responses.write,
        "anthropic": anthropic.write,
        "gemini": gemini.write,
        "bedrock": bedrock.write,
        "transcript": texts.write_transcript,
    }
)


def build(recipe: Recipe, *, retold: Mapping[int, str] | None = None) -> History:
    """Return the history that a recipe gives, with other texts for the `retold` observations."""
    choices = Choices(recipe.tape, recipe.text, retold=retold)
    draft = _WRITERS[recipe.format](choices, recipe.max_steps)
    return History(
        format=recipe.format,
        messages=draft.messages,
        system=draft.system,
        tools=draft.tools,
        thinking=draft.thinking,
        observations=draft.observations,
        closed=tuple(draft.closed),
        calls=tuple(draft.calls),
        recalls=tuple(draft.recalls),
        results=choices.results,
        recipe=recipe,
    )


def sample(
    format: str,
    count: int,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
) -> Iterator[History]:
    """Yield `count` histories, the same ones for the same seed; needs no hypothesis.

    >>> [history.format for history in sample("openai", 2)]
    ['openai', 'openai']
    """
    source = random.Random(seed)
    name = known_format(format)
    for _ in range(count):
        tape = source.randbytes(TAPE_BYTES)
        yield build(Recipe(format=name, tape=tape, max_steps=max_steps))
