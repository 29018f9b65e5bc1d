"""The scorers that need no package, by name, and the one that is the default."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agora.core.past import Past
from agora.core.scorer import Scorer
from agora.core.worth import StepWorth
from agora.scorers.features import FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.rule import RuleWorth
from agora.scorers.worth import WorthScorer


@dataclass(frozen=True, slots=True)
class LexicalWorth(LexicalScorer):
    """The scorer that is called `lexical`: BM25 for whole steps, the rule for forms."""

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return what the parts of each step are worth, by rule."""
        return RuleWorth().worth(past, held)


DEFAULT = "worth"
"""The scorer of the library, the gateway, every command and replay where none is named."""
BUILT_IN: Mapping[str, Callable[[], Scorer]] = MappingProxyType(
    {
        "features": FeaturesScorer,
        "lexical": LexicalWorth,
        "recency": RecencyScorer,
        "worth": WorthScorer,
    }
)
NAMES = ("default", *BUILT_IN)
"""Every scorer that has a name; `agora.load_scorer` takes bundle folders too."""


def default_scorer() -> Scorer:
    """Return the scorer that is used where none is named.

    >>> type(default_scorer()) is BUILT_IN[DEFAULT]
    True
    """
    return BUILT_IN[DEFAULT]()
