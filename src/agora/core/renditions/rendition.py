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
    """A place per call, in the order of their results. A call without one is told by the others:
    its result says no more than that it was elided."""
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
    def text(self) -> str:
        """What is said in place of what was elided: in a note, or in a line of a marker.

        >>> get = Place("get_flight number=HAT136", "ok date=2024-05-20")
        >>> Rendition(3, "line", (get, Place("look", "")), 12, 0.5).text
        'get_flight number=HAT136; look -> ok date=2024-05-20'
        """
        said = self.result
        if self.in_place:
            return said
        done = done_text([place.action or "" for place in self.places])
        return f"{done}{ARROW}{said}" if said else done


def done_text(actions: "list[str] | tuple[str, ...]") -> str:
    """Return what was done on one line; calls of which nothing is said are counted.

    >>> done_text(["get id=A-1", "look", ""])
    'get id=A-1; look; +1 calls'
    """
    said = [action for action in actions if action]
    untold = len(actions) - len(said)
    return "; ".join([*said, f"+{untold} calls"] if said and untold else said)
