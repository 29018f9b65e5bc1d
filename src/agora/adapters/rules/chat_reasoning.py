"""What models behind the chat wire ask of the reasoning that they sent."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import as_list, as_object, model_name
from agora.core.model_names import belongs
from agora.core.request import Request

_FIELDS = ("reasoning_content", "reasoning")
"""Two names of one field: the providers' own, and the one that vLLM and routers give it."""
_DETAILS = ("text", "summary", "data", "signature")
_V4 = "deepseek-v4"
_KIMI_THINKS = ("kimi-k2-5", "kimi-k2-6", "kimi-k2-thinking")
_KIMI_KEEPS = ("kimi-k2-7", "kimi-k3", "k3")
"""Models that always think, and read all they ever thought."""
_HEAD = 64
"""So much of an answer, with its length, tells it from others."""

Key = tuple[object, ...]


def is_v4(request: Request) -> bool:
    """Tell whether the model is DeepSeek's from V4 on, as far as its name says."""
    return model_name(request.model).startswith(_V4)


def check_reasoning(
    items: list[object], request: Request, before: object, out: list[Broken]
) -> None:
    """Put down D2, K1 and K2 by the model's name, and O7 where `before` is known."""
    name = model_name(request.model)
    if name.startswith("deepseek"):
        check_deepseek(items, request, out)
    elif name.startswith(("kimi", "k3")):
        _check_kimi(items, name, request.thinking, out)
    if isinstance(before, list):
        _check_kept(items, before, out)


def check_deepseek(items: list[object], request: Request, out: list[Broken]) -> None:
    """Put down D2, if DeepSeek thinks: for calls, and for all answers once there are tools."""
    if request.thinking is False or (request.thinking is None and not is_v4(request)):
        return
    answers = bool(request.tools) and is_v4(request)
    for n, calls in _without_reasoning(items):
        if calls or answers:
            out.append(broke("D2", n))


def _check_kimi(items: list[object], name: str, thinking: bool | None, out: list[Broken]) -> None:
    keeps = any(belongs(name, one) for one in _KIMI_KEEPS)
    by_default = any(belongs(name, one) for one in _KIMI_THINKS)
    if not keeps and not (by_default if thinking is None else thinking):
        return
    for n, calls in _without_reasoning(items):
        if calls:
            out.append(broke("K1", n))
        elif keeps:
            out.append(broke("K2", n))


def _without_reasoning(items: list[object]) -> list[tuple[int, bool]]:
    """Return where an assistant message lacks its reasoning, and whether it makes calls.

    What is said before the user speaks is the caller's greeting: no model thought about it.
    """
    found = []
    asked = False
    for n, item in enumerate(items):
        message = as_object(item)
        role = message.get("role")
        asked = asked or role == "user"
        if asked and role == "assistant" and not _reasons(message):
            found.append((n, bool(message.get("tool_calls"))))
    return found


def _reasons(message: dict[str, object]) -> bool:
    if message.get("reasoning_details"):
        return True
    return any(isinstance(message.get(field), str) for field in _FIELDS)


def _check_kept(items: list[object], before: list[object], out: list[Broken]) -> None:
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
