"""The trained worth of both parts of every step: small trees read from tables, no dependency."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agora.core.floor import floor
from agora.core.past import Past
from agora.core.trajectory import Anchor, Step
from agora.core.worth import StepWorth
from agora.scorers.bundle import Bundle, read_bundle
from agora.scorers.parts import FEATURES, VALUES, columns
from agora.scorers.tables import Tables, read

ACTION, OBSERVATION, NAMED = "action.json", "observation.json", "named.json"
"""The weights: one file for each number of a `StepWorth`."""
SHIPPED = Path(__file__).parent / "shipped" / "worth"
SHIPPED_SHA256 = "3ad33b0a2b6235c1b54eef42692a96aec1cb9143b6b9cf863e537d7422056358"
"""Of the manifest, which has the hashes of the other files."""
_K_RECENT = 2
"""Where nobody says what is held, so many of the newest steps are taken to be."""


@dataclass(frozen=True, slots=True)
class WorthScorer:
    """Gives the probability that a part of a step is needed before the next edit.

    Needed: one of the next thirty actions uses a name that outside the floor this part has for
    the fewest tokens, copies eight tokens or more from it, or asks for it again; the later, the
    less it counts. Three ensembles of small trees over the features of `parts.py`, read from
    tables. The weights are read at the first question and checked against their hash; whatever
    is wrong with them is raised then, where a compressor goes on by its rule.
    """

    bundle: Bundle | None = None
    """Where the weights are from; those of this package when not given."""

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return the calibrated worth of each step's parts."""
        if not past.steps:
            return ()
        found = columns(past, held)
        action, observation, named = _tables(self.bundle)
        return [
            StepWorth(*numbers)
            for numbers in zip(
                action.probabilities(found),
                observation.probabilities(found),
                named.probabilities(found),
                strict=True,
            )
        ]

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the probability that either part is needed, where only one number is asked for.

        Without a preamble and what was said, names that stand there count as the step's own.
        """
        past = Past("", tuple(steps), (), anchor, 0)
        held = floor(steps, k_recent=_K_RECENT)
        return [1 - (1 - one.action) * (1 - one.observation) for one in self.worth(past, held)]


@lru_cache(maxsize=8)
def _tables(bundle: Bundle | None) -> tuple[Tables, Tables, Tables]:
    found = bundle or read_bundle(SHIPPED, sha256=SHIPPED_SHA256)
    action, observation, named = (
        read(found.read(name).decode("utf-8", "replace"), features=FEATURES, values=VALUES)
        for name in (ACTION, OBSERVATION, NAMED)
    )
    return action, observation, named
