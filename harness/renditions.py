"""Renditions made from lines, for tests that write messages without choosing what stays."""

from collections.abc import Collection, Mapping

from agora.adapters import Parsed
from agora.core.renditions.gone import gone
from agora.core.renditions.rendition import ARROW, Place, Rendition


def renditions(
    parsed: Parsed, lines: Mapping[int, str], noted: Collection[int] = ()
) -> dict[int, Rendition]:
    """Return each of the steps as its line says: `what was done -> what came back`, or nothing.

    Those in `noted`, and those that cannot be removed, keep their action.
    """
    found = {}
    for number, line in lines.items():
        done, _, came = line.partition(ARROW)
        if number in noted or not parsed.trajectory.steps[number - 1].removable:
            found[number] = Rendition(number, "action", (Place(None, came),), 0, 0.0)
        elif line:
            found[number] = Rendition(number, "line", (Place(done, came),), 0, 0.0)
        else:
            found[number] = gone(number)
    return found
