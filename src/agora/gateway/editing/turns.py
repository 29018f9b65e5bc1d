"""Work that waits: each owner's in order, and the owners in turn."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Turns(Generic[Item]):
    """A queue for threads, in which nobody waits for all that another has put there.

    >>> turns: Turns[str] = Turns()
    >>> for owner, item in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]:
    ...     turns.put(owner, item)
    >>> [turns.get() for _ in range(len(turns))]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()
        self._changed = threading.Condition()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Item]:
        with self._changed:
            return iter([item for items in self._waiting.values() for item in items])

    def waiting(self, owner: str) -> int:
        """Return how many items of an owner wait."""
        return len(self._waiting.get(owner, ()))

    def put(self, owner: str, item: Item) -> None:
        """Add an item behind those of its owner."""
        with self._changed:
            self._waiting.setdefault(owner, deque()).append(item)
            self._size += 1
            self._changed.notify()

    def get(self) -> Item:
        """Take the next item, of the owner whose turn it is; wait for one if there is none."""
        with self._changed:
            while not self._size:
                self._changed.wait()
            owner, items = self._waiting.popitem(last=False)
            item = items.popleft()
            if items:
                self._waiting[owner] = items
            self._size -= 1
            return item
