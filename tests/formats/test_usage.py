"""One reader of usage for the shapes of all providers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.formats import read_usage
from agora.logs import Usage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"prompt_tokens": 900, "completion_tokens": 5}, Usage(900, output=5)),
        ({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 768}}, Usage(132, 768)),
        ({"prompt_tokens": 900, "cached_tokens": 768, "cost": 0.5}, Usage(132, 768, dollars=0.5)),
        ({"input_tokens": 900, "input_tokens_details": {"cached_tokens": 512}}, Usage(388, 512)),
        (
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 90,
            },
            Usage(10, 800, 90),
        ),
        (
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 90,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 20,
                    "ephemeral_1h_input_tokens": 70,
                },
            },
            Usage(10, 0, 90, written_1h=70),
        ),
        (
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 90,
                "cache_creation": {"ephemeral_1h_input_tokens": 900},
            },
            Usage(10, 0, 90, written_1h=90),
        ),
        (
            {
                "inputTokens": 10,
                "cacheWriteInputTokens": 90,
                "cacheDetails": [
                    {"ttl": "1h", "inputTokens": 90},
                    {"ttl": "1h", "inputTokens": -1},
                ],
            },
            Usage(10, 0, 90, written_1h=90),
        ),
        ({"input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": True}}, Usage(9)),
        ({"promptTokenCount": 900, "cachedContentTokenCount": 600}, Usage(300, 600)),
        ({"prompt_tokens": 9, "cached_tokens": 12}, Usage(0, 9)),
        ({"prompt_tokens": 1_000, "prompt_cache_hit_tokens": 900}, Usage(100, 900)),
        (
            {
                "prompt_tokens": 1_000,
                "prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 300},
            },
            Usage(200, 500, 300),
        ),
        (
            {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 4},
            Usage(9, output=7, reasoning=4),
        ),
        ({"prompt_tokens": 9, "cost": True}, Usage(9)),
        (
            {
                "prompt_tokens": 1_000,
                "prompt_cache_hit_tokens": 900,
                "prompt_cache_miss_tokens": 100,
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            Usage(100, 900, output=50, reasoning=30),
        ),
        (
            {
                "input_tokens": 1_000,
                "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 300},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(200, 500, 300, output=9, reasoning=4),
        ),
        (
            # LiteLLM counts Anthropic's as OpenAI's total, and adds the fields of its own.
            {
                "prompt_tokens": 1_000,
                "prompt_tokens_details": {"cached_tokens": 800},
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 150,
            },
            Usage(50, 800, 150),
        ),
        (
            {
                "input_tokens": 10,
                "cache_creation": {"ephemeral_5m_input_tokens": 3},
                "cacheDetails": [{"ttl": "5m", "inputTokens": 3}],
            },
            Usage(10, written_1h=0),
        ),
        ({"prompt_tokens": "12", "completion_tokens": "3"}, Usage(12, output=3)),
        ({"prompt_tokens": 1e3}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": -1}, None),
        ({"completion_tokens": 5}, None),
        ("nothing", None),
    ],
)
def test_usage_is_read_in_the_words_of_each_api(said: object, usage: Usage | None) -> None:
    assert read_usage(said) == usage


@given(JSON)
def test_whatever_a_log_holds_as_usage_no_token_is_counted_twice(value: object) -> None:
    usage = read_usage(value)

    if usage is not None:
        assert min(usage.prompt, usage.read, usage.written, usage.uncached) >= 0
