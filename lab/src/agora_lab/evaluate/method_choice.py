"""A method as it is named on the command line: `NAME` or `NAME,option=value,...`.

NAME is one of the lab's, or `package.module:Class`.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Self

from agora import AgoraError
from agora_lab.methods import ASKING, NAMES, MethodSettings, target_of

_OWN = {one.name for one in dataclasses.fields(MethodSettings)} - {
    "options",
    "seed",
    "llm",
    "atom",
    "observations",
}


class ExperimentError(AgoraError):
    """An experiment that cannot be played."""


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method and its settings.

    >>> choice = MethodChoice.parse("observation_mask,keep_ratio=.5,window=3")
    >>> choice.method, choice.settings
    ('observation_mask', {'keep_ratio': 0.5, 'options': {'window': 3}})
    """

    method: str
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the method that a text names.

        Raises:
            ExperimentError: The method does not exist, or an option has no value.
        """
        name, *rest = text.split(",")
        if ":" not in name and name not in NAMES:
            raise ExperimentError(f"unknown method {name!r}; use one of {', '.join(NAMES)}")
        settings: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for item in rest:
            key, equals, value = item.partition("=")
            if not equals:
                raise ExperimentError(f"option {item!r} of {name} has no value; use {key}=VALUE")
            (settings if key in _OWN else options)[key] = _value(value)
        return cls(name, settings | ({"options": options} if options else {}))

    @property
    def asks(self) -> bool:
        """True if the method calls a language model itself."""
        return self.method in ASKING

    @property
    def target(self) -> float | None:
        """The compression the method is set to; None if it has no budget."""
        return target_of(self.method, self.settings.get("keep_ratio", 0.25))


def _value(text: str) -> Any:
    """Return a number or a truth value where the text is one."""
    try:
        return json.loads(f"0{text}" if text.startswith(".") else text)
    except ValueError:
        return text
