"""What OpenAI Responses accept as input items."""

from dataclasses import dataclass

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import (
    as_list,
    as_object,
    model_name,
    read_messages,
    wrong,
    wrong_role,
)
from agora.core.request import Request

_ROLES = ("user", "assistant", "system", "developer")
_CALLS = frozenset(
    (
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    )
)
_OUTPUTS = {f"{call}_output": call for call in _CALLS}
_NOT_MADE = frozenset(("message", "mcp_approval_response", ""))
"""What the client's side makes besides outputs. Everything else may be the assistant's, kinds of
items that are not known yet and item references included."""


def check(request: Request, before: object = None) -> list[Broken]:
    """Return the Responses rules broken; R4, R5, R9 and R10 where `before` is known."""
    if isinstance(request.messages, str):
        return []
    out: list[Broken] = []
    messages = read_messages(request.messages, "input", out)
    kinds = [_kind(n, item, out) for n, item in enumerate(messages)]
    _check_pairs(messages, kinds, out)
    _check_reasoning(messages, kinds, out)
    if isinstance(before, list):
        _check_chains(messages, kinds, before, out)
        code = "R10" if model_name(request.model).startswith("grok") else "R9"
        _check_sealed(messages, before, code, out)
    return out


def _kind(n: int, item: object, out: list[Broken]) -> str:
    """Return the type of an item, "assistant" or "message" for a message, "" for junk."""
    if not isinstance(item, dict):
        out.append(wrong(n, item, f"input[{n}]", "an object"))
        return ""
    kind = item.get("type")
    if kind is None or kind == "message":
        return _message_kind(n, item, out)
    if not isinstance(kind, str):
        out.append(wrong(n, kind, f"input[{n}].type", "a string"))
        return ""
    return kind


def _message_kind(n: int, item: dict[str, object], out: list[Broken]) -> str:
    role = item.get("role")
    if not isinstance(role, str):
        out.append(wrong_role(n, role, f"input[{n}]", _ROLES))
    content = item.get("content")
    if isinstance(content, list):
        for m, part in enumerate(content):
            if not isinstance(part, dict):
                out.append(wrong(n, part, f"input[{n}].content[{m}]", "an object"))
    elif not isinstance(content, str):
        out.append(wrong(n, content, f"input[{n}].content", "a string or a list of objects"))
    return "assistant" if role == "assistant" else "message"


def _check_pairs(items: list[object], kinds: list[str], out: list[Broken]) -> None:
    """Put down calls without an output after them (R1) and outputs without a call before (R2).

    Where an item is only referred to, it may be the call that seems to be
    missing, so then no output is said to be without one.
    """
    may_be_referred_to = "item_reference" in kinds
    asked: dict[tuple[str, str], int] = {}
    answered: set[int] = set()
    calls: list[int] = []
    for n, (item, kind) in enumerate(zip(items, kinds, strict=True)):
        if kind in _CALLS:
            names = _names(n, item, kind, out)
            asked.update(((kind, name), n) for name in names)
            if names:
                calls.append(n)
        elif kind in _OUTPUTS:
            names = _names(n, item, kind, out)
            found = [asked.get((_OUTPUTS[kind], name)) for name in names]
            answered.update(place for place in found if place is not None)
            if names and not may_be_referred_to and found.count(None) == len(found):
                out.append(broke("R2", n, kind=kind.replace("_", " "), call_id=names[0]))
    for n in calls:
        if n not in answered:
            kind = kinds[n].replace("_", " ")
            out.append(broke("R1", n, kind=kind, call_id=_names(n, items[n], kinds[n], [])[0]))


def _names(n: int, item: object, kind: str, out: list[Broken]) -> list[str]:
    """Return what a call or an output goes by: its call_id, for the local shell its id too."""
    fields = ("call_id", "id") if kind.startswith("local_shell") else ("call_id",)
    found = [_text(item, field) for field in fields]
    names = [name for name in found if name is not None]
    if not names:
        out.append(wrong(n, None, f"input[{n}].call_id", "a string"))
    return names


def _check_reasoning(items: list[object], kinds: list[str], out: list[Broken]) -> None:
    last = len(kinds) - 1
    for n, kind in enumerate(kinds):
        if kind == "reasoning" and (n == last or not _is_made(kinds[n + 1])):
            out.append(broke("R3", n, id=_text(items[n], "id")))


def _check_chains(
    items: list[object], kinds: list[str], before: list[object], out: list[Broken]
) -> None:
    """Put down items that lost the reasoning they were made with: calls R4, messages R5."""
    needed = _chains(before, [_kind(n, item, []) for n, item in enumerate(before)])
    # Items of one run share their chain, so a pair of chains is compared once and not per item.
    lost: dict[tuple[int, int], str | None] = {}
    for name, made in _chains(items, kinds).items():
        origin = needed.get(name)
        if origin is None:
            continue
        pair = (id(origin.reasoning), id(made.reasoning))
        if pair not in lost:
            missing = (one for one in origin.reasoning if one not in made.reasoning)
            lost[pair] = next(missing, None)
        if lost[pair] is not None:
            kind = kinds[made.position]
            code = "R5" if kind == "assistant" else "R4"
            out.append(broke(code, made.position, id=name, kind=kind, reasoning=lost[pair]))


def _check_sealed(items: list[object], before: list[object], code: str, out: list[Broken]) -> None:
    """Put down sealed items that are not as they came: R9, in the words of xAI R10."""
    known = {_face(item) for item in before}
    for n, item in enumerate(items):
        face = _face(item)
        if face is not None and face not in known:
            out.append(broke(code, n, id=_text(item, "id")))


def _face(item: object) -> tuple[object, ...] | None:
    """Return what may not change of an item with encrypted content; None if it has none."""
    sealed = _text(item, "encrypted_content")
    if sealed is None:
        return None
    fields = as_object(item)
    texts = [
        tuple(_text(part, "text") for part in as_list(fields.get(name)))
        for name in ("summary", "content")
    ]
    told = isinstance(fields.get("summary"), list)
    return _text(item, "type"), _text(item, "id"), sealed, told, *texts


@dataclass(frozen=True, slots=True)
class _Made:
    """An item the assistant made: where it stands, and the reasoning right before its run."""

    position: int
    reasoning: dict[str, None]


def _chains(items: list[object], kinds: list[str]) -> dict[str, _Made]:
    """Return every item the assistant made that has a name, under that name."""
    chains: dict[str, _Made] = {}
    chain: dict[str, None] = {}
    previous = ""
    for n, kind in enumerate(kinds):
        if kind == "reasoning":
            if previous != "reasoning":
                chain = {}
            chain[_text(items[n], "id") or _text(items[n], "encrypted_content") or ""] = None
        elif not _is_made(kind):
            chain = {}
        else:
            name = _text(items[n], "id") or _text(items[n], "call_id")
            if name is not None:
                chains[name] = _Made(n, chain)
        previous = kind
    return chains


def _is_made(kind: str) -> bool:
    """Tell whether the assistant's side made an item of this kind, as far as is known."""
    return kind not in _NOT_MADE and not kind.endswith("_call_output")


def _text(item: object, field: str) -> str | None:
    value = item.get(field) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None
