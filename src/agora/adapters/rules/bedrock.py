"""What Bedrock Converse accepts."""

from dataclasses import dataclass, field

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import (
    as_list,
    as_object,
    is_blank,
    read_messages,
    wrong,
    wrong_role,
)
from agora.adapters.rules.thinking import check_thinking
from agora.core.request import Request

_ROLES = ("user", "assistant")
_CACHE_POINTS = 4
_SYSTEM = -1


@dataclass(slots=True)
class _Message:
    """What the order of messages depends on."""

    role: object = None
    calls: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    spoken: int = 0
    """How many blocks are neither calls, results, reasoning nor cache points."""
    points: int = 0


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the Bedrock rules that the request breaks; its `tools` are the toolConfig."""
    out: list[Broken] = []
    items = read_messages(request.messages, "messages", out)
    points = _points(request.system) + _points(as_object(request.tools).get("tools"))
    previous = _Message()
    overflow_at = _SYSTEM
    for n, item in enumerate(items):
        message = _read(n, item, previous.role, out)
        _check_pairs(n, message, previous, out)
        if points <= _CACHE_POINTS:
            overflow_at = n
        points += message.points
        previous = message
    _close(len(items), previous, set(), out)
    if points > _CACHE_POINTS:
        out.append(broke("A12", overflow_at, count=points))
    if request.thinking is not None or before is not None:
        faces = [_face(item) for item in before] if isinstance(before, list) else None
        check_thinking([_face(item) for item in items], request, faces, out)
    return out


def _read(n: int, item: object, previous: object, out: list[Broken]) -> _Message:
    """Return what message `n` holds; what is wrong in it alone is reported in `out`."""
    if not isinstance(item, dict):
        out.append(wrong(n, item, f"messages.{n}", "an object"))
        return _Message()
    role = item.get("role")
    if role not in _ROLES:
        out.append(wrong_role(n, role, f"messages.{n}", _ROLES))
    elif n == 0 and role != "user":
        out.append(broke("B3", n))
    elif role == previous:
        out.append(broke("B5", n))
    message = _Message(role)
    content = item.get("content")
    if not isinstance(content, list):
        out.append(wrong(n, content, f"messages.{n}.content", "an array of blocks"))
        return message
    reasoned = False
    for m, block in enumerate(content):
        if isinstance(block, dict):
            _read_block(n, m, block, message, out)
            if reasoned and "cachePoint" in block:
                out.append(broke("B11", n))
            reasoned = "reasoningContent" in block
        else:
            out.append(wrong(n, block, f"messages.{n}.content.{m}", "an object"))
    if message.points == len(content):
        out.append(broke("B9", n))
    return message


def _read_block(
    n: int, m: int, block: dict[str, object], message: _Message, out: list[Broken]
) -> None:
    if "toolUse" in block:
        _read_call(n, m, as_object(block["toolUse"]), message, out)
    elif "toolResult" in block:
        _read_result(n, m, as_object(block["toolResult"]), message, out)
    elif "cachePoint" in block:
        message.points += 1
    elif "reasoningContent" not in block:
        message.spoken += 1
    if "text" in block:
        text = block["text"]
        if not isinstance(text, str):
            out.append(wrong(n, text, f"messages.{n}.content.{m}.text", "a string"))
        elif is_blank(text):
            out.append(broke("B7", n, m=m))


def _read_call(
    n: int, m: int, use: dict[str, object], message: _Message, out: list[Broken]
) -> None:
    if use.get("type") == "server_tool_use":
        # The provider runs it, and its result stands in the same message.
        return
    call_id = use.get("toolUseId")
    if message.role == "user":
        out.append(broke("S6", n, kind="toolUse", role="assistant"))
    elif not isinstance(call_id, str):
        where = f"messages.{n}.content.{m}.toolUse.toolUseId"
        out.append(wrong(n, call_id, where, "a string"))
    else:
        message.calls.append(call_id)


def _read_result(
    n: int, m: int, result: dict[str, object], message: _Message, out: list[Broken]
) -> None:
    if message.role == "assistant":
        return
    where = f"messages.{n}.content.{m}.toolResult"
    call_id = result.get("toolUseId")
    if isinstance(call_id, str):
        message.results.append(call_id)
    else:
        out.append(wrong(n, call_id, f"{where}.toolUseId", "a string"))
    content = result.get("content", [])
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        out.append(wrong(n, content, f"{where}.content", "an array of blocks"))
    elif not content and result.get("status") == "error":
        out.append(broke("B8", n, m=m))


def _check_pairs(n: int, message: _Message, previous: _Message, out: list[Broken]) -> None:
    if len(message.results) > len(previous.calls):
        out.append(broke("B1", n))
    if message.results and message.spoken:
        out.append(broke("B2", n))
    _close(n, previous, set(message.results), out)


def _close(n: int, asking: _Message, answered: set[str], out: list[Broken]) -> None:
    """Put down the calls of the message before `n` that have no result in it."""
    missing = [call_id for call_id in asking.calls if call_id not in answered]
    if missing:
        out.append(broke("B4", n - 1, next=n, ids=", ".join(missing)))


def _points(blocks: object) -> int:
    return sum("cachePoint" in as_object(block) for block in as_list(blocks))


def _face(item: object) -> object:
    """Return a message in the words of the thinking rules, which are the model's and not the API's.

    Only what those rules look at is carried over.
    """
    message = as_object(item)
    blocks = []
    for block in map(as_object, as_list(message.get("content"))):
        if "reasoningContent" in block:
            blocks.append(_thought(as_object(block["reasoningContent"])))
        elif "cachePoint" not in block:
            blocks.append({"type": "tool_result" if "toolResult" in block else "text"})
    return {"role": message.get("role"), "content": blocks}


def _thought(reasoning: dict[str, object]) -> dict[str, object]:
    sealed = reasoning.get("redactedContent")
    if sealed is not None:
        data = sealed.decode("latin-1") if isinstance(sealed, bytes) else sealed
        return {"type": "redacted_thinking", "data": data}
    shown = as_object(reasoning.get("reasoningText"))
    return {
        "type": "thinking",
        "thinking": shown.get("text"),
        "signature": shown.get("signature"),
    }
