"""What Gemini accepts as contents."""

from dataclasses import dataclass, field

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import (
    as_object,
    read_messages,
    wrong,
    wrong_role,
)
from agora.core.request import Request

_ROLES = ("user", "model", "function")
_SIGNATURE = ("thoughtSignature", "thought_signature")
Face = tuple[object, ...]
"""What may not change of a part that is signed."""


@dataclass(slots=True)
class _Content:
    """What the order of contents depends on."""

    by_model: bool
    calls: int = 0
    responses: int = 0
    signed: list[Face] = field(default_factory=list)


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the Gemini rules that the request breaks; G9 only where `before` is known."""
    out: list[Broken] = []
    items = read_messages(request.messages, "contents", out)
    read = [_read(n, item, out) for n, item in enumerate(items)]
    previous: _Content | None = None
    for n, content in enumerate(read):
        _check_order(n, content, previous, out)
        previous = content
    if previous is not None and previous.by_model:
        out.append(broke("G5", len(read) - 1))
    if isinstance(before, list):
        known = {face for item in before for face in _read(0, item, []).signed}
        for n, content in enumerate(read):
            if not known.issuperset(content.signed):
                out.append(broke("G9", n))
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


def _read(n: int, item: object, out: list[Broken]) -> _Content:
    if not isinstance(item, dict):
        out.append(wrong(n, item, f"contents[{n}]", "an object"))
        return _Content(by_model=False)
    role = item.get("role")
    if role is None:
        role = "user"
    elif role not in _ROLES:
        out.append(wrong_role(n, role, f"contents[{n}]", _ROLES))
    content = _Content(by_model=role == "model")
    parts = item.get("parts")
    if not isinstance(parts, list) or not parts:
        out.append(wrong(n, parts, f"contents[{n}].parts", "an array of parts"))
        return content
    for m, part in enumerate(parts):
        if isinstance(part, dict):
            _read_part(n, m, part, content, out)
        else:
            out.append(wrong(n, part, f"contents[{n}].parts[{m}]", "an object"))
    return content


def _read_part(
    n: int, m: int, part: dict[str, object], content: _Content, out: list[Broken]
) -> None:
    where = f"contents[{n}].parts[{m}]"
    _read_signature(part, content)
    call = _either(part, "functionCall", "function_call")
    response = _either(part, "functionResponse", "function_response")
    if call is not None:
        content.calls += 1
        _check_object(n, call, "args", f"{where}.functionCall", out)
        if not content.by_model:
            out.append(broke("S6", n, kind="functionCall", role="model"))
    elif response is not None:
        content.responses += 1
        _check_object(n, response, "response", f"{where}.functionResponse", out)
        if content.by_model:
            out.append(broke("S6", n, kind="functionResponse", role="user"))
    elif part.get("text") == "" and not _either(part, *_SIGNATURE):
        # A signature may come alone: streamed answers end with an empty text that carries it.
        out.append(broke("G7", n))


def _read_signature(part: dict[str, object], content: _Content) -> None:
    signature = _either(part, *_SIGNATURE)
    if not isinstance(signature, str | bytes) or not signature:
        return
    call = as_object(_either(part, "functionCall", "function_call"))
    said = (part.get("text"), call.get("name"))
    content.signed.append((signature, *(one if isinstance(one, str) else None for one in said)))


def _check_object(n: int, value: object, inner: str, where: str, out: list[Broken]) -> None:
    """Put down S7 unless `value` is an object whose field `inner` is an object or absent."""
    if not isinstance(value, dict):
        out.append(wrong(n, value, where, "an object"))
        return
    found = value.get(inner)
    if found is not None and not isinstance(found, dict):
        out.append(wrong(n, found, f"{where}.{inner}", "an object"))
    nested = value.get("parts")
    if nested is not None and not _are_objects(nested):
        out.append(wrong(n, nested, f"{where}.parts", "an array of objects"))


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _either(part: dict[str, object], camel: str, snake: str) -> object:
    """Return a field under the name of the wire or that of the Python SDK."""
    found = part.get(camel)
    return part.get(snake) if found is None else found
