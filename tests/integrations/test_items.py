import copy
import json
import secrets
from typing import Any

import pytest

from agora.adapters.thoughts import REMOVED
from agora.compressor import Compressor
from agora.integrations.items import compress_items, without_thinking
from agora.testing import EveryNth

BOUND = "anthropic/claude-fable-5-1"
EVERY = Compressor(schedule="every_call")


def sealed() -> dict[str, Any]:
    """Return reasoning as LiteLLM gives it."""
    summary = [{"type": "summary_text", "text": "hm"}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": secrets.token_hex()}


def in_blocks() -> dict[str, Any]:
    """Return reasoning as the Agents SDK keeps it."""
    block = {"type": "thinking", "thinking": "", "signature": secrets.token_hex()}
    other = {"type": "redacted_thinking", "data": secrets.token_hex()}
    return {
        "type": "reasoning",
        "summary": [],
        "provider_data": {"thinking_blocks": [block, other]},
    }


def conversation(steps: int, shape: Any = sealed) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "Find it."}]
    for n in range(steps):
        said = {"type": "output_text", "text": "Next.", "annotations": []}
        items.append(shape())
        if n % 2:
            items.append({"type": "message", "role": "assistant", "content": [said]})
        made = {"name": "read", "arguments": "{}"}
        items += [
            {"type": "function_call", "call_id": f"c{n}", **made},
            {"type": "function_call_output", "call_id": f"c{n}", "output": f"row {n} " * 60},
        ]
    return items


def kinds(items: list[dict[str, Any]]) -> list[str]:
    return [str(item.get("type", "message")) for item in items]


@pytest.mark.parametrize("shape", [sealed, in_blocks])
def test_an_edit_takes_out_the_reasoning_that_is_older_and_no_other(shape: Any) -> None:
    items = conversation(40, shape)
    before = copy.deepcopy(items)

    every = compress_items(EVERY, items, model=BOUND, system="Read.")
    again = conversation(40, shape)
    nth = compress_items(Compressor(schedule=EveryNth(25)), again, model=BOUND, system="Read.")

    assert every is not None
    assert nth is not None
    assert "elided" in json.dumps(every[0])
    assert "reasoning" not in kinds(every[0])
    assert [
        item for item in nth[0] if item["type" if "type" in item else "role"] == "reasoning"
    ] == [item for item in again if item.get("type") == "reasoning"][25:]
    assert items == before


def test_calls_and_their_outputs_stay_in_pairs() -> None:
    found = compress_items(EVERY, conversation(40), model=BOUND)

    assert found is not None
    calls = [i["call_id"] for i in found[0] if i.get("type") == "function_call"]
    outputs = [i["call_id"] for i in found[0] if i.get("type") == "function_call_output"]
    assert calls == outputs
    assert calls


def test_an_answer_of_nothing_but_reasoning_takes_a_text() -> None:
    items = [*conversation(9), sealed(), {"role": "user", "content": "And now?"}]

    found = compress_items(EVERY, items, model=BOUND)

    assert found is not None
    assert found[0][-2] == {"role": "assistant", "content": REMOVED}


def test_unsigned_reasoning_stays() -> None:
    plain = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    items = conversation(9, lambda: plain)

    found = compress_items(EVERY, items, model=BOUND)

    assert found is not None
    assert plain in found[0]
    assert without_thinking([plain, sealed(), in_blocks()]) == [plain]


def test_parts_of_all_kinds_are_read() -> None:
    image = {"type": "input_image", "image_url": "data:"}
    task: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "input_text", "text": "Find it."}, image],
    }
    system: dict[str, Any] = {"role": "system", "content": "Read."}
    items: list[dict[str, Any]] = [system, task, *conversation(9)[1:]]
    for item in items:
        if item.get("type") == "function_call_output":
            item["output"] = [{"type": "input_text", "text": item["output"]}]
    items[3:3] = [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]

    found = compress_items(EVERY, items, model=BOUND)

    assert found is not None
    assert found[0][0] is items[0]
    assert found[0][1]["content"][:2] == task["content"]
    assert "elided" in json.dumps(found[0])


def test_a_short_conversation_stays_and_an_item_without_a_counterpart_is_named() -> None:
    assert compress_items(EVERY, conversation(1), model=BOUND) is None
    with pytest.raises(ValueError, match="'web_search_call' has no counterpart"):
        compress_items(EVERY, [*conversation(9), {"type": "web_search_call"}], model=BOUND)
