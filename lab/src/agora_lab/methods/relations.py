"""AGORA with skeletons that give the key of each name."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agora.core.elide import ARROW
from agora_lab.methods.agora import Agora
from agora_lab.methods.base import Messages, Shortened

_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class RelatedAgora:
    """AGORA whose markers write `key=value` for names that were values in a JSON observation.

    The keys come on top of the budget; `agora lab fidelity` reports the cost of each prompt.
    """

    agora: Agora

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages, their skeletons with keys."""
        # The lab's chats: system, task, then alternating actions and observations.
        shortened = self.agora.shorten(messages)
        if shortened.messages is messages:
            return shortened
        seen = {
            at // 2: str(one["content"]) for at, one in enumerate(messages) if at > 2 and at % 2
        }
        whole = {id(one) for one in messages}
        sent = [
            one if id(one) in whole else {**one, "content": related(str(one["content"]), seen)}
            for one in shortened.messages
        ]
        return Shortened(messages=sent, detail=shortened.detail)


def related(text: str, observations: Mapping[int, str]) -> str:
    r"""Return a text with the names in its skeletons prefixed by their keys.

    >>> seen = {3: '{"seat": "12A", "flights": [{"id": "HAT1"}, {"id": "HAT2"}]}'}
    >>> print(related("[step 3 elided]\n3 search -> 12A HAT1 HAT2 x-9", seen))
    [step 3 elided]
    3 search -> seat=12A id=HAT1 HAT2 x-9
    """
    lines = text.split("\n")
    marker = False
    for at, line in enumerate(lines):
        number, _, rest = line.partition(" ")
        if line.startswith("[step") and " elided" in line and line.endswith("]"):
            marker = True
        elif marker and number.isascii() and number.isdigit():
            lines[at] = f"{number} {_related(rest, observations.get(int(number), ''))}"
        else:
            marker = False
    return "\n".join(lines)


def _related(line: str, observation: str) -> str:
    head, arrow, brought = line.partition(ARROW)
    try:
        # What the user said in the middle follows it.
        value, _ = _JSON.raw_decode(observation)
    except (ValueError, RecursionError):
        return line
    # The first key of a value wins.
    keys = dict(reversed([*_values(value)]))
    words: list[str] = []
    last = ""
    for name in brought.split():
        key = keys.get(name, "")
        # A repeated key is written once: a list of ids stays a list.
        words.append(f"{key}={name}" if key and key != last else name)
        last = key
    return head + arrow + " ".join(words)


def _values(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each number and word of a JSON value with its key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _values(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner, key)
    elif key and not isinstance(value, bool) and isinstance(value, str | int | float):
        yield str(value), key
