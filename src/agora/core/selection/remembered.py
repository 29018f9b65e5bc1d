"""Selections of recent edits, by content: a call that goes on with an edit does not plan it again.

Only a cache: whatever is lost or was never there is selected once more, with the same outcome.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")
ENTRIES = 64


class Remembered(Generic[Value]):
    """A bounded mapping, least recently used out first. Safe to use from several threads.

    >>> known: Remembered[str] = Remembered(most=1)
    >>> known.put("a", "one"); known.put("b", "two")
    >>> known.get("a"), known.get("b")
    (None, 'two')
    """

    def __init__(self, most: int = ENTRIES) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Value | None:
        """Return the value that was put under an equal key, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def __reduce__(self) -> "tuple[type[Remembered[Value]], tuple[int]]":
        """Pickle it empty, and copy it so: what it holds only saves time."""
        return type(self), (self._most,)
