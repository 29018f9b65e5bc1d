"""Tokens counted by the estimate, and remembered: the same texts come with every request."""

from agora.core.memo import Memo
from agora.core.tokens import EstimatedTokens

_SHORT_CHARACTERS = 64
_SHORT_MOST = 25_000


class RememberedCounts:
    """Counts as the estimate does, and remembers: the same texts come back with every request.

    Long ones because reading them takes long, names because there are so many of them.
    """

    __slots__ = ("_older", "_short")

    def __init__(self) -> None:
        self._short: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Return how many tokens a text is estimated to have."""
        size = len(text)
        if size > _SHORT_CHARACTERS:
            return _long_counts(text) if size > 1_000 else _count(text)
        found = self._short.get(text)
        if found is not None:
            return found
        # Two generations: what was used since the last change of them outlives the next.
        found = self._older.get(text)
        if found is None:
            found = _count(text)
        if len(self._short) >= _SHORT_MOST:
            self._older, self._short = self._short, {}
        self._short[text] = found
        return found


_count = EstimatedTokens().count
_long_counts = Memo(_count, 8_000_000, name="token_counts")
