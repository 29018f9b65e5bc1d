"""What OpenAI chat completions accept, and the open chat templates behind the same wire format."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.chat_reasoning import check_reasoning
from agora.adapters.rules.shape import as_object, read_messages, wrong, wrong_role
from agora.core.request import Request

_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_EMPTY: dict[str, object] = {}


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the rules of OpenAI chat broken; O7 only where `before` is known."""
    out: list[Broken] = []
    items = read_messages(request.messages, "messages", out)
    _check_pairs(items, out)
    if not any(broken.code.startswith("S") for broken in out):
        _check_alternation([as_object(item) for item in items], out)
    if isinstance(before, list):
        check_reasoning(items, before, out)
    return out


def _check_pairs(items: list[object], out: list[Broken]) -> None:
    """Put down in `out` every message of a wrong shape, call without result, result without call.

    Pairing is by position: a result answers the assistant message right before
    its run of tool messages, so the same id may come again in a later one.
    """
    pending: dict[str, int] = {}
    asked_at = 0
    for n, item in enumerate(items):
        message = _read_message(n, item, out)
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str):
                out.append(wrong(n, call_id, f"messages[{n}].tool_call_id", "a string"))
            elif pending.get(call_id):
                pending[call_id] -= 1
            else:
                out.append(broke("O2", n))
            continue
        if pending:
            _close(pending, asked_at, out)
            pending = {}
        if role == "assistant":
            asked_at = n
            for call_id in _call_ids(n, message, out):
                pending[call_id] = pending.get(call_id, 0) + 1
    _close(pending, asked_at, out)


def _read_message(n: int, item: object, out: list[Broken]) -> dict[str, object]:
    """Return message `n`, empty if it is not an object; a wrong shape is reported in `out`.

    A role that is not known is read as text that stays where it is.
    """
    if not isinstance(item, dict):
        out.append(wrong(n, item, f"messages[{n}]", "an object"))
        return _EMPTY
    role = item.get("role")
    if not isinstance(role, str):
        out.append(wrong_role(n, role, f"messages[{n}]", _ROLES))
    content = item.get("content")
    if not isinstance(content, str):
        _check_content(n, item, content, out)
    return item


def _call_ids(n: int, message: dict[str, object], out: list[Broken]) -> list[str]:
    """Return the ids of the calls in message `n`; what cannot be read is reported in `out`."""
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        out.append(wrong(n, calls, f"messages[{n}].tool_calls", "an array"))
        return []
    ids = []
    for m, call in enumerate(calls):
        call_id = call.get("id") if isinstance(call, dict) else None
        if isinstance(call_id, str):
            ids.append(call_id)
        else:
            out.append(wrong(n, call_id, f"messages[{n}].tool_calls[{m}].id", "a string"))
    return ids


def _check_content(n: int, message: dict[str, object], content: object, out: list[Broken]) -> None:
    if content is None:
        if message.get("role") == "assistant":
            for field in _INSTEAD_OF_CONTENT:
                if message.get(field) is not None:
                    return
        # A legacy function may return nothing, and says so with null.
        elif message.get("role") == "function":
            return
    elif isinstance(content, list):
        for m, part in enumerate(content):
            if not isinstance(part, dict):
                out.append(wrong(n, part, f"messages[{n}].content[{m}]", "an object"))
        return
    out.append(wrong(n, content, f"messages[{n}].content", "a string or a list of objects"))


def _close(pending: dict[str, int], asked_at: int, out: list[Broken]) -> None:
    missing = [call_id for call_id, count in pending.items() if count]
    if missing:
        out.append(broke("O1", asked_at, ids=", ".join(missing)))


def _check_alternation(messages: list[dict[str, object]], out: list[Broken]) -> None:
    """Put down T1; calls and their results stand outside the alternation."""
    spoke: object = "assistant"
    for n, message in enumerate(messages):
        role = message["role"]
        calls = message.get("tool_calls") or message.get("function_call")
        if role == "user" or (role == "assistant" and not calls):
            if role == spoke:
                out.append(broke("T1", n))
            spoke = role
