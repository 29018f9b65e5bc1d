"""What Gemini accepts as contents."""

from dataclasses import dataclass

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import (
    as_object,
    not_an_object,
    read_messages,
    wrong_field,
    wrong_role,
)
from agora.adapters.rules.told import Told

_ROLES = ("user", "model", "function")


@dataclass(frozen=True, slots=True)
class _Content:
    """What the order of contents depends on."""

    by_model: bool
    calls: int = 0
    responses: int = 0
    unsigned: str | None = None
    """The name of the first call, if it does not carry its thought signature."""
    spoken: bool = False
    """Whether it holds anything but function responses."""


def check(contents: object, told: Told) -> list[Broken]:
    """Return the Gemini rules that `contents` break."""
    out: list[Broken] = []
    items = read_messages(contents, "contents", out)
    read = [_read(n, item, out) for n, item in enumerate(items)]
    previous: _Content | None = None
    for n, content in enumerate(read):
        _check_order(n, content, previous, out)
        previous = content
    if previous is not None and previous.by_model:
        out.append(broke("G5", len(read) - 1))
    if told.strict:
        _check_signatures(read, out)
    return out


def _check_order(n: int, content: _Content, previous: _Content | None, out: list[Broken]) -> None:
    if content.calls and (previous is None or previous.by_model):
        out.append(broke("G1", n))
    asked = previous.calls if previous else 0
    if content.responses and not asked:
        out.append(broke("G2", n))
    elif content.responses != asked:
        out.append(broke("G3", n))
    if previous is not None and previous.by_model == content.by_model:
        out.append(broke("G6", n))


def _check_signatures(read: list[_Content], out: list[Broken]) -> None:
    """Put down G4 for every step since the user last spoke."""
    for n in range(len(read) - 1, -1, -1):
        content = read[n]
        if not content.by_model and content.spoken:
            return
        if content.unsigned is not None:
            out.append(broke("G4", n, name=content.unsigned, place=n + 1))


def _read(n: int, item: object, out: list[Broken]) -> _Content:
    if not isinstance(item, dict):
        out.append(not_an_object(n, item, f"contents[{n}]"))
        return _Content(by_model=False)
    role = item.get("role", "user")
    if role not in _ROLES:
        out.append(wrong_role(n, role, f"contents[{n}]", _ROLES))
    parts = item.get("parts")
    if not isinstance(parts, list) or not parts:
        out.append(wrong_field(n, parts, f"contents[{n}].parts", "an array of parts"))
        return _Content(by_model=role == "model")
    return _count(n, role == "model", parts, out)


def _count(n: int, by_model: bool, parts: list[object], out: list[Broken]) -> _Content:
    calls = responses = 0
    unsigned = None
    for m, part in enumerate(parts):
        if not isinstance(part, dict):
            out.append(not_an_object(n, part, f"contents[{n}].parts[{m}]"))
            continue
        call = _either(part, "functionCall", "function_call")
        if call is not None:
            calls += 1
            if calls == 1 and not _either(part, "thoughtSignature", "thought_signature"):
                name = as_object(call).get("name")
                unsigned = name if isinstance(name, str) else ""
        elif _either(part, "functionResponse", "function_response") is not None:
            responses += 1
    return _Content(by_model, calls, responses, unsigned, spoken=responses < len(parts))


def _either(part: dict[str, object], camel: str, snake: str) -> object:
    """Return a field under the name of the wire or that of the Python SDK."""
    return part.get(camel, part.get(snake))
