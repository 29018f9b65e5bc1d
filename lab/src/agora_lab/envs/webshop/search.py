"""The shop's search: BM25 over Lucene's English analysis."""

import re
from collections.abc import Mapping, Sequence

from agora import MissingExtraError

try:
    import bm25s
    import numpy as np
    import Stemmer
except ImportError as error:
    raise MissingExtraError(__name__, "environments", "agora-lab") from error

K1, B = 0.9, 0.4
"""The values of the published shop; Lucene's 1.2 and 0.75 were no better."""
MOST_RESULTS = 50
"""Products of a search, as published: five pages of ten."""

_WORD = re.compile(r"(?:[^\W\d_]['’.](?=[^\W\d_])|\d[.,](?=\d)|\w)+")
"""Words as Unicode cuts them: `men's`, `u.s.a`, `1,000` and `10.5` stay whole, hyphens cut."""
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then"
    " there these they this to was will with".split()
)


def analyse(text: str) -> list[str]:
    """Return the terms of a text: words in lower case, without stop words, stemmed after Porter.

    >>> analyse("The Men's Running Shoes, size 10.5")
    ['men', 'run', 'shoe', 'size', '10.5']
    """
    words = (_without_possessive(word.lower()) for word in _WORD.findall(text))
    # A stemmer is not safe to share between threads, and making one costs microseconds.
    stem = Stemmer.Stemmer("porter").stemWord
    return [stem(word) for word in words if word not in _STOP_WORDS]


def _without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


class Search:
    """Finds products by words.

    The engine is bm25s with Lucene's variant of BM25. It gets terms instead of text, because its
    tokenizer knows neither possessives nor Lucene's stop words. Products with the same score come
    in the catalogue's order.
    """

    def __init__(self, documents: Mapping[str, str], *, k1: float = K1, b: float = B) -> None:
        self._asins = tuple(documents)
        self._engine = bm25s.BM25(method="lucene", k1=k1, b=b)
        terms = [analyse(text) for text in documents.values()]
        self._engine.index(terms, show_progress=False)
        self._known = frozenset(term for document in terms for term in document)

    def find(self, words: str, *, most: int = MOST_RESULTS) -> Sequence[str]:
        """Return the asins of the products that have any of these words, the best first."""
        terms = [term for term in analyse(words) if term in self._known]
        if not terms:
            return ()
        scores = self._engine.get_scores(terms)
        order = np.argsort(-scores, kind="stable")[:most]
        return tuple(self._asins[at] for at in order if scores[at] > 0)
