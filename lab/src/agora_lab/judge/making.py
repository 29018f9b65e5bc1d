"""The prompt of each method at an anchor, of the size that is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations
from agora.errors import AgoraError
from agora_lab.judge.anchors import Anchor
from agora_lab.judge.records import Prompts
from agora_lab.judge.rendering import ModelTokens, Rendering
from agora_lab.judge.rows import EVERYTHING, GATE, RELEASED, Row, made
from agora_lab.methods import Method, SkipMethod

_SHARES_TRIED = 6
"""How often a method is asked for a prompt of the right size: the last two differ by 1.6 % of what
is outside the floor at a share of .25."""


@dataclass(slots=True)
class PromptMaker:
    """Shortens the prompt of an anchor by any method of the table."""

    rendering: Rendering
    counter: ModelTokens
    given: Prompts | None = None
    """Prompts of another run to take instead of making them."""
    make: Callable[..., Method] | None = None
    """Returns the method behind a row, where it is not the lab's."""
    _methods: dict[tuple[Row, Observations | None, float | None], Method] = field(
        default_factory=dict
    )
    _skipped: dict[str, str] = field(default_factory=dict)

    @property
    def skipped(self) -> Mapping[str, str]:
        """The methods that cannot run here, and why."""
        return self._skipped

    def sizes(self, anchor: Anchor) -> tuple[int, int]:
        """Return the tokens of the whole prompt and of the floor, as the model reads them."""
        found = []
        for row in GATE:
            messages, error = self._shortened(anchor, row)
            found.append(0 if error else len(self.token_ids(anchor, messages)))
        return found[0], found[1]

    def fitted(self, anchor: Anchor, row: Row, sizes: tuple[int, int]) -> tuple[Any, str]:
        """Return the longest prompt of a method that the row's share allows.

        Methods count differently: some pay for their markers, some do not, and whole steps seldom
        fit exactly. So each is asked with several shares, and what counts is what would be sent.
        """
        if row.keep is None or row.method in RELEASED or self.given is not None:
            return self._shortened(anchor, row)
        whole, floor = sizes
        most = floor + row.keep * (whole - floor)
        low, high = 0.0, min(1.0, 2 * row.keep)
        tried: list[tuple[int, Any]] = []
        share = row.keep
        for _ in range(_SHARES_TRIED):
            messages, error = self._shortened(anchor, row, share)
            if error:
                return messages, error
            size = len(self.token_ids(anchor, messages))
            tried.append((size, messages))
            low, high = (share, high) if size <= most else (low, share)
            share = (low + high) / 2
        fitting = [one for one in tried if one[0] <= most]
        # One that has to keep more than the share keeps as little as it can.
        return (max(fitting, key=_size) if fitting else min(tried, key=_size))[1], ""

    def token_ids(self, anchor: Anchor, messages: Any) -> Sequence[int]:
        """Return a prompt as the model reads it."""
        return self.rendering.token_ids(self.rendering.prompt(messages, anchor.recorded.tools))

    def _shortened(self, anchor: Anchor, row: Row, share: float | None = None) -> tuple[Any, str]:
        if row.method == EVERYTHING:
            return anchor.messages, ""
        if self.given is not None:
            sent = (self.given.read(anchor.key) or {"sent": {}})["sent"].get(row.label)
            return sent, "" if sent else "the other run has no such prompt"
        observations = anchor.recorded.observations
        key = row, observations, share
        try:
            if key not in self._methods:
                self._methods[key] = (self.make or made)(
                    row, counter=self.counter, observations=observations, share=share
                )
            return list(self._methods[key].shorten(anchor.messages).messages), ""
        except SkipMethod as reason:
            self._skipped[row.method] = str(reason)
            return [], str(reason)
        except AgoraError as error:
            return [], str(error)


def _size(one: tuple[int, Any]) -> int:
    return one[0]
