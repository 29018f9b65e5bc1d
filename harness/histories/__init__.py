"""Legal histories by construction, and what tests try on them."""

from harness.histories.fakes import RandomScorer, edit_after
from harness.histories.history import History, sample

__all__ = ["History", "RandomScorer", "edit_after", "sample"]
