"""A prompt before and after a method, laid side by side message by message."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

_SHARED = 24
"""Characters that two texts must have in common at an end to be the same message, changed."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as a person reads it."""

    who: str
    text: str


def shown(message: Mapping[str, Any]) -> Shown:
    """Return a chat message as a person reads it, its calls written out.

    >>> shown({"role": "user", "content": "Find it."})
    Shown(who='user', text='Find it.')
    """
    texts = [_text(message.get("content"))]
    for call in message.get("tool_calls") or ():
        function = call.get("function", call) if isinstance(call, Mapping) else {}
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        texts.append(f"→ {function.get('name', '')} {arguments}")
    return Shown(str(message.get("role", "")), "\n".join(text for text in texts if text))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        texts.append(text if isinstance(text, str) else json.dumps(part, ensure_ascii=False))
    return "\n".join(texts)


Part = int | list[Any]
"""A message of the prompt after: `3` is message 3 word for word; `[3, 10, "new", 4]` is its first
10 characters, something new, and its last 4; `["user", "text"]` was not there before."""


def align(before: Sequence[Shown], after: Sequence[Shown]) -> list[Part]:
    """Return the prompt after, said by what it has from the prompt before.

    >>> hello, there = Shown("user", "Hello"), Shown("user", "there")
    >>> align([hello, there], [there, Shown("user", "now")])
    [1, ['user', 'now']]
    """
    stay = _places(before, after)
    if len(stay) == len(after):
        return list(stay)
    parts: list[Part] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            parts += range(i, i_end)
        elif tag in ("replace", "insert"):
            parts += _changed(before, after, range(i, i_end), range(j, j_end))
    return parts


def _places(before: Sequence[Shown], after: Sequence[Shown]) -> list[int]:
    """Return where each message after stood before, in order, until one is not found.

    The matcher looks for long runs first, and may pass over messages that are there twice.
    """
    places: list[int] = []
    for message in after:
        start = places[-1] + 1 if places else 0
        found = next((at for at in range(start, len(before)) if before[at] == message), None)
        if found is None:
            break
        places.append(found)
    return places


def restore(before: Sequence[Shown], parts: Sequence[Part]) -> list[Shown]:
    """Return the prompt after, from the prompt before and its parts."""
    found = []
    for part in parts:
        if isinstance(part, int):
            found.append(before[part])
        elif isinstance(part[0], int):
            place, start, new, end = part
            own = before[place]
            found.append(Shown(own.who, own.text[:start] + new + own.text[len(own.text) - end :]))
        else:
            found.append(Shown(*part))
    return found


def _changed(before: Sequence[Shown], after: Sequence[Shown], old: range, new: range) -> list[Part]:
    """Return the parts of a stretch that has no message word for word, best pairs by worth."""
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for a in range(len(old) - 1, -1, -1):
        for b in range(len(new) - 1, -1, -1):
            worth = _worth(before, after, old[a], new[b])
            pair = worth + best[a + 1][b + 1] if worth else 0.0
            best[a][b] = max(best[a + 1][b], best[a][b + 1], pair)
    parts: list[Part] = []
    a = b = 0
    while b < len(new):
        worth = _worth(before, after, old[a], new[b]) if a < len(old) else 0.0
        if worth and best[a][b] == worth + best[a + 1][b + 1]:
            parts.append(_part(old[a], before[old[a]].text, after[new[b]].text))
            a, b = a + 1, b + 1
        elif a < len(old) and best[a][b] == best[a + 1][b]:
            a += 1
        else:
            parts.append([after[new[b]].who, after[new[b]].text])
            b += 1
    return parts


def _worth(before: Sequence[Shown], after: Sequence[Shown], i: int, j: int) -> float:
    """Return how surely one message became the other; 0 if they have nothing to do with it."""
    one, other = before[i], after[j]
    if one.who != other.who:
        return 0.0
    start, end = _common(one.text, other.text)
    longest = max(len(one.text), len(other.text), 1)
    if start + end >= min(_SHARED, longest):
        return 0.5 + (start + end) / longest
    # A result that was replaced stands behind the action that brought it.
    follows = i > 0 and j > 0 and before[i - 1] == after[j - 1] and one.who != "assistant"
    return 0.25 if follows else 0.0


def _part(place: int, before: str, after: str) -> Part:
    if before == after:
        return place
    start, end = _common(before, after)
    return [place, start, after[start : len(after) - end], end]


def _common(one: str, other: str) -> tuple[int, int]:
    """Return how many characters two texts share at the start, and behind that at the end."""
    most = min(len(one), len(other))
    start = _prefix(one, other, most)
    end = _prefix(one[::-1], other[::-1], most - start)
    return start, end


def _prefix(one: str, other: str, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
