import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agora
from agora.adapters import FORMATS
from agora.testing import History, histories, sample
from agora.testing.choices import Choices
from agora.testing.history import build

every_format = pytest.mark.parametrize("format_name", FORMATS)


def is_legal(history: History, messages: Any) -> bool:
    return not agora.validate(messages, format=history.format, **history.options)


@every_format
def test_every_history_is_legal_and_was_at_every_call(format_name: str) -> None:
    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories(format_name))
    def run(history: History) -> None:
        assert is_legal(history, history.messages)
        assert all(is_legal(history, history.upto(call)) for call in history.calls)

    run()


@every_format
def test_a_recipe_gives_the_same_history_again(format_name: str) -> None:
    for history in sample(format_name, 20):
        assert build(history.recipe) == history


@every_format
def test_at_least_half_of_the_histories_have_something_to_elide(format_name: str) -> None:
    compressor = agora.Compressor(budget=agora.Budget(limit=0), schedule="every_call")
    changed = [
        compressor.compress(history.messages, **history.request).changed
        for history in sample(format_name, 400)
    ]

    assert sum(changed) >= len(changed) / 2


@every_format
def test_no_history_has_more_steps_than_asked_for(format_name: str) -> None:
    sizes = {history.steps for history in sample(format_name, 200, max_steps=3)}

    assert sizes == {0, 1, 2, 3}


@every_format
def test_retelling_changes_one_observation_and_nothing_else(format_name: str) -> None:
    for history in sample(format_name, 40):
        for result in range(history.results):
            said = [history.retold(result, text) for text in ("a nice day", "a cold day")]
            one, other = (json.dumps(again.messages) for again in said)
            assert one.replace("a nice day", "a cold day") == other
            assert said[0].closed == said[1].closed
            assert said[0].calls == said[1].calls


@given(st.binary(max_size=20), st.integers(1, 20))
def test_a_pen_whose_tape_ran_out_makes_the_simplest_choice(tape: bytes, limit: int) -> None:
    choices = Choices(tape)
    for _ in tape:
        assert 0 <= choices.below(limit) < limit

    assert choices.below(limit) == 0
    assert not choices.often()
    assert choices.words() == "ok"


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


def _late(history: History) -> bool:
    """Tell whether a step has a call after a result."""
    kinds = [
        [str(history.messages[p].get("type", "")).endswith("_output") for p in positions]
        for positions in history.closed
        if isinstance(history.messages, list)
    ]
    return any(sorted(step) != step for step in kinds)


CASES: dict[str, tuple[str, Callable[[History], bool]]] = {
    "late results": ("responses", _late),
    "a plain string": ("responses", lambda h: isinstance(h.messages, str)),
    "parallel calls": ("openai", lambda h: any(len(step) > 2 for step in h.closed)),
    "recall": ("openai", lambda h: bool(h.recalls)),
    "an agent by text, by word": ("openai", lambda h: h.observations == "user" and h.steps > 1),
    "an agent by text, by marks": ("anthropic", lambda h: "Observation: " in str(h.messages)),
    "an agent by text, by tags": ("responses", lambda h: "<returncode>" in str(h.messages)),
    "thinking said to be on": ("anthropic", lambda h: h.thinking is True and h.steps > 2),
    "four breakpoints": (
        "anthropic",
        lambda h: json.dumps([h.system, h.messages]).count('"cache_control"') == 4,
    ),
    "four cache points": (
        "bedrock",
        lambda h: json.dumps([h.system, h.tools, h.messages]).count('"cachePoint"') == 4,
    ),
    "text next to a tool result": (
        "bedrock",
        lambda h: any(len({*map(str, map(list, m["content"]))}) > 1 for m in h.messages[2::2]),
    ),
    "a turn of the user's without a role": ("gemini", lambda h: "role" not in h.messages[0]),
    "one line": ("transcript", lambda h: h.steps > 2 and "\n[ASSISTANT]" not in h.messages),
    "something pending": ("react", lambda h: h.messages.endswith("Action:")),
    "nothing before the first step": ("react", lambda h: h.steps > 1 and h.closed[0][0] == 0),
}


@pytest.mark.parametrize("case", CASES)
def test_histories_show_rare_cases(case: str) -> None:
    format_name, shows = CASES[case]

    assert any(map(shows, sample(format_name, 1_500)))
