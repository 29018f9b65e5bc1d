"""The wire formats that are known, and how another one is added."""

from collections.abc import Mapping

from agora.adapters.base import Adapter
from agora.adapters.format import Format
from agora.errors import SettingError, UnknownFormatError, nearest

ADAPTERS: dict[str, Adapter] = {}
"""What reads and writes each format, by its name."""
_FORMATS: dict[str, Format] = {}
_ADDED: list[str] = []
"""Of these, the names of those that did not come with the package."""
_ALIASES: dict[str, str] = {}


def register(format: Format) -> None:
    """Add a format, for the whole process: from then on everything here reads it.

    Raises:
        SettingError: another format has its name, or one of its aliases.
    """
    install(format)
    _ADDED.append(format.name)


def install(format: Format) -> None:
    """Add a format that comes with the package.

    Raises:
        SettingError: another format has its name, or one of its aliases.
    """
    taken = {*_FORMATS, *_ALIASES}
    for name in (format.name, *format.aliases):
        if name in taken:
            needed = "a name that no other format has; call unregister for the other one first"
            raise SettingError("format", repr(name), needed)
    _FORMATS[format.name] = format
    ADAPTERS[format.name] = format.adapter
    _ALIASES.update(dict.fromkeys(format.aliases, format.name))


def unregister(name: str) -> None:
    """Take out a format that was added.

    Raises:
        UnknownFormatError: none of that name was.
    """
    if name not in _ADDED:
        raise UnknownFormatError(f"no format {name!r} was added", tuple(_ADDED))
    _ADDED.remove(name)
    format = _FORMATS.pop(name)
    del ADAPTERS[name]
    for alias in format.aliases:
        del _ALIASES[alias]


def formats() -> tuple[Format, ...]:
    """Return every format in the order of asking: whoever adds one means it before the others."""
    own = (format for name, format in _FORMATS.items() if name not in _ADDED)
    return (*added_formats(), *own)


def added_formats() -> tuple[Format, ...]:
    """Return the formats that did not come with the package, the newest first."""
    return tuple(_FORMATS[name] for name in reversed(_ADDED))


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, in the order in which they were added."""
    return tuple(_FORMATS)


def known_format(name: str) -> str:
    """Return the format's own name for `name`, which may be an alias.

    Raises:
        UnknownFormatError: there is no such format.
    """
    name = _ALIASES.get(name, name)
    if name not in _FORMATS:
        near = nearest(name, (*_FORMATS, *_ALIASES))
        raise UnknownFormatError(f"there is no format {name!r}{near}", format_names())
    return name


def format_named(name: str) -> Format:
    """Return a format by its name or an alias.

    Raises:
        UnknownFormatError: there is no such format.
    """
    return _FORMATS[known_format(name)]


def find_format(name: str) -> Format | None:
    """Return a format by its own name, None if there is none."""
    return _FORMATS.get(name)


def thinking_signed(name: str) -> bool:
    """Tell whether messages of a format may hold a model's signed thinking."""
    format = _FORMATS.get(name)
    return format is not None and format.signs_thinking


def body_formats() -> Mapping[str, Format]:
    """Return the formats whose prompts come in a request's body, by name."""
    return {name: format for name, format in _FORMATS.items() if format.fields is not None}
