"""A table of the file as a dataclass: typed values, and everything that is wrong with the others.

A setting is written down once, as a field of a dataclass in `agora.gateway.config.settings`: its
type, its bounds (`Between`) and a name it had before (`Formerly`) are read from there.
"""

import dataclasses
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from agora.errors import nearest

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds of a number."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Formerly:
    """The name that a setting had before: read for one release more, with a note."""

    name: str


class Table:
    """One table of the file: gives typed values, and gathers what is wrong with the others."""

    def __init__(
        self, data: dict[str, Any], path: str, problems: list[str], outdated: list[str]
    ) -> None:
        self._data = data
        self.path = path
        self._problems = problems
        self._outdated = outdated
        self._known: list[str] = []
        self._children: list[Table] = []

    def blame(self, key: str, problem: str) -> None:
        """Note what is wrong with a key."""
        self._problems.append(f"{self.path}{key} {problem}")

    def has(self, key: str) -> bool:
        """Return whether the file says anything about the key."""
        return key in self._data

    def section(self, kind: type[Section], **given: Any) -> Section:
        """Return the table as a dataclass: each field as its type asks, but for those `given`."""
        values = dict(given)
        types = get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name not in given:
                values[field.name] = self._value(field.name, types[field.name], field)
        return kind(**values)

    def table(self, key: str) -> "Table":
        """Return a table within this one; an empty one where the file has none."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            self.blame(key, f"is {say(value)}; it must be a table: write [{self.path}{key}]")
            value = {}
        return self._child(value, f"{self.path}{key}.")

    def tables(self, key: str) -> list["Table"]:
        """Return the tables of a list of them."""
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.blame(key, f"is {say(value)}; it must be a list of tables: write [[{key}]]")
            return []
        return [self._child(item, f"{self.path}{key}[{at}].") for at, item in enumerate(value)]

    def raw(self, key: str) -> dict[str, Any]:
        """Return a table that somebody else reads."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            self.blame(key, f"is {say(value)}; it must be a table: write [{key}.NAME]")
            return {}
        return value

    def text(self, key: str, default: str) -> str:
        """Return a text that is not empty."""
        value = self._take(key, default)
        if not isinstance(value, str) or (self.has(key) and not value.strip()):
            self.blame(key, f"is {say(value)}; it must be a non-empty string")
            return default
        return value

    def optional(self, key: str) -> str | None:
        """Return a text, or None where the file has none."""
        return self.text(key, "") if self.has(key) else self._take(key, None)

    def one_of(self, key: str, default: Any, choices: Sequence[str]) -> Any:
        """Return one of some words; a hyphen is read as an underscore."""
        value = self._take(key, default)
        if isinstance(value, str) and value not in choices:
            value = value.replace("-", "_")
        if value not in choices and not (default is None and value is None):
            self.blame(
                key,
                f"is {say(value)}; it must be one of {words(choices)}{nearest(value, choices)}",
            )
            return default
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            self.blame(key, f"is {say(value)}; it must be true or false")
            return default
        return value

    def integer(self, key: str, default: int, *, least: float, most: float) -> int:
        """Return a whole number within bounds."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.blame(
                key, f"is {say(value)}; it must be a whole number from {least:,} to {most:,}"
            )
            return default
        return value

    def number(self, key: str, default: float, *, least: float, most: float) -> float:
        """Return a number within bounds."""
        value = self._take(key, default)
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not least <= value <= most:
            self.blame(key, f"is {say(value)}; it must be a number from {least:,g} to {most:,g}")
            return default
        return float(value)

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of texts; a single text is taken for a list of one."""
        value = self._take(key, default)
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple) or not all(
            isinstance(item, str) and item.strip() for item in value
        ):
            self.blame(key, f"is {say(value)}; it must be a list of strings")
            return default
        return tuple(value)

    def finish(self) -> None:
        """Blame every key that nothing asked for."""
        for key in self._data:
            if key not in self._known:
                near = nearest(key, self._known)
                self.blame(
                    key, f"is not a setting{near or '; the settings are ' + words(self._known)}"
                )
        for child in self._children:
            child.finish()

    def _value(self, key: str, type_: Any, field: "dataclasses.Field[Any]") -> Any:
        notes: tuple[Any, ...] = ()
        if get_origin(type_) is Annotated:
            type_, *more = get_args(type_)
            notes = tuple(more)
        default = field.default
        for note in notes:
            if isinstance(note, Formerly) and self.has(note.name):
                if not self.has(key):
                    self._outdated.append(
                        f"{self.path}{note.name} is now called {key}; please rename it"
                    )
                    self._known.append(key)
                    return self._typed(note.name, type_, default, notes)
                self._known.append(note.name)
                self.blame(note.name, f"is the old name of {key}; keep only {key}")
        return self._typed(key, type_, default, notes)

    def _typed(self, key: str, type_: Any, default: Any, notes: tuple[Any, ...]) -> Any:
        if type_ is bool:
            return self.flag(key, default=default)
        if type_ is int or type_ is float:
            bounds = next(note for note in notes if isinstance(note, Between))
            read = self.integer if type_ is int else self.number
            return read(key, default, least=bounds.least, most=bounds.most)
        if type_ is str:
            return self.text(key, default)
        if get_origin(type_) is Literal:
            return self.one_of(key, default, get_args(type_))
        if get_origin(type_) is tuple:
            return self.texts(key, default)
        if get_origin(type_) in (Union, types.UnionType):
            return self.optional(key)
        raise TypeError(f"{self.path}{key} is of a type that no file can hold: {type_}")

    def _child(self, data: dict[str, Any], path: str) -> "Table":
        child = Table(data, path, self._problems, self._outdated)
        self._children.append(child)
        return child

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._data.get(key, default)


def is_header(name: str) -> bool:
    """Tell whether a text may be the name of a header."""
    return bool(name) and all(char.isascii() and (char.isalnum() or char in "-_") for char in name)


def say(value: object) -> str:
    """Return a value as an error shows it, shortened if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def words(names: Sequence[str]) -> str:
    """Return names as an error lists them."""
    return ", ".join(names)
