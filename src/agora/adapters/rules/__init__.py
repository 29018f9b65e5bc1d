"""What each provider accepts: the validator behind every compression."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType

from agora.adapters.rules import (
    anthropic,
    bedrock,
    deepseek,
    gemini,
    mistral,
    openai_chat,
    responses,
    texts,
)
from agora.adapters.rules.catalogue import CATALOGUE, Broken, Rule
from agora.core.request import Request
from agora.errors import UnknownFormatError

__all__ = ["CATALOGUE", "Broken", "Rule", "broken_rules", "validate"]

_CHECKS: Mapping[str, Callable[[Request, object], list[Broken]]] = MappingProxyType(
    {
        "openai": openai_chat.check,
        "responses": responses.check,
        "anthropic": anthropic.check,
        "transcript": texts.check_transcript,
        "react": texts.check_react,
        "gemini": gemini.check,
        "bedrock": bedrock.check,
        "mistral": mistral.check,
        "deepseek": deepseek.check,
    }
)
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
) -> list[Broken]:
    """Return every rule that `messages` break, in message order; none means they are legal.

    Takes any value and never raises on one: what is not even messages breaks a
    rule of the family "shape". `strict` adds the rules only some models or
    older endpoints keep. What else is said of the request lets more be
    checked: `before`, the messages as they were before editing, rules A14, R4
    and R5; `thinking` rules A15, A16 and DeepSeek's; `tools` rules A18 and
    A19; `system` its share of A11 to A13.

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
        messages=messages, format=format, system=system, tools=tools, thinking=thinking
    )
    return broken_rules(request, strict=strict, before=before)


def broken_rules(request: Request, *, strict: bool = False, before: object = None) -> list[Broken]:
    """Return every rule that a request breaks: what `validate` does, for a `Request`.

    Raises:
        UnknownFormatError: the request's format is not one that has rules here.
    """
    check = _CHECKS.get(request.format)
    if check is None:
        raise UnknownFormatError(
            f"there are no rules for format {request.format!r}", tuple(_CHECKS)
        )
    found = check(request, before)
    kept = [broken for broken in found if strict or not broken.strict]
    kept.sort(key=_POSITION)
    return kept
