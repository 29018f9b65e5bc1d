"""Wire formats and trajectories, both ways. Plain dicts and strings, standard library only."""

from dataclasses import replace
from typing import Final

from agora.adapters.annotations import annotated_tools, tools_of
from agora.adapters.base import Adapter, Parsed, Rendered
from agora.adapters.detect import detect
from agora.adapters.format import BodyFields, Format
from agora.adapters.recall import recall_tool
from agora.adapters.registry import (
    FORMATS,
    KNOWN,
    find_format,
    format_named,
    format_names,
    known_format,
)
from agora.adapters.request import make_request, read_request
from agora.adapters.rules import Broken
from agora.adapters.validation import broken_rules, validate
from agora.core.request import Request
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.errors import UnknownFormatError

_ESTIMATED: Final = EstimatedTokens()


def parse(request: Request, counter: TokenCounter = _ESTIMATED) -> Parsed:
    """Return the trajectory in a request, and where each of its steps lies in the messages.

    Raises:
        ParseError: the messages do not read as a trajectory.
        UnknownFormatError: no adapter reads the request's format.
    """
    format = find_format(request.format)
    if format is None:
        raise UnknownFormatError(f"no adapter reads the format {request.format!r}", format_names())
    parsed = format.adapter.parse(request, counter)
    tools = tools_of(request)
    if not tools.reading and not tools.changing:
        return parsed
    said = replace(
        parsed.trajectory,
        reading_tools=tuple(tools.reading),
        changing_tools=tuple(tools.changing),
    )
    return replace(parsed, trajectory=said)


__all__ = [
    "FORMATS",
    "KNOWN",
    "Adapter",
    "BodyFields",
    "Broken",
    "Format",
    "Parsed",
    "Rendered",
    "annotated_tools",
    "broken_rules",
    "detect",
    "format_named",
    "format_names",
    "known_format",
    "make_request",
    "parse",
    "read_request",
    "recall_tool",
    "validate",
]
