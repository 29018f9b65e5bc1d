"""Questions as pairs of texts, for scorers that read language.

Most steps are not needed, and an encoder is slow. So only a sample of the pairs not
needed is used, each weighted by how many it represents. In training every source has
the same share of needed pairs, since one in which they are rare could otherwise be
recognised by its wording alone; the calibration uses the true counts.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agora.errors import MissingExtraError
from agora.scorers.atoms import SIDE_CHARACTERS
from agora.scorers.cross_encoder import pair_texts
from agora_lab.train.questions import Question

try:
    import numpy as np
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

_NEEDED = 0.5
SHARE = 0.2
"""The share of needed pairs in training. Lower, most batches of 16 would have none or one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How many pairs to use from each source."""

    share: float = SHARE
    """The share of needed pairs among those drawn, if there are enough that were not."""
    least: int = 100
    """Of what was not needed at least so many, also of a source where nothing was."""
    seed: int = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Labelled pairs in columns."""

    texts: Sequence[tuple[str, str]]
    """The anchor's and the step's, as the scorer will read them."""
    labels: Sequence[float]
    tasks: Sequence[str]
    sources: Sequence[str]
    times: Sequence[float]
    """How many pairs each represents."""

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return len(self.texts)

    @property
    def needed(self) -> int:
        """How many of them were needed."""
        return sum(label >= _NEEDED for label in self.labels)


def pairs_of(
    questions: Iterable[Question],
    *,
    draw: Draw | None = None,
) -> Pairs:
    """Return the pairs of the questions: all of them, or those that are drawn."""
    asked = list(questions)
    by_source: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, question in enumerate(asked):
        by_source[question.source] += [(number, at) for at in range(question.pairs)]
    drawn: list[tuple[int, int, float]] = []
    for source, places in sorted(by_source.items()):
        needed = [place for place in places if asked[place[0]].labels[place[1]] >= _NEEDED]
        chosen = set(needed)
        others = [place for place in places if place not in chosen]
        for kind, count in (
            (needed, len(needed)),
            (others, len(others) if draw is None else _others(len(needed), len(others), draw)),
        ):
            if draw is not None and count < len(kind):
                picked = random.Random(f"{draw.seed} {source}").sample(kind, count)
            else:
                picked = kind
            drawn += [(*place, len(kind) / len(picked)) for place in picked]
    drawn.sort()
    texts: list[tuple[str, str]] = []
    for number, at, _ in drawn:
        question = asked[number]
        step = question.past[question.candidates[at]]
        texts += pair_texts(question.anchor, [step], characters=SIDE_CHARACTERS)
    return Pairs(
        texts=texts,
        labels=[asked[number].labels[at] for number, at, _ in drawn],
        tasks=[asked[number].task for number, _, _ in drawn],
        sources=[asked[number].source for number, _, _ in drawn],
        times=[times for _, _, times in drawn],
    )


def _others(needed: int, others: int, draw: Draw) -> int:
    return min(others, max(draw.least, round(needed * (1 - draw.share) / draw.share)))


def training_weights(pairs: Pairs, *, share: float = SHARE) -> list[float]:
    """Return the weight of each pair in the loss: 1 on average.

    Every source has the same share of needed pairs, and each needed pair the
    same weight. A source in which nothing was needed counts for nothing.
    """
    labels, sources, times = _columns(pairs)
    weights = np.zeros(len(labels))
    for source in sorted(set(pairs.sources)):
        here = sources == source
        needed, others = here & labels, here & ~labels
        weights[needed] = share
        total = max(times[others].sum(), 1e-12)
        weights[others] = (1 - share) * needed.sum() * times[others] / total
    mean = weights.mean() if len(weights) else 0.0
    return [float(one) for one in (weights / mean if mean else weights)]


def real_weights(pairs: Pairs) -> list[float]:
    """Return the weight of each pair in the calibration, with the true shares of its source.

    A source weighs by how many of its pairs were needed, not by its size.
    """
    labels, sources, times = _columns(pairs)
    weights = np.zeros(len(labels))
    for source in sorted(set(pairs.sources)):
        here = sources == source
        weights[here] = (here & labels).sum() * times[here] / times[here].sum()
    return [float(one) for one in weights]


def _columns(pairs: Pairs) -> tuple[Any, Any, Any]:
    labels = np.array([label >= _NEEDED for label in pairs.labels], dtype=bool)
    return labels, np.array(pairs.sources, dtype=object), np.array(pairs.times, dtype=float)
