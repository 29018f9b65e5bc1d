"""Forms made from lines, for tests that write messages without choosing what stays."""

from collections.abc import Collection, Mapping

from agora.core.forms import Form, Place, omitted
from agora.formats import Parsed


def forms(parsed: Parsed, lines: Mapping[int, str], noted: Collection[int] = ()) -> dict[int, Form]:
    """Return the form of each step from its line, `action -> result`, or none for an empty line.

    Those in `noted`, and those that cannot be removed, keep their action.
    """
    found = {}
    for number, line in lines.items():
        done, _, came = line.partition(" -> ")
        if number in noted or not parsed.trajectory.steps[number - 1].removable:
            found[number] = Form(number, "note", (Place(None, came),), 0)
        elif line:
            found[number] = Form(number, "line", (Place(done, came),), 0)
        else:
            found[number] = omitted(number)
    return found
