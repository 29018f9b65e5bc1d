import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.formats.usage import read_usage
from agora.logs import Tally, Usage, read_logs

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
            Usage(9, output=7),
        ),
        ({"prompt_tokens": 9, "cost": True}, Usage(9)),
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


def conversation(calls: int) -> dict[str, Any]:
    messages: list[dict[str, str]] = [{"role": "user", "content": "Find the key."}]
    for n in range(calls):
        messages.append({"role": "assistant", "content": f"look {n}"})
        messages.append({"role": "user", "content": f"nothing in box {n}"})
    usage = [{"prompt_tokens": 10 + n, "cached_tokens": n} for n in range(calls)]
    return {"id": "task-1", "model": "gpt-5", "messages": messages, "usage": usage}


def test_usage_beside_a_finished_conversation_is_that_of_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl.xz"
    with lzma.open(path, "wt") as out:
        out.write(json.dumps(conversation(3)) + "\n")

    [recording] = read_logs([tmp_path], Tally())

    assert recording.usage == (Usage(10), Usage(10, 1), Usage(10, 2))
    assert recording.task == "task-1"


def test_usage_that_does_not_fit_the_calls_is_left_out(tmp_path: Path) -> None:
    value = conversation(3)
    value["usage"].pop()
    (tmp_path / "runs.jsonl").write_text(json.dumps(value))

    [recording] = read_logs([tmp_path], Tally())

    assert recording.usage == ()


def test_a_damaged_xz_file_is_put_down_and_reading_goes_on(tmp_path: Path) -> None:
    whole = lzma.compress((json.dumps(conversation(2)) + "\n").encode() * 2_000)
    (tmp_path / "cut.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "good.jsonl").write_text(json.dumps(conversation(2)))
    tally = Tally()

    recordings = list(read_logs([tmp_path], tally))

    assert tally.bad
    assert recordings[-1].id == "good.jsonl:1"
