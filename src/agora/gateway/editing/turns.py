"""Work that waits: what is short first, each owner's in order, and the owners in turn."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
_SHORT_FIRST = 8
"""So many short items come before one that is not, and one of each owner: that one waits longer,
but not for ever, and not for all that another has put there."""


class Turns(Generic[Item]):
    """A queue for threads, in which nobody waits for all that another has put there.

    >>> turns: Turns[str] = Turns()
    >>> for owner, item in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]:
    ...     turns.put(owner, item)
    >>> [turns.get() for _ in range(len(turns))]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._short: OrderedDict[str, deque[Item]] = OrderedDict()
        self._others: OrderedDict[str, deque[Item]] = OrderedDict()
        self._changed = threading.Condition()
        self._size = 0
        self._came_first: set[str] = set()
        """The owners whose short items came before the next one that is not."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Item]:
        with self._changed:
            both = (*self._short.values(), *self._others.values())
            return iter([item for items in both for item in items])

    def waiting(self, owner: str) -> int:
        """Return how many items of an owner wait."""
        return sum(len(waiting.get(owner, ())) for waiting in (self._short, self._others))

    def put(self, owner: str, item: Item, *, short: bool = False) -> None:
        """Add an item behind those of its owner; one that is short comes before all others."""
        with self._changed:
            waiting = self._short if short else self._others
            waiting.setdefault(owner, deque()).append(item)
            self._size += 1
            self._changed.notify()

    def get(self) -> Item:
        """Take the next item, of the owner whose turn it is; wait for one if there is none."""
        with self._changed:
            while not self._size:
                self._changed.wait()
            waiting, owner = self._next()
            items = waiting.pop(owner)
            item = items.popleft()
            if items:
                waiting[owner] = items
            self._size -= 1
            return item

    def _next(self) -> "tuple[OrderedDict[str, deque[Item]], str]":
        """Return what the next item is taken from, and whose it is."""
        if not self._others:
            return self._short, next(iter(self._short))
        first = next((owner for owner in self._short if owner not in self._came_first), None)
        if first is not None and len(self._came_first) < _SHORT_FIRST:
            self._came_first.add(first)
            return self._short, first
        self._came_first.clear()
        return self._others, next(iter(self._others))
