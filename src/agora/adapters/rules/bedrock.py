"""What Bedrock Converse accepts."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import (
    as_list,
    as_object,
    not_an_object,
    read_messages,
    wrong_field,
    wrong_role,
)
from agora.adapters.rules.told import Told

_ROLES = ("user", "assistant")


def check(messages: object, told: Told) -> list[Broken]:
    """Return the Bedrock rules that `messages` break. No tools told of means no tools sent."""
    out: list[Broken] = []
    items = read_messages(messages, "messages", out)
    asked: list[str] = []
    asked_at = 0
    previous: object = None
    tools_used_at: int | None = None
    for n, item in enumerate(items):
        blocks = _read(n, item, previous, out)
        calls = _ids(n, blocks, "toolUse", out)
        results = _ids(n, blocks, "toolResult", out)
        if len(results) > len(asked):
            out.append(broke("B1", n))
        if results and len(results) < len(blocks):
            out.append(broke("B2", n))
        _close(asked, set(results), asked_at, out)
        asked, asked_at = calls, n
        if tools_used_at is None and (calls or results):
            tools_used_at = n
        previous = as_object(item).get("role")
    _close(asked, set(), asked_at, out)
    if tools_used_at is not None and not _has_tools(told.tools):
        out.append(broke("A18", tools_used_at))
    return out


def _read(n: int, item: object, previous: object, out: list[Broken]) -> list[object]:
    """Return the blocks of message `n`; a wrong shape or role is put down in `out`."""
    if not isinstance(item, dict):
        out.append(not_an_object(n, item, f"messages.{n}"))
        return []
    role = item.get("role")
    if role not in _ROLES:
        out.append(wrong_role(n, role, f"messages.{n}", _ROLES))
    elif n == 0 and role != "user":
        out.append(broke("B3", n))
    elif role == previous:
        out.append(broke("B5", n))
    content = item.get("content")
    if not isinstance(content, list) or not content:
        out.append(wrong_field(n, content, f"messages.{n}.content", "an array of blocks"))
    return as_list(content)


def _ids(n: int, blocks: list[object], kind: str, out: list[Broken]) -> list[str]:
    ids = []
    for m, block in enumerate(blocks):
        if not isinstance(block, dict):
            if kind == "toolUse":
                out.append(not_an_object(n, block, f"messages.{n}.content.{m}"))
        elif kind in block:
            found = as_object(block[kind]).get("toolUseId")
            if isinstance(found, str):
                ids.append(found)
            else:
                where = f"messages.{n}.content.{m}.{kind}.toolUseId"
                out.append(wrong_field(n, found, where, "a string"))
    return ids


def _close(asked: list[str], answered: set[str], asked_at: int, out: list[Broken]) -> None:
    missing = [call_id for call_id in asked if call_id not in answered]
    if missing:
        out.append(broke("B4", asked_at, next=asked_at + 1, ids=", ".join(missing)))


def _has_tools(tools: object) -> bool:
    return bool(tools.get("tools") if isinstance(tools, dict) else tools)
