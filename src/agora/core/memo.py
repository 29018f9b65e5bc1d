"""Results that are remembered in bounded memory; the least recently used goes first."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")
ENTRY_WEIGHT = 200
"""The weight of an entry besides its characters, so that short texts are not free."""


class Memo(Generic[Value]):
    """Values by key, up to a total weight. Safe to use from several threads.

    Only a cache: a lost value is computed again, with the same result.

    >>> known: Memo[str] = Memo(1)
    >>> known.put("a", "one"); known.put("b", "two")
    >>> known.get("a"), known.get("b")
    (None, 'two')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._weight = 0

    def get(self, key: Hashable) -> Value | None:
        """Return the value that was put under an equal key, or None."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, weight: int = 1) -> None:
        """Keep a value, unless it is larger than the whole memory."""
        if weight > self._most:
            return
        with self._lock:
            before = self._values.pop(key, None)
            self._weight += weight - (before[1] if before else 0)
            self._values[key] = (value, weight)
            while self._weight > self._most:
                _, (_, least) = self._values.popitem(last=False)
                self._weight -= least

    def __reduce__(self) -> "tuple[type[Memo[Value]], tuple[int]]":
        """Pickle and copy it empty."""
        return type(self), (self._most,)
