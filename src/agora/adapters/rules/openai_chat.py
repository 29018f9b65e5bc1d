"""What OpenAI chat completions accept, and the open chat templates behind the same wire format."""

from collections.abc import Sequence

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.chat_reasoning import check_reasoning
from agora.adapters.rules.shape import (
    as_list,
    as_object,
    kind_of,
    not_an_object,
    read_messages,
    wrong_field,
    wrong_role,
)
from agora.core.request import Request

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_EMPTY: dict[str, object] = {}


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the rules of OpenAI chat broken, and those that the model behind it has of its own."""
    out: list[Broken] = []
    messages = request.messages
    if isinstance(messages, list) and not messages:
        return [broke("O4", 0)]
    items = read_messages(messages, "messages", out)
    check_pairs(items, _ROLES, out, kept=True)
    if not any(broken.code.startswith("S") for broken in out):
        _check_templates([as_object(item) for item in items], out)
    check_reasoning(items, request, before, out)
    return out


def check_pairs(
    items: list[object], roles: Sequence[str], out: list[Broken], *, kept: bool = False
) -> None:
    """Put down in `out` every message of a wrong shape, call without result, result without call.

    Pairing is by position: a result answers the assistant message right before
    its run of tool messages, so the same id may come again in a later one.
    """
    pending: dict[str, int] = {}
    asked_at = 0
    for n, item in enumerate(items):
        message = read_message(n, item, roles, out, kept=kept)
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str):
                out.append(no_call_id(n, call_id))
            elif pending.get(call_id):
                pending[call_id] -= 1
            else:
                out.append(broke("O2", n))
            continue
        if pending:
            _close(pending, asked_at, out)
            pending = {}
        if role == "assistant" and message.get("tool_calls") is not None:
            if message["tool_calls"] == []:
                out.append(broke("O3", n))
            asked_at = n
            for call_id in call_ids(n, message, out):
                pending[call_id] = pending.get(call_id, 0) + 1
    _close(pending, asked_at, out)


def read_message(
    n: int, item: object, roles: Sequence[str], out: list[Broken], *, kept: bool = False
) -> dict[str, object]:
    """Return message `n`, empty if it is not an object; a wrong shape is reported in `out`.

    `kept` says that a role which is not known leaves the rest readable (rule S8 instead of S3).
    """
    if not isinstance(item, dict):
        out.append(not_an_object(n, item, f"messages[{n}]"))
        return _EMPTY
    role = item.get("role")
    if role not in roles:
        out.append(wrong_role(n, role, f"messages[{n}]", roles, kept=kept))
    content = item.get("content")
    if not isinstance(content, str):
        _check_content(n, item, content, out)
    return item


def call_ids(n: int, message: dict[str, object], out: list[Broken]) -> list[str]:
    """Return the ids of the calls in message `n`; what cannot be read is reported in `out`."""
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list):
        out.append(wrong_field(n, calls, f"messages[{n}].tool_calls", "an array"))
        return []
    ids = []
    for m, call in enumerate(calls):
        call_id = call.get("id") if isinstance(call, dict) else None
        if isinstance(call_id, str):
            ids.append(call_id)
        else:
            where = f"messages[{n}].tool_calls[{m}].id"
            out.append(wrong_field(n, call_id, where, "a string"))
    return ids


def no_call_id(n: int, found: object) -> Broken:
    """Return S7 for a tool message that does not say which call it answers."""
    return wrong_field(n, found, f"messages[{n}].tool_call_id", "a string")


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
                out.append(not_an_object(n, part, f"messages[{n}].content[{m}]"))
        return
    out.append(broke("O5", n, found=kind_of(content)))


def _close(pending: dict[str, int], asked_at: int, out: list[Broken]) -> None:
    missing = [call_id for call_id, count in pending.items() if count]
    if missing:
        out.append(broke("O1", asked_at, ids=", ".join(missing)))


def _check_templates(messages: list[dict[str, object]], out: list[Broken]) -> None:
    """Put down what open chat templates refuse, each rule as the templates word it."""
    if messages and not any(message["role"] == "user" for message in messages):
        out.append(broke("T3", 0))
    spoke: object = "assistant"
    previous: object = None
    names: dict[str, bool] = {}
    for n, message in enumerate(messages):
        role = message["role"]
        calls = as_list(message.get("tool_calls")) if role == "assistant" else []
        if role == "developer":
            out.append(broke("O6", n, role="developer"))
        elif role == "system" and n:
            out.append(broke("T2", n))
        elif role == "tool":
            _check_template_result(n, message, previous, names, out)
        elif role == "user" or (
            role == "assistant" and not calls and not message.get("function_call")
        ):
            # Calls and their results stand outside the alternation.
            if role == spoke:
                out.append(broke("T1", n))
            spoke = role
        if len(calls) > 1:
            out.append(broke("T6", n))
        ids = call_ids(n, message, []) if calls else []
        for call_id, call in zip(ids, calls, strict=True):
            names[call_id] = bool(as_object(as_object(call).get("function")).get("name"))
        previous = role


def _check_template_result(
    n: int,
    message: dict[str, object],
    previous: object,
    names: dict[str, bool],
    out: list[Broken],
) -> None:
    if not names:
        out.append(broke("T4", n))
    if previous not in ("assistant", "tool"):
        out.append(broke("T5", n))
    call_id = message.get("tool_call_id")
    named = isinstance(call_id, str) and names.get(call_id)
    if not named and not message.get("name"):
        out.append(broke("T7", n))
