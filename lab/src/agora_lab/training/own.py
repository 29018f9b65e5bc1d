"""Whether trees of one's own keep more of what is needed than those that ship.

Tasks, or whole logs, are held out in turn: trees are trained on the others, and both fill the same
share of what an edit may shorten. What counts is how much of the need they keep, by the labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agora.errors import LabelsError
from agora.scorers.worth import WorthScorer
from agora_lab.bootstrap import interval, places, task_counts
from agora_lab.training.fill import Pair, fill
from agora_lab.training.metrics import RESAMPLES, Interval
from agora_lab.training.questions import in_turn
from agora_lab.training.worth import Edit, train_model

SHARE = 0.25
"""Of the tokens that an edit may shorten, what stays: as a compressor's default has it."""
_LEAST_GROUPS = 3
Worths = Sequence[Pair]
"""Of the action and of the observation of each candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """How much of the need is kept at edits of tasks that no tree was trained on."""

    edits: int
    groups: int
    shipped: Interval
    own: Interval
    ahead: Interval
    """Own less shipped, edit by edit."""

    @property
    def verdict(self) -> str:
        """What to do, in a sentence."""
        if self.ahead.low > 0:
            return "Worth it: trees of your own keep more."
        if self.ahead.high < 0:
            return "Not worth it: the shipped trees keep more."
        return "Not shown to be worth it: use the shipped trees, or come back with more logs."


def compare(
    edits: Sequence[Edit],
    groups: Sequence[str],
    *,
    folds: int = 5,
    seed: int = 42,
    done: Callable[[], None] = lambda: None,
) -> Own:
    """Return how trees trained on other groups compare with the shipped ones, group by group.

    `groups` has for each edit what is held out with it.

    Raises:
        LabelsError: there are too few groups to hold some out, or nothing is needed.
    """
    count = len(set(groups))
    if count < _LEAST_GROUPS:
        raise LabelsError(
            "labels", f"cover {count} tasks; at least {_LEAST_GROUPS} are needed to compare"
        )
    folds = min(folds, count)
    side = in_turn(groups, folds, seed)
    shipped, own, whose = [], [], []
    for held in range(folds):
        others = [
            replace(edit, task=group)
            for edit, group in zip(edits, groups, strict=True)
            if side[group] != held
        ]
        action, observation = (
            train_model(others, model, seed=seed).tables for model in ("action", "observation")
        )
        for edit, group in zip(edits, groups, strict=True):
            if side[group] != held or not _needs(edit):
                continue
            columns = list(zip(*edit.rows, strict=True))
            mine = zip(
                action.probabilities(columns), observation.probabilities(columns), strict=True
            )
            own.append(kept(edit, list(mine)))
            shipped.append(kept(edit, _by_shipped(edit)))
            whose.append(group)
        done()
    if not whose:
        raise LabelsError("labels", "need nothing that an edit may shorten; label more logs")
    return Own(
        edits=len(whose),
        groups=len(set(whose)),
        shipped=_mean(shipped, whose),
        own=_mean(own, whose),
        ahead=_mean([mine - theirs for mine, theirs in zip(own, shipped, strict=True)], whose),
    )


def kept(edit: Edit, worths: Worths, share: float = SHARE) -> float:
    """Return the share of an edit's need that stays when so much of its tokens does."""
    sizes = [
        (max(1, step.action_tokens), max(1, step.tokens - step.action_tokens))
        for step in (edit.past.steps[place] for place in edit.candidates)
    ]
    stays = fill(worths, sizes, share * sum(map(sum, sizes)))
    labels = (edit.labels["action"], edit.labels["observation"])
    return sum(labels[part][at] for at, part in stays) / _needs(edit)


def _needs(edit: Edit) -> float:
    return sum(edit.labels["action"]) + sum(edit.labels["observation"])


def _by_shipped(edit: Edit) -> Worths:
    numbers = {edit.past.steps[place].number for place in edit.candidates}
    held = {step.number for step in edit.past.steps} - numbers
    worths = WorthScorer().worth(edit.past, held)
    return [(worths[place].action, worths[place].observation) for place in edit.candidates]


def _mean(values: Sequence[float], groups: Sequence[str]) -> Interval:
    """Return the mean with its interval, whole groups resampled."""
    place, count = places(groups)
    numbers = np.asarray(values)
    drawn = [
        float(np.average(numbers, weights=counts[place]))
        for block in task_counts(count, RESAMPLES, seed=0)
        for counts in block
    ]
    return Interval(float(numbers.mean()), *interval(drawn))
