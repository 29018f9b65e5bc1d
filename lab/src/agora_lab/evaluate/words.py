"""Figures and lists as the sentences of a report say them."""

from collections.abc import Sequence

from agora_lab.evaluate.statistics import Estimate


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def percent(one: Estimate) -> str:
    """Return a share in percent with its interval."""
    return f"{100 * one.value:.0f} % [{100 * one.low:.0f}, {100 * one.high:.0f}]"
