"""Fill a room with the best forms of steps: a multiple-choice knapsack, filled greedily."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from agora.core.renditions.rendition import Rendition


class _Upgrade(NamedTuple):
    """From one form of a step to a better one, with what it is chosen by."""

    gain: float
    at: int
    before: int
    after: int


class Filling:
    """The form that each step has so far: at first its cheapest."""

    def __init__(
        self,
        options: Sequence[Sequence[Rendition]],
        *,
        interrupted: Collection[int],
        marker_tokens: int,
    ) -> None:
        """Start with the cheapest form of each step.

        `options` are the forms of each step, each worth more than the one before. `interrupted`
        has the steps after which something was said, so that no marker reaches on. Upgrades are
        chosen by what each of their tokens is worth.
        """
        self._options = options
        self._marker_tokens = marker_tokens
        self._levels = [0] * len(options)
        self._in_run = [not forms[0].in_place for forms in options]
        # Whether a marker could reach from each step to the next one.
        self._joined = [forms[0].number not in interrupted for forms in options]
        self._tokens = sum(forms[0].tokens for forms in options)
        if marker_tokens:
            self._tokens += marker_tokens * sum(
                removed and not self._continues(at) for at, removed in enumerate(self._in_run)
            )

    def fill(self, room: int, first: Sequence[int]) -> list[Rendition]:
        """Take what comes first, then the best upgrades until nothing fits; return the forms."""
        for at in first:
            if len(self._options[at]) > 1:
                self._try(at, 1, room)
        newest_first = range(len(self._options) - 1, -1, -1)
        upgrades = [upgrade for at in newest_first for upgrade in self._hull(at)]
        # The sort is stable: of two that are worth the same the newer step comes first.
        upgrades.sort(key=attrgetter("gain"), reverse=True)
        for upgrade in upgrades:
            if self._levels[upgrade.at] == upgrade.before:
                self._try(upgrade.at, upgrade.after, room)
        # Where markers cost nothing, what did not fit at once never does.
        retried = [u.at for u in upgrades if self._marker_tokens or len(self._options[u.at]) > 2]
        for at in dict.fromkeys(retried):
            for level in range(len(self._options[at]) - 1, self._levels[at], -1):
                if self._try(at, level, room):
                    break
        return [forms[level] for forms, level in zip(self._options, self._levels, strict=True)]

    def _hull(self, at: int) -> list[_Upgrade]:
        """Return the upgrades from where a step is, along the upper hull of worth over tokens."""
        forms = self._options[at]
        if len(forms) - self._levels[at] < 2:
            return []
        if len(forms) == 2:
            return [_Upgrade(self._gain(forms, 0, 1), at, 0, 1)]
        corners = [self._levels[at]]
        for level in range(self._levels[at] + 1, len(forms)):
            while len(corners) > 1 and self._gain(forms, corners[-1], level) >= self._gain(
                forms, corners[-2], corners[-1]
            ):
                corners.pop()
            corners.append(level)
        return [
            _Upgrade(self._gain(forms, before, after), at, before, after)
            for before, after in pairwise(corners)
        ]

    def _gain(self, forms: Sequence[Rendition], before: int, after: int) -> float:
        gained = forms[after].worth - forms[before].worth
        return gained / (forms[after].tokens - forms[before].tokens)

    def _try(self, at: int, level: int, room: int) -> bool:
        """Take a form if it fits."""
        forms = self._options[at]
        cost = forms[level].tokens - forms[self._levels[at]].tokens
        if self._tokens + cost > room and cost > 0 and not self._marker_tokens:
            return False
        leaves = self._in_run[at] and forms[level].in_place
        if leaves and self._marker_tokens:
            # A step that stays in the middle of a run cuts its marker in two.
            neighbours = self._continues(at) + self._goes_on(at)
            cost += self._marker_tokens * (neighbours - 1)
        if self._tokens + cost > room and cost > 0:
            return False
        self._tokens += cost
        self._levels[at] = level
        self._in_run[at] = self._in_run[at] and not leaves
        return True

    def _continues(self, at: int) -> bool:
        """Tell whether the step before is part of the same run."""
        return at > 0 and self._in_run[at - 1] and self._joined[at - 1]

    def _goes_on(self, at: int) -> bool:
        """Tell whether the step after is part of the same run."""
        return at + 1 < len(self._in_run) and self._in_run[at + 1] and self._joined[at]
