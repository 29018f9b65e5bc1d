"""What Anthropic asks of thinking blocks that are sent back.

Of models with manual thinking: since the user last spoke. The API reads a whole tool loop as one
assistant message: everything after the last user message that holds more than results counts as
the latest one. Of models that bind thinking to the prefix: that nothing before a block has changed
since it was made, and that no block is missing between others; from the start on they may be.
"""

from dataclasses import dataclass

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import as_list, as_object
from agora.core.request import Request

_FACE = ("type", "thinking", "signature", "data")


@dataclass(frozen=True, slots=True)
class _Thought:
    """A thinking block: where it stands, and the fields that may not change."""

    message: int
    block: int
    face: tuple[str | None, ...]


def check_thinking(
    items: list[object], request: Request, before: object, out: list[Broken]
) -> None:
    """Put down A14, A15 and A22 in `out`, as far as what is known lets them be checked."""
    bound = request.is_bound
    if request.thinking and not bound:
        _check_lead(items, _latest(items), out)
    if isinstance(before, list):
        if bound:
            _check_bound(items, before, request.edited_at, out)
        else:
            _check_unchanged(items, before, out)


def _latest(items: list[object]) -> int:
    """Return where the latest assistant message begins: after the user last spoke."""
    for n in range(len(items) - 1, -1, -1):
        message = as_object(items[n])
        if message.get("role") == "user" and not _is_results(message.get("content")):
            return n + 1
    return 0


def _is_results(content: object) -> bool:
    return isinstance(content, list) and all(
        as_object(block).get("type") == "tool_result" for block in content
    )


def _check_lead(items: list[object], start: int, out: list[Broken]) -> None:
    for n in range(start, len(items)):
        message = as_object(items[n])
        content = message.get("content")
        if message.get("role") == "assistant" and content:
            kind = as_object(as_list(content)[0]).get("type") if as_list(content) else "text"
            if not _is_thinking(kind):
                found = kind if isinstance(kind, str) else "null"
                out.append(broke("A15", n, found=found))
            return


def _check_bound(
    items: list[object], before: list[object], edited_at: int, out: list[Broken]
) -> None:
    """Put down A22 once, at the first thinking that stands behind a change made after it.

    What is left has to be the end of what there was, none missing in between, and all of it from
    after the edit, where there was one.
    """
    then, now = _thoughts(before, 0), _thoughts(items, 0)
    kept = then[len(then) - len(now) :] if len(now) <= len(then) else []
    for at, thought in enumerate(now):
        held = kept[at] if at < len(kept) else None
        if held is None or held.face != thought.face or held.message < edited_at:
            out.append(broke("A22", thought.message, m=thought.block))
            return


def _check_unchanged(items: list[object], before: list[object], out: list[Broken]) -> None:
    """Put down A14 once, at the thinking nearest to the end that is gone or not as it was.

    Compared from the end: the thinking of the latest assistant message must
    all be there; of what was before it, some may be gone, but what counts as
    the latest now has to be among what was made then, in the same order.
    """
    whole = _latest(before)
    latest = _latest(items)
    then = _thoughts(before, 0)
    now = _thoughts(items, 0)
    while then and (then[-1].message >= whole or (now and now[-1].message >= latest)):
        thought = then.pop()
        if now and now[-1].face == thought.face:
            now.pop()
        elif thought.message >= whole:
            place = (now[-1].message, now[-1].block) if now else (max(len(items) - 1, 0), 0)
            out.append(broke("A14", place[0], m=place[1]))
            return
    if now and now[-1].message >= latest:
        out.append(broke("A14", now[-1].message, m=now[-1].block))


def _thoughts(items: list[object], start: int) -> list[_Thought]:
    """Return the thinking blocks from message `start` on."""
    found = []
    for n in range(start, len(items)):
        message = as_object(items[n])
        if message.get("role") != "assistant":
            continue
        for m, item in enumerate(as_list(message.get("content"))):
            block = as_object(item)
            if _is_thinking(block.get("type")):
                found.append(_Thought(n, m, tuple(_text(block.get(name)) for name in _FACE)))
    return found


def _is_thinking(kind: object) -> bool:
    return kind == "thinking" or kind == "redacted_thinking"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
