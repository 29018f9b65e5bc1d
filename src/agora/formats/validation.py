"""Messages checked against the rules of their format, as after every compression."""

from operator import attrgetter

from agora.core.request import Request
from agora.formats.base import RuleViolation, ShapeError
from agora.formats.registry import format_named
from agora.formats.sdk_objects import to_dicts

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
) -> list[RuleViolation]:
    """Return every rule that `messages` break, in message order; none means they are legal.

    Only rules that an edit could break are checked. Takes any value and never raises on one: a
    value of another shape than messages have breaks rule S1.

    >>> call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    >>> asked = [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [call]}]
    >>> [violation.code for violation in validate(asked, format="openai")]
    ['O1']
    >>> answered = [*asked, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
    >>> validate(answered, format="openai")
    []

    Args:
        messages: The messages.
        format: The name of their format.
        system: The system text beside them.
        tools: The request's tools.
        thinking: True if extended thinking is on.
        strict: True to add the rules that only some models or older endpoints keep.
        before: The messages before an edit, which must keep their reasoning unchanged.
        model: The model, which may bind thinking to the prefix.
        edited_at: The number of messages at the time of the edit.

    Raises:
        UnknownFormatError: There is no such format.
    """
    request = Request(
        messages=to_dicts(messages),
        format=format,
        system=system,
        tools=tools,
        thinking=thinking,
        model=model,
        edited_at=edited_at,
    )
    return broken_rules(request, strict=strict, before=to_dicts(before))


def broken_rules(
    request: Request, *, strict: bool = False, before: object = None
) -> list[RuleViolation]:
    """Return every rule that a request breaks, as `validate` does for messages.

    Raises:
        UnknownFormatError: There is no such format.
    """
    format = format_named(request.format)
    violations: list[RuleViolation] = []
    try:
        violations += format.check(request, before)
    except ShapeError as error:
        violations.append(error.violation)
    violations = [violation for violation in violations if strict or not violation.strict]
    violations.sort(key=_POSITION)
    return violations
