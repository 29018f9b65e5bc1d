"""Legal histories by construction, and what tests try on them."""

from harness.histories.fakes import EveryNth, RandomScorer
from harness.histories.history import History, sample

__all__ = ["EveryNth", "History", "RandomScorer", "sample"]
