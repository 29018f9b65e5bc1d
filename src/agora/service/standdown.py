"""No new edits for an owner whose last thousand calls cost more with edits than without."""

from collections import OrderedDict

_PARTS = 10
"""The window is stored as sums of its parts, without single calls."""
_MAX_OWNERS = 10_000


class StandDown:
    """The net saving of each owner over a window of calls. If it is lost, a new window begins.

    Calls without an edit save nothing and still count, so an owner who stands down returns when
    the losses have left the window. Edits in force stay meanwhile: dropping them would cost more.

    >>> ledger = StandDown(window=10)
    >>> for _ in range(10): ledger.add("t-1", -0.01)
    >>> ledger.stands_down("t-1"), ledger.stands_down("t-2")
    (True, False)
    """

    def __init__(self, window: int = 1_000) -> None:
        self._size = max(1, window // _PARTS)
        self._owners: OrderedDict[str, tuple[list[float], int]] = OrderedDict()

    def add(self, owner: str, dollars: float) -> None:
        """Add a billed call and its saving; 0 if it was not edited."""
        parts, calls = self._owners.pop(owner, ([], 0))
        if calls % self._size == 0:
            parts = [*parts[-_PARTS + 1 :], 0.0]
        parts[-1] += dollars
        self._owners[owner] = (parts, calls + 1)
        if len(self._owners) > _MAX_OWNERS:
            self._owners.popitem(last=False)

    def stands_down(self, owner: str) -> bool:
        """Return True if the last window of calls of an owner lost money."""
        parts, calls = self._owners.get(owner, ([], 0))
        return calls >= _PARTS * self._size and sum(parts) < 0

    def count(self) -> int:
        """Return how many owners stand down."""
        return sum(map(self.stands_down, self._owners))
