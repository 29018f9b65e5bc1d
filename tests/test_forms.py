"""Forms from end to end: what is left of steps in the messages that are sent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

import agora
from agora import Budget, Compressor, FallbackLevel, Query, Step
from agora.errors import SettingError
from harness.histories import edit_after

Message = dict[str, Any]


def chat(*tools: str, size: int = 60) -> list[Message]:
    """Return a chat in which one tool after the other is called."""
    messages: list[Message] = [{"role": "user", "content": "Sort it out."}]
    for n, tool in enumerate(tools, start=1):
        function = {"name": tool, "arguments": json.dumps({"order_id": f"W-{n}000"})}
        call = {"id": f"call{n:05d}", "type": "function", "function": function}
        result = {"item_id": f"I-{n}77", "text": "so it goes and goes. " * size}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    return messages


def spoken(steps: int) -> list[Message]:
    """Return a chat of an agent that runs commands by text."""
    messages: list[Message] = [{"role": "user", "content": "Sort it out."}]
    for n in range(1, steps + 1):
        said = f"THOUGHT: on.\n\n```bash\ncat file_{n}.txt\n```"
        output = f"see dir/file_{n + 50}.txt. " + "so it goes and goes. " * 60
        ran = f"<returncode>0</returncode>\n<output>\n{output}\n</output>"
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": ran}]
    return messages


def compressor(**changed: Any) -> Compressor:
    settings: dict[str, Any] = {
        "edits": "every_call",
        "budget": Budget(keep_ratio=0.25, min_ratio=0.25),
        "strict": True,
    }
    return Compressor(**{**settings, **changed})


@dataclass(frozen=True)
class Broken:
    """Fails when it is asked."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        raise RuntimeError("no weights")


def test_nothing_that_was_done_is_forgotten_and_a_quarter_is_enough_for_it() -> None:
    found = compressor().compress(chat(*["get_order"] * 10, "cancel_order", *["get_order"] * 9))

    elided = [d for d in found.decisions if d.outcome == "elided"]
    assert len(elided) > 10
    assert all(d.kind in ("line", "note") and d.text for d in elided)
    cancelled = found.decisions[10]
    assert "item_id=I-1177" in cancelled.text
    assert found.tokens_after <= 0.35 * found.tokens_before


def test_an_edit_that_is_frozen_stays_as_it_is_while_more_is_done() -> None:
    messages = chat(*["get_order"] * 24, size=200)
    seldom = compressor(edits="never")

    prompts = [
        seldom.compress(messages[:end], state=edit_after(end // 2 - end // 2 % 6)).messages
        for end in range(3, 50, 2)
    ]

    edits = [after[: len(before)] != before for before, after in pairwise(prompts)]
    assert sum(edits) == 4


def test_steps_of_tools_to_keep_stay_whole() -> None:
    messages = chat("read_policy", *["get_order"] * 9)

    assert compressor().compress(messages).decisions[0].outcome == "elided"
    kept = compressor(tools={"read_policy": "keep"}).compress(messages).decisions[0]
    assert (kept.outcome, kept.reason, kept.kind) == ("protected", "tool to keep", "whole")


def test_steps_of_tools_to_keep_stay_whole_by_price_too() -> None:
    messages = chat("read_policy", *["get_order"] * 30, size=400)
    found = Compressor(tools={"read_policy": "keep"}, min_tokens=0).compress(
        messages, model="gpt-5.2"
    )

    assert found.decisions[0].outcome != "elided"


def test_after_a_user_s_words_what_was_read_is_told_before_them_and_what_was_done_behind() -> None:
    words = [{"role": "assistant", "content": "What next?"}, {"role": "user", "content": "Go on."}]
    tools = ["get_order", "get_order", "get_order", "cancel_order", "get_order", "get_order"]
    messages = chat(*tools, *["get_order"] * 2)
    messages[5:5] = words

    budget = Budget(keep_ratio=0.4, min_ratio=0.4)
    sent = compressor(budget=budget).compress(messages).messages

    asked = sent.index(words[1])
    before, behind = json.dumps(sent[:asked]), json.dumps(sent[asked:])
    assert "3 get_order order_id=W-3000" in before
    assert "cancel_order" not in before
    assert "cancel_order" in behind


def gone(found: agora.Compression) -> set[int]:
    # The first step keeps its calls in any case: the user's words stand before it.
    return {decision.number for decision in found.decisions if decision.kind == "omitted"}


def test_a_tool_changes_something_or_reads_as_the_settings_say() -> None:
    messages = chat(*["get_order", "frobnicate"] * 12)
    small: dict[str, Any] = {"budget": Budget(limit=10)}

    assert gone(compressor(**small).compress(messages)) == set(range(3, 22, 2))
    reads = compressor(**small, tools={"frobnicate": "reads"}).compress(messages)
    assert gone(reads) == set(range(2, 23))
    changes = compressor(**small, tools={"get_order": "changes"}).compress(messages)
    assert gone(changes) == set()


def instructed() -> list[Message]:
    """Return a chat whose first step has read an instruction file by a tool of the user's own."""
    messages = chat("frobnicate", *["get_order"] * 30, size=400)
    messages[1]["tool_calls"][0]["function"]["arguments"] = '{"path": "AGENTS.md"}'
    return messages


def test_instructions_that_a_tool_of_ones_own_reads_stay_once_it_is_said_to_read() -> None:
    messages = instructed()

    assert compressor().compress(messages).decisions[0].reason != "instructions"
    known = compressor(tools={"frobnicate": "reads"})
    assert known.compress(messages).decisions[0].reason == "instructions"
    trajectory = agora.parse(messages)
    assert known.kept(trajectory) != compressor().kept(trajectory)


def test_where_the_scorer_fails_the_newest_steps_come_first() -> None:
    messages = chat(*["get_order"] * 9)
    broken = Broken()

    found = compressor(scorer=broken, strict=False).compress(messages)

    assert found.fallback_level is FallbackLevel.PARTIAL
    assert found.detail == "RuntimeError: no weights"
    with pytest.raises(RuntimeError, match="no weights"):
        compressor(scorer=broken).compress(messages)


def test_the_size_is_held_though_parts_do_not_add_up() -> None:
    messages = spoken(30)
    for limit in range(1_000, 6_000, 400):
        found = compressor(budget=Budget(limit=limit)).compress(messages)
        assert found.tokens_after <= limit, limit


@pytest.mark.parametrize(
    "tools", ["read_policy", ["read_policy"], {"read_policy": "kept"}, {3: "keep"}, 5, None]
)
def test_tools_that_are_no_names_of_a_known_kind_are_refused(tools: object) -> None:
    with pytest.raises(SettingError, match="tools"):
        compressor(tools=tools)
