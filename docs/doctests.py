"""Shows the doctests of a docstring as code: an extension for the reference pages."""

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around every doctest of a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with its doctests in fences.

    A doctest begins with a prompt and ends at the next empty line.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            # What stands right before it would take the fence for its own.
            lines += ["", "```pycon"] if lines and lines[-1].strip() else ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
