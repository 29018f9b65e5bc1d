"""Reading values that may have any shape, without ever raising.

Nothing here goes deeper than asked and nothing prints a found value,
so neither deep nesting nor a text of megabytes costs anything.
"""

from collections.abc import Sequence

from agora.adapters.rules.catalogue import Broken, broke
from agora.core.model_names import bare_name

_KINDS = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "a string"),
    (dict, "an object"),
    (list, "an array"),
    (int, "an integer"),
    (float, "a number"),
)
_SHOWN = 40
"""How many characters of a wrong role are shown: enough to know it again."""


def kind_of(value: object) -> str:
    """Return what a reader of JSON calls `value`, with its article.

    >>> [kind_of(value) for value in (None, True, "", {}, [], 1, 0.5, ())]
    ['null', 'a boolean', 'a string', 'an object', 'an array', 'an integer', 'a number', 'a tuple']
    """
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return f"a {type(value).__name__}"


def as_list(value: object) -> list[object]:
    """Return `value` if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def as_object(value: object) -> dict[str, object]:
    """Return `value` if it is a dict, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def model_name(value: object) -> str:
    """Return a model's name without what platforms put around it; empty if it is not known."""
    return bare_name(value) if isinstance(value, str) else ""


def read_messages(value: object, where: str, out: list[Broken]) -> list[object]:
    """Return the list of messages in `value`; report in `out` if it is empty or not a list."""
    if isinstance(value, list) and value:
        return value
    found = "an empty list" if value == [] else kind_of(value)
    out.append(broke("S1", 0, where=where, found=found, needed="a list of messages"))
    return []


def wrong(position: int, value: object, where: str, needed: str) -> Broken:
    """Return S1 for a message, block or field that is missing or of a wrong type."""
    return broke("S1", position, where=where, found=kind_of(value), needed=needed)


def wrong_role(position: int, role: object, where: str, roles: Sequence[str]) -> Broken:
    """Return S3 for a role that is missing, of a wrong type or not one of `roles`."""
    found = repr(role[:_SHOWN]) if isinstance(role, str) else kind_of(role)
    return broke("S3", position, where=where, found=found, roles=", ".join(roles))


def is_blank(text: str) -> bool:
    """Tell whether `text` is empty or white space; stops at the first other character."""
    return not text or text.isspace()
