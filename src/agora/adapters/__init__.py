"""Wire formats and trajectories, both ways. Plain dicts and strings, standard library only."""

from collections.abc import Mapping
from typing import Final

from agora.adapters.anthropic_messages import AnthropicMessages
from agora.adapters.base import Adapter, Parsed, Rendered
from agora.adapters.bedrock_converse import BedrockConverse
from agora.adapters.detect import FORMATS, detect, known_format
from agora.adapters.gemini_contents import GeminiContents
from agora.adapters.openai_chat import OpenAIChat
from agora.adapters.openai_responses import OpenAIResponses
from agora.adapters.react import ReActText
from agora.adapters.recall import recall_tool
from agora.adapters.request import make_request, read_request
from agora.adapters.rules import Broken, broken_rules, validate
from agora.adapters.transcript import RoleTranscript
from agora.core.request import Request
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.errors import UnknownFormatError

ADAPTERS: Mapping[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        OpenAIChat(),
        OpenAIResponses(),
        AnthropicMessages(),
        GeminiContents(),
        BedrockConverse(),
        RoleTranscript(),
        ReActText(),
    )
}

_ESTIMATED: Final = EstimatedTokens()


def parse(request: Request, counter: TokenCounter = _ESTIMATED) -> Parsed:
    """Return the trajectory in a request, and where each of its steps lies in the messages.

    Raises:
        ParseError: the messages do not read as a trajectory.
        UnknownFormatError: no adapter reads the request's format.
    """
    adapter = ADAPTERS.get(request.format)
    if adapter is None:
        raise UnknownFormatError(f"no adapter reads the format {request.format!r}", FORMATS)
    return adapter.parse(request, counter)


__all__ = [
    "ADAPTERS",
    "FORMATS",
    "Adapter",
    "Broken",
    "Parsed",
    "Rendered",
    "broken_rules",
    "detect",
    "known_format",
    "make_request",
    "parse",
    "read_request",
    "recall_tool",
    "validate",
]
