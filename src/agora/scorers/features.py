"""A small learned scorer on structure alone: no encoder, no dependency, no model of language."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agora.core.trajectory import Anchor, Step
from agora.scorers.bundle import Bundle, read_bundle
from agora.scorers.structure import FEATURES, VALUES, columns
from agora.scorers.tables import Tables, read

WEIGHTS = "weights.json"
SHIPPED = Path(__file__).parent / "shipped"
SHIPPED_SHA256 = "b8e78cd32ba26ad149b30cd7043f4b20b321b197e15200e40c89de7878803c5c"
"""Of the manifest, which has the hashes of the other files."""


@dataclass(frozen=True, slots=True)
class FeaturesScorer:
    """Scores a step by the probability that the next action needs a name that only it brought.

    An ensemble of small trees over the features of `structure.py`, read from
    tables. The weights are read at the first question, not before, and checked
    against their hash; whatever is wrong with them is raised then, where a
    compressor goes on by its rule.
    """

    bundle: Bundle | None = None
    """Where the weights are from; those of this package when not given."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one calibrated probability per step."""
        return _tables(self.bundle).probabilities(columns(anchor, steps))


@lru_cache(maxsize=8)
def _tables(bundle: Bundle | None) -> Tables:
    found = bundle or read_bundle(SHIPPED, sha256=SHIPPED_SHA256)
    text = found.read(WEIGHTS).decode("utf-8", "replace")
    return read(text, features=FEATURES, values=VALUES)
