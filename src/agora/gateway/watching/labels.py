"""Labels within bounds: no metric grows with what clients write."""

OTHER = "other"
"""The label of everything beyond the cap."""


class Names:
    """The values a label may have: the first so many, and "other".

    >>> names = Names(1)
    >>> names.of("a"), names.of("b"), names.known("b")
    ('a', 'other', 'other')
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._names: set[str] = set()

    def of(self, name: str) -> str:
        """Return the name if there is room for it."""
        if name in self._names:
            return name
        if len(self._names) >= self.most:
            return OTHER
        self._names.add(name)
        return name

    def known(self, name: str) -> str:
        """Return the name if it has been given room before."""
        return name if name in self._names else OTHER
