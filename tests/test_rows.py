import copy
import secrets
from typing import Any

import pytest

from agora import Compressor, Reason
from agora.rows import compress_rows
from harness.shortened import REMOVED

BOUND = "claude-fable-5-1"
EVERY = Compressor(edits="every_call")


def thinking_rows(steps: int) -> list[dict[str, Any]]:
    """Return rows in LiteLLM's dialect, whose thinking no other conversation has."""
    run = secrets.token_hex()
    rows: list[dict[str, Any]] = [{"role": "user", "content": "Find it."}]
    for n in range(steps):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        block = {"type": "thinking", "thinking": "hm", "signature": f"{run} {n}"}
        rows += [
            {
                "role": "assistant",
                "content": None,
                "thinking_blocks": [block],
                "tool_calls": [call],
            },
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"row {n} " * 80},
        ]
    return rows


def thoughts(rows: list[dict[str, Any]]) -> list[int]:
    return [len(row["thinking_blocks"]) for row in rows if "thinking_blocks" in row]


def test_rows_older_than_an_edit_lose_their_thinking_where_they_stand() -> None:
    rows = thinking_rows(9)
    before = copy.deepcopy(rows)

    found = compress_rows(EVERY, rows, model=BOUND)

    assert len(found.rows) == len(rows)
    assert thoughts(found.rows) == [0] * 9
    assert found.thinking == 9
    assert found.changed
    assert rows == before
    same = [a for a, b in zip(rows, found.rows, strict=True) if a is b]
    assert len(same) >= 1 + 3
    for old, new in zip(rows, found.rows, strict=True):
        assert {**new, "thinking_blocks": 0, "content": 0} == {
            **old,
            "thinking_blocks": 0,
            "content": 0,
        }


def test_a_row_of_nothing_but_thinking_says_so() -> None:
    rows = thinking_rows(9)
    block = {"type": "thinking", "thinking": "hm", "signature": secrets.token_hex()}
    rows += [
        {"role": "assistant", "content": "", "thinking_blocks": [block]},
        {"role": "user", "content": "And now?"},
    ]

    found = compress_rows(EVERY, rows, model=BOUND)

    assert found.rows[-2] == {"role": "assistant", "content": REMOVED, "thinking_blocks": []}


@pytest.mark.parametrize("model", ["claude-opus-4-5", "gpt-4o", None])
def test_rows_for_other_models_keep_their_thinking(model: str | None) -> None:
    found = compress_rows(EVERY, thinking_rows(9), model=model)

    assert found.changed
    assert found.thinking == 0
    assert thoughts(found.rows) == [1] * 9


def test_rows_whose_assistant_messages_were_held_back_stay_if_the_model_binds_thinking() -> None:
    rows = [row for row in thinking_rows(9) if row["role"] != "assistant"]

    found = compress_rows(EVERY, rows, model=BOUND)

    assert found.rows == rows
    assert not found.changed
    assert found.compression.reason is Reason.NOTHING_TO_ELIDE
    assert "held back" in found.compression.summary()
    assert compress_rows(EVERY, rows, model="gpt-4o").changed
    told = Compressor(edits="every_call", binds_thinking=False)
    assert compress_rows(told, rows, model=BOUND).changed
