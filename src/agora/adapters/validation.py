"""Requests held against the rules of their format: the guard behind every compression."""

from operator import attrgetter

from agora.adapters.objects import plain
from agora.adapters.registry import find_format, format_names
from agora.adapters.rules.catalogue import Broken
from agora.core.request import Request
from agora.errors import UnknownFormatError

_POSITION = attrgetter("position")


def validate(
    messages: object,
    *,
    format: str,
    system: object = None,
    tools: object = None,
    thinking: bool | None = None,
    strict: bool = False,
    before: object = None,
    model: str | None = None,
    edited_at: int = 0,
) -> list[Broken]:
    """Return every rule that `messages` break, in message order; none means they are legal.

    Takes any value and never raises on one: what is not even messages breaks a
    rule of the family "shape". `strict` adds the rules only some models or
    older endpoints keep. What else is said of the request lets more be
    checked: `before`, the messages as they were before editing, rules A14, R4
    and R5; with a `model` that binds thinking A22 instead of A14, `edited_at`
    being how many there were when they were edited; `thinking` rule A15;
    `tools` and `system` their share of A11 to A13.

    >>> call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> asked = [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [call]}]
    >>> [broken.code for broken in validate(asked, format="openai")]
    ['O1']
    >>> answered = [*asked, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
    >>> validate(answered, format="openai")
    []

    Raises:
        UnknownFormatError: `format` is not one that has rules here.

    """
    request = Request(
        messages=plain(messages),
        format=format,
        system=system,
        tools=tools,
        thinking=thinking,
        model=model,
        edited_at=edited_at,
    )
    return broken_rules(request, strict=strict, before=plain(before))


def broken_rules(request: Request, *, strict: bool = False, before: object = None) -> list[Broken]:
    """Return every rule that a request breaks: what `validate` does, for a `Request`.

    Raises:
        UnknownFormatError: the request's format is not one that has rules here.
    """
    format = find_format(request.format)
    if format is None:
        raise UnknownFormatError(
            f"there are no rules for format {request.format!r}", format_names()
        )
    found = format.check(request, before)
    kept = [broken for broken in found if strict or not broken.strict]
    kept.sort(key=_POSITION)
    return kept
