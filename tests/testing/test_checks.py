from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from agora.adapters import ADAPTERS, FORMATS, Parsed, Rendered
from agora.adapters.openai_chat import OpenAIChat
from agora.core.renditions.markers import Markers
from agora.core.renditions.rendition import Rendition
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Anchor, Step
from agora.errors import ScoreError
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.testing import (
    FailingScorer,
    FixedScorer,
    RandomScorer,
    check_adapter,
    check_scorer,
    sample,
)


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_adapter_passes_its_check(format_name: str) -> None:
    check_adapter(ADAPTERS[format_name])
    check_adapter(ADAPTERS[format_name], sample(format_name, 200, seed=1))


class Careless(OpenAIChat):
    """Changes what it reads."""

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        request.messages.append({"role": "user", "content": "?"})
        return super().parse(request, counter)


class Blind(OpenAIChat):
    """Sees no step."""

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        parsed = super().parse(request, counter)
        return replace(parsed, trajectory=replace(parsed.trajectory, steps=()))


class Miscounting(OpenAIChat):
    """Numbers steps from 0."""

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        parsed = super().parse(request, counter)
        steps = tuple(s._replace(number=s.number - 1) for s in parsed.trajectory.steps)
        return replace(parsed, trajectory=replace(parsed.trajectory, steps=steps))


class Loose(OpenAIChat):
    """Leaves results out of their steps."""

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        parsed = super().parse(request, counter)
        return replace(parsed, owners=[max(0, owner) for owner in parsed.owners])


class Tidy(OpenAIChat):
    """Does not give everything back."""

    def render(
        self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
    ) -> Rendered:
        rendered = super().render(parsed, renditions, markers)
        return replace(rendered, messages=rendered.messages[:-1])


class Talkative(OpenAIChat):
    """Says that it added something when it did not."""

    def render(
        self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
    ) -> Rendered:
        return replace(super().render(parsed, renditions, markers), added=("x",))


class Silent(OpenAIChat):
    """Says nothing of its markers."""

    def render(
        self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
    ) -> Rendered:
        return replace(super().render(parsed, renditions, markers), added=())


class Orphaning(OpenAIChat):
    """Removes calls and leaves their results."""

    def render(
        self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
    ) -> Rendered:
        rendered = super().render(parsed, {}, markers)
        kept = [
            m for m, o in zip(parsed.messages, parsed.owners, strict=True) if o not in renditions
        ]
        return replace(rendered, messages=kept, added=("x",) if renditions else ())


class Scribbling(OpenAIChat):
    """Writes its markers into the caller's own messages."""

    def render(
        self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
    ) -> Rendered:
        rendered = super().render(parsed, renditions, markers)
        if renditions:
            parsed.messages[-1]["seen"] = True
        return rendered


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (Careless(), "parsing changed the caller's messages"),
        (Blind(), "0 steps were read where there are"),
        (Miscounting(), "steps are not numbered from 1"),
        (Loose(), "is not closed over"),
        (Tidy(), "does not give the messages back"),
        (Talkative(), "nothing elided added a text"),
        (Silent(), "no marker says so"),
        (Orphaning(), "the messages are not legal"),
        (Scribbling(), "rendering changed the caller's messages"),
    ],
)
def test_a_wrong_adapter_is_told_in_a_sentence(adapter: OpenAIChat, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_adapter(adapter, sample("openai", 60))


def test_an_adapter_of_another_format_needs_histories() -> None:
    class Cohere(OpenAIChat):
        name = "cohere"

    with pytest.raises(AssertionError, match="give some that it has to read"):
        check_adapter(Cohere())
    check_adapter(Cohere(), sample("openai", 5), legal=lambda messages, history: True)


@pytest.mark.parametrize(
    "scorer", [LexicalScorer(), RecencyScorer(), RandomScorer(7), FixedScorer((0.2, 1.0))]
)
def test_every_scorer_passes_its_check(
    scorer: LexicalScorer | RecencyScorer | RandomScorer | FixedScorer,
) -> None:
    check_scorer(scorer)


@dataclass
class Moody:
    """Gives other scores each time."""

    asked: int = 0

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        self.asked += 1
        return [1 / (1 + self.asked)] * len(steps)


class Greedy:
    """Empties the list it was given."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        scores = [0.5] * len(steps)
        assert isinstance(steps, list)
        steps.clear()
        return scores


class Short:
    """Forgets the last step."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        return [0.5] * (len(steps) - 1)


@pytest.mark.parametrize(
    ("scorer", "sentence"),
    [
        (Moody(), "the same question got other scores"),
        (Greedy(), "the scorer changed the steps"),
        (Short(), "there are 0 scores for 1 steps|there are .* scores"),
        (FixedScorer((), otherwise=1.5), "1.5 is no score"),
        (FixedScorer((), otherwise=float("nan")), "nan is no score"),
        (FixedScorer((), otherwise=True), "True is no score"),
    ],
)
def test_a_wrong_scorer_is_told_in_a_sentence(
    scorer: Moody | Greedy | Short | FixedScorer, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_scorer(scorer)


def test_a_failing_scorer_raises_its_own_error() -> None:
    with pytest.raises(ScoreError, match="no weights"):
        check_scorer(FailingScorer(ScoreError("Fake", "no weights")))
