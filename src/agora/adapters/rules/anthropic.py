"""What Anthropic Messages accept.

Messages of one role in a row are read as one message, as the API reads them,
but a problem is reported at the message it was written in.
"""

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

_ROLES = ("user", "assistant", "system")
_TURNS = _ROLES[:2]
_NO_SYSTEM = ("tool_use", "tool_result")
"""What system text inside the messages cannot hold. New kinds of blocks are let through."""
_TEXTS = "a string or a list of objects"
_BREAKPOINTS = 4
_SYSTEM = -1


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    out: list[Broken] = field(default_factory=list)
    role: object = None
    asked: dict[str, int] = field(default_factory=dict)
    """Where each call of the latest assistant message stands."""
    answered: set[str] = field(default_factory=set)
    late: list[int] = field(default_factory=list)
    """Where results stand that come after something else."""
    spoken: bool = False
    """Whether the user message being read has had anything but results."""
    served: dict[str, set[str]] = field(
        default_factory=lambda: {"server_tool_use": set(), "mcp_tool_use": set()}
    )
    breakpoints: int = 0
    overflow_at: int = _SYSTEM
    """Where the first breakpoint over the limit stands."""


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the Anthropic rules that the request breaks."""
    reading = _Reading()
    out = reading.out
    items = read_messages(request.messages, "messages", out)
    _read_preamble(request, reading)
    last = len(items) - 1
    for n, item in enumerate(items):
        if not isinstance(item, dict):
            out.append(wrong(n, item, f"messages.{n}", "an object"))
        elif (role := item.get("role")) in _TURNS:
            _read_message(n, item, n == last, reading)
        else:
            if not isinstance(role, str):
                out.append(wrong_role(n, role, f"messages.{n}", _ROLES))
            _read_aside(n, item, items, reading)
    _close(reading)
    if reading.breakpoints > _BREAKPOINTS:
        out.append(broke("A12", reading.overflow_at, count=reading.breakpoints))
    check_thinking(items, request, before, out)
    return out


def _read_preamble(request: Request, reading: _Reading) -> None:
    for tool in as_list(request.tools):
        _count_breakpoint(_SYSTEM, as_object(tool), reading)
    if request.system is None or isinstance(request.system, str):
        return
    if not isinstance(request.system, list):
        reading.out.append(wrong(_SYSTEM, request.system, "system", _TEXTS))
    for m, block in enumerate(as_list(request.system)):
        if not isinstance(block, dict):
            reading.out.append(wrong(_SYSTEM, block, f"system.{m}", "an object"))
            continue
        _count_breakpoint(_SYSTEM, block, reading)
        _check_text(_SYSTEM, m, block, reading.out)


def _read_message(n: int, message: dict[str, object], is_last: bool, reading: _Reading) -> None:
    role = message["role"]
    if role == reading.role:
        reading.out.append(broke("A8", n, role=role))
    elif role == "assistant":
        if reading.role is None:
            reading.out.append(broke("A7", n))
        _close(reading)
    else:
        reading.spoken = False
    reading.role = role
    _read_content(n, message.get("content"), is_last and role == "assistant", reading)


def _read_aside(n: int, message: dict[str, object], items: list[object], reading: _Reading) -> None:
    """Read system text inside the messages, or a message of a role that is not known.

    It is no turn of either side, so calls and results pair across it and roles alternate as
    though it were not there. Where it may stand (A21) is checked strictly only: the placement
    rules have changed before, and what the client sent is the client's to answer for.
    """
    before = _role_at(items, n - 1)
    if (
        before not in _TURNS
        or (before == "assistant" and reading.asked)
        or _role_at(items, n + 1) not in ("assistant", None)
    ):
        reading.out.append(broke("A21", n))
    content = message.get("content")
    spoken = reading.spoken
    for block in as_list(content):
        kind = as_object(block).get("type")
        if kind in _NO_SYSTEM:
            # A result somewhere else answers no call: the call is then reported as unanswered.
            reading.out.append(broke("S6", n, kind=kind, role=_holder(kind)))
            return
    _read_content(n, content, False, reading)
    reading.spoken = spoken


def _role_at(items: list[object], n: int) -> object:
    return as_object(items[n]).get("role") if 0 <= n < len(items) else None


def _holder(kind: object) -> str:
    return "assistant" if kind == "tool_use" else "user"


def _read_content(n: int, content: object, is_final: bool, reading: _Reading) -> None:
    if isinstance(content, str):
        reading.spoken = True
        if not is_final and is_blank(content):
            reading.out.append(broke("A11", n))
    elif isinstance(content, list):
        if not content and not is_final:
            reading.out.append(broke("A11", n))
        for m, block in enumerate(content):
            if isinstance(block, dict):
                _read_block(n, m, block, reading)
            else:
                reading.out.append(wrong(n, block, f"messages.{n}.content.{m}", "an object"))
    else:
        reading.out.append(wrong(n, content, f"messages.{n}.content", _TEXTS))


def _read_block(n: int, m: int, block: dict[str, object], reading: _Reading) -> None:
    kind = block.get("type")
    if not isinstance(kind, str):
        where = f"messages.{n}.content.{m}.type"
        reading.out.append(wrong(n, kind, where, "a string"))
        return
    _count_breakpoint(n, block, reading)
    if kind == "tool_result":
        _read_result(n, m, block, reading)
        return
    reading.spoken = True
    if kind == "text":
        _check_text(n, m, block, reading.out)
    elif kind == "tool_use":
        _read_call(n, m, block, reading)
    elif kind.endswith("_tool_use"):
        # Kinds of calls that are not known yet are the provider's own.
        call_id = block.get("id")
        if isinstance(call_id, str):
            mcp = kind == "mcp_tool_use"
            reading.served["mcp_tool_use" if mcp else "server_tool_use"].add(call_id)
    elif kind.endswith("_tool_result"):
        _read_served_result(n, m, kind, block, reading)


def _read_call(n: int, m: int, block: dict[str, object], reading: _Reading) -> None:
    call_id = block.get("id")
    if reading.role != "assistant":
        reading.out.append(broke("S6", n, kind="tool_use", role="assistant"))
    elif not isinstance(call_id, str):
        where = f"messages.{n}.content.{m}.id"
        reading.out.append(wrong(n, call_id, where, "a string"))
    else:
        reading.asked.setdefault(call_id, n)


def _read_result(n: int, m: int, block: dict[str, object], reading: _Reading) -> None:
    _read_result_content(n, m, block.get("content"), reading)
    call_id = block.get("tool_use_id")
    if reading.role != "user":
        reading.out.append(broke("S6", n, kind="tool_result", role="user"))
    elif not isinstance(call_id, str):
        where = f"messages.{n}.content.{m}.tool_use_id"
        reading.out.append(wrong(n, call_id, where, "a string"))
    elif call_id not in reading.asked:
        reading.out.append(broke("A2", n, m=m, id=call_id))
    else:
        reading.answered.add(call_id)
        if reading.spoken:
            reading.late.append(n)


def _read_result_content(n: int, m: int, content: object, reading: _Reading) -> None:
    """Read what a result holds, one level deep: a block in it holds no results."""
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        reading.out.append(wrong(n, content, f"messages.{n}.content.{m}.content", _TEXTS))
        return
    for inner in content:
        if not isinstance(inner, dict):
            reading.out.append(wrong(n, inner, f"messages.{n}.content.{m}.content", "an object"))
            continue
        _count_breakpoint(n, inner, reading)
        if _is_marked(inner) and inner.get("text") == "":
            reading.out.append(broke("A13", n, m=m))


def _read_served_result(
    n: int, m: int, kind: str, block: dict[str, object], reading: _Reading
) -> None:
    """Read the result of a tool the provider runs: its call may stand anywhere before it."""
    call = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        where = f"messages.{n}.content.{m}.tool_use_id"
        reading.out.append(wrong(n, call_id, where, "a string"))
    elif call_id not in reading.served[call]:
        reading.out.append(broke("A3", n, m=m, kind=kind, id=call_id, call=call))


def _check_text(n: int, m: int, block: dict[str, object], out: list[Broken]) -> None:
    text = block.get("text")
    if not isinstance(text, str):
        where = f"messages.{n}.content.{m}.text" if n >= 0 else f"system.{m}.text"
        out.append(wrong(n, text, where, "a string"))
    elif not text:
        out.append(broke("A13", n, m=m) if _is_marked(block) else broke("A11", n))
    elif text.isspace():
        out.append(broke("A11", n))


def _is_marked(block: dict[str, object]) -> bool:
    return block.get("cache_control") is not None


def _count_breakpoint(n: int, block: dict[str, object], reading: _Reading) -> None:
    if _is_marked(block):
        reading.breakpoints += 1
        if reading.breakpoints == _BREAKPOINTS + 1:
            reading.overflow_at = n


def _close(reading: _Reading) -> None:
    """Put down what the latest calls still miss, and forget them."""
    if reading.late:
        reading.out.append(broke("A6", reading.late[0], count=len(reading.late)))
    if len(reading.answered) < len(reading.asked):
        missing: dict[int, list[str]] = {}
        for call_id, n in reading.asked.items():
            if call_id not in reading.answered:
                missing.setdefault(n, []).append(call_id)
        for n, ids in missing.items():
            reading.out.append(broke("A1", n, ids=", ".join(ids)))
    reading.asked = {}
    reading.answered = set()
    reading.late = []
