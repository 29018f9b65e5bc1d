"""BM25 of each step against the query."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agora.core.memo import ENTRY_WEIGHT, Memo
from agora.core.trajectory import Query, Step

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class BM25Scorer:
    """Scores a step by the words it shares with the task and the newest observation.

    Okapi BM25 with its usual constants, divided by the best score so that it
    is in [0, 1].
    """

    k1: float = 1.2
    b: float = 0.75

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step; 0 for a step without shared words."""
        wanted = {*terms(query.task).counts, *terms(query.observation).counts}
        documents = [(terms(step.action), terms(step.observation)) for step in steps]
        lengths = [action.total + seen.total for action, seen in documents]
        mean_length = sum(lengths) / len(steps) if steps else 0.0
        # An intersection of sets does not visit each word of the query in each step.
        shared = [
            (action.counts.keys() & wanted) | (seen.counts.keys() & wanted)
            for action, seen in documents
        ]
        having: Counter[str] = Counter()
        for words in shared:
            having.update(words)
        rarity = {
            word: math.log(1 + (len(steps) - n + 0.5) / (n + 0.5)) for word, n in having.items()
        }
        gain = self.k1 + 1
        scores = []
        for (action, seen), words, length in zip(documents, shared, lengths, strict=True):
            score = 0.0
            damping = self._damping(length, mean_length) if words else 0.0
            in_action, in_seen = action.counts.get, seen.counts.get
            # In a fixed order: a sum of floats depends on it.
            for word in sorted(words):
                n = in_action(word, 0) + in_seen(word, 0)
                score += rarity[word] * n * gain / (n + damping)
            scores.append(score)
        best = max(scores, default=0.0)
        return [score / best if best else 0.0 for score in scores]

    def _damping(self, length: int, mean_length: float) -> float:
        return self.k1 * (1 - self.b + self.b * length / mean_length)


class Terms(NamedTuple):
    """The counts of a text's words, and their sum."""

    counts: dict[str, int]
    total: int


_terms: Memo[Terms] = Memo(4_000_000)


def terms(text: str) -> Terms:
    """Return the words of a text, in lower case, with their counts."""
    counted = _terms.get(text)
    if counted is None:
        words = _WORD.findall(text.lower())
        counted = Terms(dict(Counter(words)), len(words))
        _terms.put(text, counted, len(text) + ENTRY_WEIGHT)
    return counted
