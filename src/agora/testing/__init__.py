"""Checks for what users write, fakes that work, and legal histories to try both on.

`histories`, the Hypothesis strategy, needs the extra `testing`; nothing else here does.
"""

from typing import TYPE_CHECKING, Any

from agora.testing.checks import check_adapter, check_scorer
from agora.testing.fakes import EveryNth, FailingScorer, FixedScorer, RandomScorer
from agora.testing.history import History, sample

if TYPE_CHECKING:
    from agora.testing.strategies import histories

__all__ = [
    "EveryNth",
    "FailingScorer",
    "FixedScorer",
    "History",
    "RandomScorer",
    "check_adapter",
    "check_scorer",
    "histories",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name == "histories":
        from agora.testing.strategies import histories

        return histories
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
