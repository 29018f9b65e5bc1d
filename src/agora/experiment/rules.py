"""Harm bounds: when an experiment stops by itself."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from agora.errors import AgoraError, nearest
from agora.experiment.conversations import NAMES, POSITIVE, TYPICAL
from agora.experiment.sequences import Comparison, Interval

ALPHA = 0.05
"""The chance of a false alarm: that an arm is ever stopped though no bound is passed."""
STOP_WHEN = ("dollars > +5%", "typical_calls > +5%", "errors > +0.02")
"""The bounds of an experiment that names none."""
_FORM = re.compile(r"\s*(\w+)\s*([<>])\s*([+-]\d+(?:\.\d+)?|[+-]\.\d+)\s*(%?)\s*")


class RuleError(AgoraError):
    """A harm bound that cannot be read."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.text!r} {self.problem}"


class Verdict(StrEnum):
    """How things stand with a bound."""

    OPEN = "open"
    CLEARED = "cleared"
    """The effect is surely within the bound."""
    HARM = "harm"
    """The effect is surely beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The most harm that an experiment may do in one figure.

    >>> rule = parse_rule("calls > +5%")
    >>> rule.figure, rule.bound, rule.relative, rule.above
    ('calls', 0.05, True, True)
    """

    text: str
    figure: str
    bound: float
    relative: bool
    """Whether it is a share of what is usual; else it is in the figure's own unit."""
    above: bool
    """Whether more is harm; else less is."""

    def verdict(self, pair: Comparison | None, alpha: float) -> Verdict:
        """Return how the effect stands to the bound, by everything that was seen so far."""
        found = None if pair is None else effect(pair, self.figure, self.relative, alpha)
        if found is None:
            return Verdict.OPEN
        bound = 1 + self.bound if self.relative else self.bound
        if not self.above:
            found, bound = Interval(estimate=0, low=-found.high, high=-found.low), -bound
        if found.low > bound:
            return Verdict.HARM
        return Verdict.CLEARED if found.high <= bound else Verdict.OPEN


def effect(pair: Comparison, figure: str, relative: bool, alpha: float) -> Interval | None:
    """Return what AGORA does to a figure: a factor where it is relative, else a difference."""
    if not relative:
        return pair.difference(alpha)
    if not figure.startswith(TYPICAL):
        return pair.ratio(alpha)
    found = pair.difference(alpha)
    if found is None:
        return None
    return Interval(estimate=_exp(found.estimate), low=_exp(found.low), high=_exp(found.high))


def parse_rule(text: str) -> Rule:
    """Return the bound that a text such as "calls > +5%" or "outcome < -0.02" means.

    Raises:
        RuleError: it means none.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise RuleError(text, 'is no bound; write it like "calls > +5%" or "outcome < -0.02"')
    figure, sign, number, percent = found.groups()
    if figure not in NAMES:
        raise RuleError(text, f"has {figure!r}, which is no figure{nearest(figure, NAMES)}")
    bound = float(number) / (100 if percent else 1)
    relative, above = bool(percent), sign == ">"
    if figure.startswith(TYPICAL) and not relative:
        raise RuleError(text, f"must be in percent: {figure} is a ratio")
    if relative and figure not in POSITIVE and not figure.startswith(TYPICAL):
        raise RuleError(text, f"cannot be in percent: {figure} may be 0 without AGORA")
    if relative and bound <= -1:
        raise RuleError(text, "is below -100 %")
    return Rule(text=text.strip(), figure=figure, bound=bound, relative=relative, above=above)


def alpha_each(rules: int) -> float:
    """Return what each of so many bounds may err, so that all together err at most `ALPHA`."""
    return ALPHA / max(1, rules)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
