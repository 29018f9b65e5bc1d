"""Noise is left out of results when they arrive, in every format, the same at every later call."""

import copy
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from agora import Compressor
from agora.adapters import FORMATS, broken_rules, make_request, parse
from agora.adapters.results import rewritten
from agora.core.compression import Arrived, Reason
from agora.core.reading.noise import KINDS
from agora.testing import EveryNth, History, RandomScorer
from agora.testing.strategies import histories

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "100"))
NOISE = "\x1b[31mred\x1b[0m\n" + "warning: deprecated call\n" * 9
CLEAN = Compressor(noise=KINDS, schedule="never")
ANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def with_noise(text: str) -> str:
    """Return a result with noise in its middle, so that a frame around it stays."""
    half = len(text) // 2
    return f"{text[:half]}\n{NOISE}{text[half:]}"


def noisy(history: History) -> Any:
    """Return the messages of a history with noise in each of its results."""
    parsed = parse(make_request(history.messages, **history.request))
    return rewritten(parsed, with_noise)


@pytest.mark.parametrize("format_name", FORMATS)
def test_only_results_are_reached_and_the_callers_messages_stay(format_name: str) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        parsed = parse(make_request(history.messages, **history.request))
        before = copy.deepcopy(history.messages)

        changed = rewritten(parsed, with_noise)
        again = parse(make_request(changed, **history.request))

        assert rewritten(parsed, lambda text: text) is parsed.messages or isinstance(before, str)
        assert history.messages == before
        assert again.trajectory.preamble == parsed.trajectory.preamble
        assert again.trajectory.utterances == parsed.trajectory.utterances
        assert [s.action for s in again.trajectory.steps] == [
            s.action for s in parsed.trajectory.steps
        ]

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_cleaned_messages_are_legal_and_begin_like_those_of_the_call_before(
    format_name: str,
) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = noisy(history)
        whole = CLEAN.compress(messages, **history.request)
        assert not broken_rules(make_request(whole.messages, **history.request))
        if isinstance(messages, str):
            return
        for end in range(1, len(messages)):
            earlier = CLEAN.compress(messages[:end], **history.request)
            assert earlier.messages == whole.messages[:end] or not earlier.arrived.results

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_noise_and_edits_go_together(format_name: str) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = noisy(history)
        plain = Compressor(schedule=EveryNth(2), scorer=RandomScorer(3))
        both = Compressor(schedule=EveryNth(2), scorer=RandomScorer(3), noise=("codes", "repeated"))
        compression = both.compress(messages, **history.request)
        assume(compression.arrived.results)

        assert compression.changed
        assert not broken_rules(make_request(compression.messages, **history.request))
        first = CLEAN.compress(messages, **history.request).messages
        assert compression.messages == plain.compress(first, **history.request).messages
        before = plain.compress(messages, **history.request).tokens_before
        assert compression.tokens_before == before

    run()


def chat(result: str) -> list[dict[str, Any]]:
    """Return a conversation with one result."""
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "user", "content": "\x1b[31mUser's own.\x1b[0m"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]


def test_without_the_setting_nothing_is_left_out() -> None:
    messages = chat(NOISE)

    compression = Compressor().compress(messages)

    assert compression.messages is messages
    assert compression.arrived == Arrived()


def test_a_compression_says_how_much_noise_it_left_out() -> None:
    compression = CLEAN.compress(chat(NOISE))

    assert compression.reason is Reason.NOISE_REMOVED
    assert compression.arrived.results == 1
    assert compression.tokens_before - compression.tokens_after == compression.arrived.tokens
    assert compression.summary().startswith("noise taken out of 1 result, nothing elided: ")
    assert compression.messages[0] == chat(NOISE)[0]


def test_in_shadow_noise_is_counted_and_left_where_it_is() -> None:
    messages = chat(NOISE)

    compression = Compressor(noise=KINDS, shadow=True).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.SHADOW
    assert compression.tokens_after < compression.tokens_before


def test_results_of_a_tool_to_keep_stay_as_they_are() -> None:
    messages = chat(NOISE)

    assert Compressor(noise=KINDS, keep_tools=("bash",)).compress(messages).messages is messages


def test_noise_does_not_invalidate_thinking() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": [{"type": "text", "text": NOISE}],
    }
    messages = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [result]},
    ]

    compression = CLEAN.compress(messages, model="claude-opus-5-5")

    assert compression.messages[1] is messages[1]
    assert "\x1b" not in str(compression.messages[2])


def test_a_result_that_would_no_longer_be_read_as_one_stays() -> None:
    messages = [
        {"role": "user", "content": "Look around."},
        {"role": "assistant", "content": "Thought: where?\nAction: look"},
        {"role": "user", "content": "\x1b[31mObservation\x1b[0m: a room."},
        {"role": "assistant", "content": "Thought: again\nAction: look"},
        {"role": "user", "content": "Observation: a \x1b[31mroom."},
    ]

    for observations in ("user", None):
        compression = CLEAN.compress(messages, observations=observations)
        cleaned = parse(make_request(compression.messages, observations=observations))
        assert len(cleaned.trajectory.steps) == len(compression.decisions)
