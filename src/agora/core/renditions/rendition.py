"""How one step stands in the prompt: chosen once, and written by the adapter as it is."""

from typing import NamedTuple

ARROW = " -> "
"""Stands in a line between what a step did and what came back."""


class Place(NamedTuple):
    """What stands in the places of one call and of its result; None is the caller's own text."""

    action: str | None = None
    result: str | None = None


VERBATIM = (Place(),)
REMOVED = (Place("", ""),)


class Rendition(NamedTuple):
    """One form of one step: what stands there, what that costs, what it is worth."""

    number: int
    """The step."""
    form: str
    places: tuple[Place, ...]
    """A place per result, in their order, and after those one for each call without a result."""
    tokens: int
    worth: float

    @property
    def in_place(self) -> bool:
        """Whether the step's own messages stay; otherwise a marker stands for it."""
        return self.places[0].action is None

    @property
    def result(self) -> str:
        """What is said in place of what came back."""
        return " ".join([place.result for place in self.places if place.result])

    @property
    def lines(self) -> tuple[str, ...]:
        """What a marker says of it: a line for each call, and how many are left out."""
        said = [place for place in self.places if place.action]
        untold = len(self.places) - len(said)
        lines = [
            f"{place.action}{ARROW}{place.result}" if place.result else str(place.action)
            for place in said
        ]
        return (*lines, f"+{untold} calls") if said and untold else tuple(lines)

    @property
    def text(self) -> str:
        r"""What is said in place of what was elided: in notes, or in the lines of a marker.

        >>> get = Place("get_flight number=HAT136", "date=2024-05-20")
        >>> Rendition(3, "line", (get, Place("look", "")), 12, 0.5).text
        'get_flight number=HAT136 -> date=2024-05-20\nlook'
        """
        return self.result if self.in_place else "\n".join(self.lines)
