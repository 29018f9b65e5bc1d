"""Wire formats and trajectories, both ways. Plain dicts and strings, standard library only."""

from collections.abc import Mapping

from agora.adapters.anthropic_messages import AnthropicMessages
from agora.adapters.base import Adapter, Context, Parsed, Rendered
from agora.adapters.detect import FORMATS, detect, known_format
from agora.adapters.openai_chat import OpenAIChat
from agora.adapters.openai_responses import OpenAIResponses
from agora.adapters.react import ReActText
from agora.adapters.recall import recall_tool
from agora.adapters.rules import Broken, validate
from agora.adapters.transcript import RoleTranscript

ADAPTERS: Mapping[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        OpenAIChat(),
        OpenAIResponses(),
        AnthropicMessages(),
        RoleTranscript(),
        ReActText(),
    )
}

__all__ = [
    "ADAPTERS",
    "FORMATS",
    "Adapter",
    "Broken",
    "Context",
    "Parsed",
    "Rendered",
    "detect",
    "known_format",
    "recall_tool",
    "validate",
]
