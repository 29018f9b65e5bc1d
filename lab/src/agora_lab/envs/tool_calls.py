"""Reads an agent's tool calls. Anything else that it says is talk."""

import json
import re
from dataclasses import dataclass


class CallError(ValueError):
    """A malformed call of a tool; the text shows the right form."""


@dataclass(frozen=True, slots=True)
class OneTool:
    """The only tool of a world, and the name of its argument."""

    name: str
    argument: str

    def extract(self, text: str) -> str:
        r"""Return the first call in an answer, else the whole answer.

        >>> OneTool("act", "command").extract('I look.\n`act {"command": "look"}`')
        'act {"command": "look"}'
        """
        return first_call(text, self._call)

    def given(self, action: str) -> str | None:
        """Return the value of the tool's argument; None without a call.

        >>> OneTool("act", "command").given('act {"command": "look"}')
        'look'

        Raises:
            CallError: The text after the tool's name is not JSON, or lacks the argument.
        """
        found = self._call.fullmatch(action)
        if found is None:
            return None
        try:
            return str(json.loads(found[1])[self.argument])
        except (ValueError, KeyError, TypeError) as error:
            form = f'{self.name} {{"{self.argument}": "{self.argument.upper()}"}}'
            raise CallError(f"the call is {form}") from error

    @property
    def _call(self) -> re.Pattern[str]:
        return re.compile(rf"{self.name} (\{{.*\}})", re.DOTALL)


def first_call(text: str, call: re.Pattern[str]) -> str:
    """Return the first call in an answer, else the whole answer."""
    lines = [line.strip().strip("`") for line in text.splitlines()]
    return next((line for line in lines if call.fullmatch(line)), text.strip())


def canonical(action: str) -> str:
    """Return the canonical form of an action: words in lower case, with single spaces.

    >>> canonical("That  is Done.")
    'that is done.'
    """
    return " ".join(action.lower().split())
