"""Wire formats, both ways: messages to a trajectory and back, on plain dicts and strings.

Each format is one file, which answers every question about it.
"""

from dataclasses import replace
from typing import Final

from agora.core.request import Request
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.formats.base import (
    BodyFields,
    Format,
    MessageRole,
    Parsed,
    ParsedMessage,
    Rendered,
    Rule,
    RuleViolation,
)
from agora.formats.message_format import MessageFormat
from agora.formats.registry import (
    FORMATS,
    KNOWN,
    format_named,
    format_names,
    formats,
    known_format,
)
from agora.formats.requests import detect, make_request, read_request
from agora.formats.sdk_objects import to_dicts, to_sdk_objects
from agora.formats.tools import annotated_tools, recall_tool, tools_of
from agora.formats.usage import Usage, read_usage
from agora.formats.validation import broken_rules, validate

_ESTIMATED: Final = EstimatedTokens()


def parse(request: Request, counter: TokenCounter = _ESTIMATED) -> Parsed:
    """Return the trajectory in a request, and the place of each of its steps in the messages.

    Raises:
        ParseError: The messages do not read as a trajectory.
        UnknownFormatError: There is no such format.
    """
    parsed = format_named(request.format).parse(request, counter)
    tools = tools_of(request)
    if not tools.reading and not tools.changing:
        return parsed
    trajectory = replace(
        parsed.trajectory,
        reading_tools=tuple(tools.reading),
        changing_tools=tuple(tools.changing),
    )
    return replace(parsed, trajectory=trajectory)


__all__ = [
    "FORMATS",
    "KNOWN",
    "BodyFields",
    "Format",
    "MessageFormat",
    "MessageRole",
    "Parsed",
    "ParsedMessage",
    "Rendered",
    "Rule",
    "RuleViolation",
    "Usage",
    "annotated_tools",
    "broken_rules",
    "detect",
    "format_named",
    "format_names",
    "formats",
    "known_format",
    "make_request",
    "parse",
    "read_request",
    "read_usage",
    "recall_tool",
    "to_dicts",
    "to_sdk_objects",
    "validate",
]
