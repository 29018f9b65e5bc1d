"""Forms from end to end: what is left of steps in the messages that are sent."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agora
from agora import Budget, Compressor
from agora.core.actions import command_of
from agora.core.compression import FallbackLevel
from agora.core.trajectory import Anchor, Step
from agora.errors import SettingError
from harness.histories import EveryNth
from tests.forgeries import forgeries

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
        "schedule": "every_call",
        "budget": Budget(keep_ratio=0.25, min_ratio=0.25),
        "strict": True,
    }
    return Compressor(**{**settings, **changed})


@dataclass(frozen=True)
class Broken:
    """Fails when it is asked."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
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
    seldom = compressor(schedule=EveryNth(6))

    prompts = [seldom.compress(messages[:end]).messages for end in range(3, 50, 2)]

    edits = [after[: len(before)] != before for before, after in pairwise(prompts)]
    assert sum(edits) == 4


def test_steps_of_tools_to_keep_stay_whole() -> None:
    messages = chat("read_policy", *["get_order"] * 9)

    assert compressor().compress(messages).decisions[0].outcome == "elided"
    kept = compressor(keep_tools=("read_policy",)).compress(messages).decisions[0]
    assert (kept.outcome, kept.reason, kept.kind) == ("protected", "tool to keep", "whole")


def test_the_function_takes_tools_to_keep() -> None:
    messages = chat("read_policy", *["get_order"] * 30, size=400)
    found = agora.compress(messages, model="gpt-5.2", keep_tools=["read_policy"], min_tokens=0)

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
    reads = compressor(**small, reading_tools={"frobnicate"}).compress(messages)
    assert gone(reads) == set(range(2, 23))
    changes = compressor(**small, changing_tools=["get_order"]).compress(messages)
    assert gone(changes) == set()


@pytest.mark.parametrize(
    "given",
    [
        {"changing_tools": ("ship", "sink"), "reading_tools": ("sink",)},
        {"changing_tools": ("sink",), "reading_tools": ("sink",)},
    ],
)
def test_a_tool_that_is_said_to_change_and_to_read_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"changing_tools is .* without 'sink', which is in"):
        compressor(**given)


def instructed() -> list[Message]:
    """Return a chat whose first step has read an instruction file by a tool of the user's own."""
    messages = chat("frobnicate", *["get_order"] * 30, size=400)
    messages[1]["tool_calls"][0]["function"]["arguments"] = '{"path": "AGENTS.md"}'
    return messages


def test_instructions_that_a_tool_of_ones_own_reads_stay_once_it_is_said_to_read() -> None:
    messages = instructed()

    assert compressor().compress(messages).decisions[0].reason != "instructions"
    known = compressor(reading_tools=("frobnicate",))
    assert known.compress(messages).decisions[0].reason == "instructions"
    trajectory = agora.parse(messages)
    assert known.sizes(trajectory) != compressor().sizes(trajectory)


def test_the_function_takes_tools_that_change_and_read() -> None:
    asked: dict[str, Any] = {"model": "gpt-5.2", "min_tokens": 0}

    found = agora.compress(instructed(), **asked, reading_tools=["frobnicate"])
    assert found.decisions[0].reason == "instructions"
    found = agora.compress(instructed(), **asked, changing_tools=["frobnicate"])
    assert found.decisions[0].reason != "instructions"
    with pytest.raises(SettingError, match="changing_tools"):
        agora.compress([], changing_tools=["frobnicate"], reading_tools=["frobnicate"])


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
    ("setting", "value"),
    [
        *(
            (setting, value)
            for setting in ("keep_tools", "changing_tools", "reading_tools")
            for value in ("read_policy", (1,), 5, None, iter(["read_policy"]))
        ),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str, value: object) -> None:
    with pytest.raises(SettingError, match=setting):
        compressor(**{setting: value})


def test_of_a_database_the_names_of_its_tables_stay() -> None:
    asked = "SELECT model FROM %s WHERE horsepower > 150 AND weight < 3000 ORDER BY year DESC"
    rows = str([(f"model {n} of the series", n) for n in range(60)])
    messages: list[Message] = [{"role": "user", "content": "Which cars are strong and light?"}]
    for said, seen in (
        ("SHOW TABLES", "[('car_makers',), ('car_names',), ('cars_data',), ('countries',)]"),
        *((asked % table, rows) for table in ("cars", "models", "autos", "vehicles")),
        ("SELECT 1", "[(1,)]"),
        ("SELECT 2", "[(2,)]"),
    ):
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": seen}]

    found = compressor(min_tokens=0).compress(messages, observations="user")

    assert found.changed
    assert "car_names" in str(found.messages)


_OURS = re.compile(r"\[steps? [0-9-]+(?:: result)? removed[^\]\n]*#([0-9a-f]{4})[\];,]")


def signed_with(messages: Any) -> list[str]:
    return _OURS.findall(json.dumps(messages))


@settings(deadline=None)
@given(
    forged=st.lists(st.sampled_from(forgeries(400)), min_size=1, max_size=8),
    spoke=st.booleans(),
    more=st.integers(1, 4),
)
def test_what_a_tool_writes_neither_tells_nor_changes_the_code_of_our_markers(
    forged: list[str], spoke: bool, more: int
) -> None:
    whole = spoken(14 + more) if spoke else chat(*["get_order"] * (14 + more))
    attacked = whole[:1]
    for at, message in enumerate(whole[1:]):
        frame, output, said = message["content"].rpartition("<output>\n") if at % 2 else ("",) * 3
        forgery = f"{frame}{output}{forged[at % len(forged)]}\n{said}"
        attacked.append({**message, "content": forgery} if at % 2 else message)
    calls = (whole, attacked, attacked[: -2 * more])
    prompts = [compressor().compress(messages) for messages in calls]

    codes = [signed_with(prompt.messages) for prompt in prompts]
    assert all(codes)
    assert len({code for found in codes for code in found}) == 1
    for prompt in prompts:
        assert json.dumps(prompt.messages).count("tag #") == 1
        elided = [decision for decision in prompt.decisions if decision.kind == "note"]
        assert len(signed_with(prompt.messages)) >= len(elided)


def test_another_task_or_another_beginning_has_another_code() -> None:
    asked = chat(*["get_order"] * 14)
    other = [{"role": "user", "content": "Sort it out!"}, *asked[1:]]
    began = chat("get_user", *["get_order"] * 13)

    codes = [set(signed_with(compressor().compress(m).messages)) for m in (asked, other, began)]
    assert [len(found) for found in codes] == [1, 1, 1]
    assert len(set.union(*codes)) == 3


THOUGHT = "I look at the next order, since the last one was not what was asked for."


def long_commands(steps: int) -> list[Message]:
    messages = spoken(steps)
    for n, message in enumerate(messages[1::2], start=1):
        body = "\n".join(f"print({n}, {m}, 'so it goes')" for m in range(12))
        command = f"```bash\npython - <<'EOF'\n{body}\nEOF\n```"
        message["content"] = f"THOUGHT: {THOUGHT * 12}\n\n{command}"
    return messages


def test_a_script_may_be_told_word_for_word_in_its_line() -> None:
    messages = long_commands(12)
    budget = Budget(keep_ratio=0.4)
    found = compressor(budget=budget).compress(messages, observations="user")

    prompt = "\n".join(message["content"] for message in found.messages)
    told = [
        decision.number
        for decision in found.decisions
        if decision.kind == "line"
        and json.dumps(command_of(messages[2 * decision.number - 1]["content"])) in prompt
    ]
    assert len(told) > 5
