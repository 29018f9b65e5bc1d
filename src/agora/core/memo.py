"""Results of pure functions of a text, in bounded memory; the least recently used goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Result = TypeVar("Result")

ENTRY_WEIGHT = 200
"""What an entry weighs in addition to its text, so that many short texts are not free."""


class Occupancy(NamedTuple):
    """How full a store is and how well it does, since the process started."""

    used: int
    most: int
    hits: int
    misses: int
    forgotten: int


class Store(Generic[Key, Value]):
    """Values by key, up to a total weight; what was used least recently is forgotten first.

    Every operation takes constant time, averaged over the puts, and is safe from any
    thread. A store with a name shows up in `occupancy` and is sized by `share_out`.

    >>> store: Store[str, int] = Store(10)
    >>> store.put("a", 1, 6); store.put("b", 2, 6)
    >>> store.get("a"), store.get("b")
    (None, 2)
    """

    __slots__ = ("_forgotten", "_hits", "_kept", "_lock", "_misses", "_most", "_used")

    def __init__(self, most: int, *, name: str = "") -> None:
        self._most = most
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._used = self._hits = self._misses = self._forgotten = 0
        if name:
            _named[name] = self
            _defaults[name] = most

    def get(self, key: Key) -> Value | None:
        """Return the value, and count it as just used; None when it is not here."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Keep a value; one heavier than the whole store is not kept and displaces nothing."""
        if weight > self._most:
            return
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self._used -= before[1]
            self._kept[key] = (value, weight)
            self._used += weight
            self._shrink()

    def take(self, key: Key) -> Value | None:
        """Return the value and forget it: the caller is going to change it."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            self._used -= found[1]
            return found[0]

    def resize(self, most: int) -> None:
        """Change the total weight; what no longer fits is forgotten at once."""
        with self._lock:
            self._most = most
            self._shrink()

    def occupancy(self) -> Occupancy:
        """Return how full it is and how well it does."""
        with self._lock:
            return Occupancy(self._used, self._most, self._hits, self._misses, self._forgotten)

    def _shrink(self) -> None:
        while self._used > self._most:
            _, (_, weight) = self._kept.popitem(last=False)
            self._used -= weight
            self._forgotten += 1


_named: "dict[str, Store[Any, Any]]" = {}
_defaults: dict[str, int] = {}


class Memo(Generic[Result]):
    """A function of a text that remembers its results, for a number of characters of text.

    A trajectory comes back with one more step, so the same texts are read over
    and over. `functools.lru_cache` bounds how many are kept, not how large they
    are, and an observation may have megabytes.

    >>> upper = Memo(str.upper, 1_000)
    >>> upper("key 7")
    'KEY 7'
    """

    __slots__ = ("_compute", "_store")

    def __init__(
        self, compute: Callable[[str], Result], most_characters: int, *, name: str = ""
    ) -> None:
        self._compute = compute
        self._store: Store[str, Result] = Store(most_characters, name=name)

    def __call__(self, text: str) -> Result:
        """Return the function's result for `text`."""
        found = self._store.get(text)
        if found is not None:
            return found
        # Outside the lock: two threads may compute the same result.
        result = self._compute(text)
        self._store.put(text, result, len(text) + ENTRY_WEIGHT)
        return result

    def occupancy(self) -> Occupancy:
        """Return how full it is and how well it does."""
        return self._store.occupancy()


def occupancy() -> dict[str, Occupancy]:
    """Return, for every named store of the process, how full it is and how well it does."""
    return {name: store.occupancy() for name, store in sorted(_named.items())}


def share_out(most: int) -> None:
    """Split a total weight over the named stores, in proportion to what each has by default."""
    total = sum(_defaults.values())
    for name, store in _named.items():
        store.resize(most * _defaults[name] // total)
