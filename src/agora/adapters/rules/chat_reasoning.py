"""The reasoning that models behind the chat wire sent: a message keeps the one it came with."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import as_list, as_object

_FIELDS = ("reasoning_content", "reasoning")
"""Two names of one field: the providers' own, and the one that vLLM and routers give it."""
_DETAILS = ("text", "summary", "data", "signature")
_HEAD = 64
"""So much of an answer, with its length, tells it from others."""

Key = tuple[object, ...]


def check_reasoning(items: list[object], before: list[object], out: list[Broken]) -> None:
    """Put down O7 for every message that was there before, with reasoning that was not its own."""
    known: dict[Key, set[Key]] = {}
    for item in before:
        message = as_object(item)
        if message.get("role") == "assistant":
            known.setdefault(_key(message), set()).add(_face(message))
    for n, item in enumerate(items):
        message = as_object(item)
        if message.get("role") != "assistant":
            continue
        faces = known.get(_key(message))
        if faces is not None and _face(message) not in faces:
            out.append(broke("O7", n))


def _key(message: dict[str, object]) -> Key:
    """Return what tells an assistant message from others: its calls, or else what it says."""
    ids = [_text(as_object(call).get("id")) for call in as_list(message.get("tool_calls"))]
    if ids:
        return tuple(ids)
    content = message.get("content")
    if isinstance(content, str):
        return len(content), content[:_HEAD]
    texts = [_text(as_object(part).get("text")) or "" for part in as_list(content)]
    return len(texts), *((len(text), text[:_HEAD]) for text in texts)


def _face(message: dict[str, object]) -> Key:
    """Return what may not change: the reasoning, its sealed parts, and signatures of calls."""
    face: list[object] = [_text(message.get(field)) for field in _FIELDS]
    for detail in as_list(message.get("reasoning_details")):
        face += [_text(as_object(detail).get(field)) for field in _DETAILS]
    for call in as_list(message.get("tool_calls")):
        google = as_object(as_object(as_object(call).get("extra_content")).get("google"))
        face.append(_text(google.get("thought_signature")))
    return tuple(face)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
