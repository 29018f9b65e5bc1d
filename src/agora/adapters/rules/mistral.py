"""What Mistral accepts: OpenAI's wire format with its own order of roles."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.openai_chat import call_ids, no_call_id, read_message
from agora.adapters.rules.shape import read_messages
from agora.core.request import Request

_ROLES = ("system", "user", "assistant", "tool")
_MAY_FOLLOW = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool", "user"),
}
_ID_LENGTH = 9


def check(request: Request, _before: object = None) -> list[Broken]:
    """Return the Mistral rules that `messages` break."""
    out: list[Broken] = []
    items = read_messages(request.messages, "messages", out)
    previous = ""
    expected: dict[str, bool] = {}
    asked_at = 0
    message: dict[str, object] = {}
    for n, item in enumerate(items):
        message = read_message(n, item, _ROLES, out)
        role = message.get("role")
        if not isinstance(role, str) or role not in _MAY_FOLLOW:
            continue
        _check_order(n, role, previous, out)
        if role == "assistant":
            _close(expected, asked_at, out)
            expected = _read_calls(n, message, out)
            asked_at = n
        elif role == "tool":
            _check_result(n, message.get("tool_call_id"), expected, out)
        previous = role
    _close(expected, asked_at, out)
    if message.get("role") == "assistant" and not message.get("prefix"):
        out.append(broke("M4", len(items) - 1))
    return out


def _check_order(n: int, role: str, previous: str, out: list[Broken]) -> None:
    if previous and role not in _MAY_FOLLOW[previous]:
        out.append(broke("M7", n, role=role, previous=previous))
    elif role == "user" and previous == "tool":
        out.append(broke("M3", n))


def _read_calls(n: int, message: dict[str, object], out: list[Broken]) -> dict[str, bool]:
    """Return the ids that message `n` calls with, each not answered yet."""
    expected: dict[str, bool] = {}
    for call_id in call_ids(n, message, out):
        _check_id(n, call_id, out)
        if call_id in expected:
            out.append(broke("M6", n, id=call_id, place="assistant message"))
        expected[call_id] = False
    return expected


def _check_result(n: int, call_id: object, expected: dict[str, bool], out: list[Broken]) -> None:
    if not isinstance(call_id, str):
        out.append(no_call_id(n, call_id))
        return
    _check_id(n, call_id, out)
    answered = expected.get(call_id)
    if answered is None:
        out.append(broke("M2", n))
    elif answered:
        out.append(broke("M6", n, id=call_id, place="tool results"))
    else:
        expected[call_id] = True


def _check_id(n: int, call_id: str, out: list[Broken]) -> None:
    if not call_id or call_id == "null":
        out.append(broke("M8", n))
    elif not (len(call_id) == _ID_LENGTH and call_id.isascii() and call_id.isalnum()):
        out.append(broke("M5", n, id=call_id))


def _close(expected: dict[str, bool], asked_at: int, out: list[Broken]) -> None:
    if not all(expected.values()):
        out.append(broke("M1", asked_at))
