"""The wire formats that are known, by name."""

from collections.abc import Mapping

from agora.adapters.format import Format
from agora.adapters.formats import BUILT_IN
from agora.errors import UnknownFormatError, nearest

KNOWN: dict[str, Format] = {format.name: format for format in BUILT_IN}
"""Every format by its name, in the order in which they are asked whether a prompt is theirs."""
FORMATS = tuple(KNOWN)


def formats() -> tuple[Format, ...]:
    """Return every format, in the order of asking."""
    return tuple(KNOWN.values())


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(KNOWN)


def known_format(name: str) -> str:
    """Return `name` if it is a format's.

    Raises:
        UnknownFormatError: there is no such format.
    """
    return format_named(name).name


def format_named(name: str) -> Format:
    """Return a format by its name.

    Raises:
        UnknownFormatError: there is no such format.
    """
    if name not in KNOWN:
        near = nearest(name, KNOWN)
        raise UnknownFormatError(f"there is no format {name!r}{near}", format_names())
    return KNOWN[name]


def find_format(name: str) -> Format | None:
    """Return a format by its name, None if there is none."""
    return KNOWN.get(name)


def thinking_signed(name: str) -> bool:
    """Tell whether messages of a format may hold a model's signed thinking."""
    format = KNOWN.get(name)
    return format is not None and format.signs_thinking


def body_formats() -> Mapping[str, Format]:
    """Return the formats whose prompts come in a request's body, by name."""
    return {name: format for name, format in KNOWN.items() if format.fields is not None}
