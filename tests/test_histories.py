"""What is drawn for the properties: legal, with something to elide, and of every kind."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import agora
from agora.formats import FORMATS
from harness.histories import History, sample
from harness.histories.strategies import histories

every_format = pytest.mark.parametrize("format_name", FORMATS)


def is_legal(history: History, messages: Any) -> bool:
    return not agora.validate(messages, format=history.format, **history.options)


@every_format
def test_every_history_is_legal_and_was_at_every_call(format_name: str) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories(format_name))
    def run(history: History) -> None:
        assert is_legal(history, history.messages)
        assert all(is_legal(history, history.upto(call)) for call in history.calls)

    run()


@every_format
def test_at_least_half_of_the_histories_have_something_to_elide(format_name: str) -> None:
    compressor = agora.Compressor(budget=agora.Budget(limit=0), edits="every_call")
    changed = [
        compressor.compress(history.messages, **history.request).changed
        for history in sample(format_name, 200)
    ]

    assert sum(changed) >= len(changed) / 2


def _kinds(history: History) -> set[str]:
    """Return every type, role and telling field in a history."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                look(item)
        elif isinstance(value, dict):
            found.update(value)
            found.update(str(value[key]) for key in ("type", "role") if key in value)
            for item in value.values():
                look(item)

    look(history.messages)
    look(history.system)
    return found


SHOWN: dict[str, tuple[str, ...]] = {
    "openai": (
        *("system", "developer", "user", "assistant", "tool", "function", "custom"),
        *("function_call", "reasoning_content", "image_url", "input_audio", "file", "text"),
    ),
    "responses": (
        *("developer", "system", "reasoning", "encrypted_content", "custom_tool_call", "phase"),
        *("function_call_output", "web_search_call", "compaction", "computer_call_output"),
        *("local_shell_call", "input_image", "input_file", "output_text"),
    ),
    "anthropic": (
        *("thinking", "redacted_thinking", "signature", "cache_control", "server_tool_use"),
        *("web_search_tool_result", "image", "document", "tool_use", "tool_result", "is_error"),
        "tool_reference",
    ),
    "gemini": (
        *("user", "model", "function", "functionCall", "functionResponse", "thoughtSignature"),
        *("thought", "inlineData", "fileData", "executableCode", "codeExecutionResult", "id"),
        *("function_call", "thought_signature", "output", "result", "error", "toolCall"),
    ),
    "bedrock": (
        *("toolUse", "toolResult", "cachePoint", "reasoningContent", "redactedContent"),
        *("image", "document", "guardContent", "json", "status", "server_tool_use"),
        *("citationsContent", "signature", "hologram"),
    ),
}


@pytest.mark.parametrize("format_name", SHOWN)
def test_histories_show_every_kind_of_message(format_name: str) -> None:
    found: set[str] = set()
    for history in sample(format_name, 600):
        found |= _kinds(history)

    assert not set(SHOWN[format_name]) - found
