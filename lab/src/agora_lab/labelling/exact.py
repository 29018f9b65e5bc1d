"""Exact labels: whether leaving out one past step changes a reader's next action.

A reader acts deterministically on the prompt alone, so whether it needed a step can be
determined exactly: leave the step out and ask again.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agora_lab.backbones import Backbone, Messages
from agora_lab.episodes.episode import Episode
from agora_lab.labelling.cases import Case
from agora_lab.labelling.plan import PlanSettings, pairs
from agora_lab.labels import Label

LEAST_PAST = 3
"""With fewer steps, there is nothing outside a floor of two."""

Act = Callable[[Messages], str]
"""Returns the canonical form of a backbone's action."""


def acts(
    backbone: Backbone, *, canonical: Callable[[str], str], extract: Callable[[str], str]
) -> Act:
    """Return a function from messages to the backbone's action, in canonical form."""

    def act(messages: Messages) -> str:
        return canonical(extract(backbone.answer(messages).text))

    return act


def exact(case: Case, act: Act, settings: PlanSettings) -> Iterator[Label]:
    """Return a label for each planned pair: 1 when the action changes without the step, else 0.

    The action with nothing left out is asked for again, not taken from the record. The
    case must be shown as the reader saw it, without examples.
    """
    anchor, before = 0, ""
    for at, candidate in pairs(case, settings):
        if at != anchor:
            anchor, before = at, act(case.prompt(at))
        yield Label(
            trajectory=case.trajectory,
            data=case.data,
            source=case.source,
            task=case.task,
            anchor=at,
            candidate=candidate,
            label=float(act(case.prompt(at, candidate)) != before),
            kind="exact",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One past step left out before one action."""

    task: str
    anchor: int
    """The number of the step whose action is examined, from 1."""
    candidate: int
    """The number of the step that was left out."""
    changed: bool
    """Whether the action changed."""

    @property
    def distance(self) -> int:
        """How many steps ago it was; 1 is the step right before."""
        return self.anchor - self.candidate


def drop_one(
    episodes: Iterable[Episode], act: Act, *, anchors: int = 200, seed: int = 0
) -> Iterator[Dropped]:
    """Return whether the next action changed, for each past step of a sample of anchors.

    The floor's steps are left out in turn as well, to measure its value. Episodes must
    have whole prompts (method `none`) and the same backbone.
    """
    for episode, at in _draw(list(episodes), anchors, seed):
        whole: Sequence[dict[str, Any]] = episode.conversation(at)
        before = act(whole)
        for candidate in range(1, at + 1):
            # System and opening, then two messages for each step. Of the last step what it
            # observed is what the agent has to act on, and stays: only its action goes.
            start = 2 * candidate
            end = start + 1 if candidate == at else start + 2
            after = act([*whole[:start], *whole[end:]])
            yield Dropped(
                task=episode.task, anchor=at + 1, candidate=candidate, changed=after != before
            )


def _draw(episodes: Sequence[Episode], anchors: int, seed: int) -> list[tuple[Episode, int]]:
    places = [(episode, at) for episode in episodes for at in range(LEAST_PAST, len(episode.moves))]
    return random.Random(seed).sample(places, min(anchors, len(places)))


def by_distance(dropped: Iterable[Dropped]) -> dict[str, tuple[int, int]]:
    """Return how often the action changed, and out of how many, by how long ago the step was.

    >>> one = Dropped(task="a", anchor=5, candidate=4, changed=True)
    >>> by_distance([one])
    {'1': (1, 1)}
    """
    counts: dict[str, list[bool]] = defaultdict(list)
    for one in dropped:
        counts[_bin(one.distance)].append(one.changed)
    order = [_bin(distance) for distance in range(1, 40)]
    return {
        name: (sum(counts[name]), len(counts[name]))
        for name in dict.fromkeys(order)
        if name in counts
    }


def _bin(distance: int) -> str:
    for first, last in ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16)):
        if first <= distance <= last:
            return str(first) if first == last else f"{first}-{last}"
    return "17+"
