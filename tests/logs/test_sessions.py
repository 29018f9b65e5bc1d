"""Sessions of Codex and mini-SWE-agent."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agora.formats import parse, validate
from agora.logs import Recording, Tally, Usage, read_logs, read_one

FIXTURES = Path(__file__).parent / "fixtures"


def read(path: Path, kind: str | None = None) -> tuple[list[Recording], Tally]:
    tally = Tally()
    recordings = list(read_logs([path], tally, kind=kind))
    for one in recordings:
        assert not validate(one.messages, format=one.format, system=one.system, tools=one.tools)
    return recordings, tally


def write(folder: Path, values: Iterable[Any], name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "steps", "prompts", "read_tokens", "model"),
    [
        ("codex.jsonl", 3, [16717, 20129, 23030, 76488], 110145, "gpt-6.1-sol"),
        ("mini_swe_agent.traj.json", 2, [841, 4331], 0, "openai/gpt-5"),
    ],
)
def test_steps_model_and_the_bill_of_every_call_are_read(
    name: str, steps: int, prompts: list[int], read_tokens: int, model: str
) -> None:
    recordings, tally = read(FIXTURES / name)
    last = recordings[-1]

    assert not tally.bad
    assert len(parse(last.request()).trajectory.steps) == steps
    assert [usage.prompt for usage in last.usage] == prompts
    assert sum(usage.read for usage in last.usage) == read_tokens
    assert last.model == model
    assert len(last.calls) == len(last.at_seconds) == len(prompts)


def test_after_a_compaction_codex_goes_on_in_a_recording_of_its_own(tmp_path: Path) -> None:
    lines = lines_of("codex.jsonl")
    left = [{"type": "message", "role": "user", "content": "What was done so far."}]
    at = next(n for n, line in enumerate(lines) if line["payload"].get("call_id") == "call_000030")
    history = {"type": "compacted", "payload": {"message": "", "replacement_history": left}}
    told = {"type": "compacted", "payload": {"message": "What was done so far."}}

    for line in (history, told):
        before, after = read(write(tmp_path, [*lines[:at], line, *lines[at:]]))[0]
        assert len(before.calls) + len(after.calls) in (4, 5)
        assert after.messages[0]["content"] == "What was done so far."
        assert (before.id[-2:], after.id[-2:]) == (":1", ":2")


def test_turns_taken_back_are_not_in_what_codex_sends_later(tmp_path: Path) -> None:
    lines = lines_of("codex.jsonl")
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Anew."}]}
    say = {"type": "message", "role": "assistant", "content": "Done."}
    more = [{"type": "response_item", "payload": one} for one in (ask, say)]

    whole, anew = read(write(tmp_path, [*lines, back, *more]))[0]

    assert len(whole.calls) == 4
    assert [len(anew.calls), anew.messages[-2:]] == [1, [ask, say]]
    assert all(item.get("type") == "message" for item in anew.messages)


def test_a_call_of_codex_that_was_broken_off_gets_a_result_or_is_left_out(tmp_path: Path) -> None:
    lines = lines_of("codex.jsonl")
    outputs = [n for n, one in enumerate(lines) if "output" in one["payload"]]
    calls = [n for n, one in enumerate(lines) if one["payload"].get("type") == "custom_tool_call"]

    (missing,), _ = read(write(tmp_path, [one for n, one in enumerate(lines) if n != outputs[0]]))
    assert missing.messages[outputs[0] - 7 : outputs[0]]
    assert any(item.get("output") == "[no result in the log]" for item in missing.messages)
    (cut,), _ = read(write(tmp_path, lines[: outputs[0]]))
    assert len(cut.calls) == 1
    (stray,), _ = read(write(tmp_path, [one for n, one in enumerate(lines) if n != calls[0]]))
    assert not any(item.get("call_id") == "call_000010" for item in stray.messages)


def test_a_session_of_codex_without_an_answer_is_skipped(tmp_path: Path) -> None:
    recordings, tally = read(write(tmp_path, [*lines_of("codex.jsonl")[:2], {"type": "x"}]))

    assert not recordings
    assert tally.skipped["the session has no answer of a model"] == 1
    assert tally.bad == 1


def test_instructions_of_codex_stand_beside_the_messages_or_in_them(tmp_path: Path) -> None:
    lines = lines_of("codex.jsonl")
    told = lines[0]["payload"].pop("base_instructions")["text"]
    without = [one for one in lines if one["payload"].get("role") != "developer"]
    without[0]["payload"]["instructions"] = told

    (inside,), _ = read(FIXTURES / "codex.jsonl")
    (beside,), _ = read(write(tmp_path, without))

    assert inside.system is None
    assert beside.system == told


def test_a_mini_swe_agent_acts_by_text_or_by_responses(tmp_path: Path) -> None:
    kind = {"trajectory_format": "mini-swe-agent-1"}
    ask = {"role": "user", "content": "Fix it."}
    by_text = [ask, {"role": "assistant", "content": "ls"}, {"role": "user", "content": "a.py"}]
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    usage = {"input_tokens": 10, "output_tokens": 2}
    answer = {"object": "response", "output": [call], "usage": usage, "extra": {}}
    result = {"type": "function_call_output", "call_id": "c", "output": "a.py", "extra": {}}
    by_items = [ask, answer, result, answer, {"role": "exit", "content": ""}]

    (text, items), tally = read(
        write(tmp_path, [{**kind, "messages": m} for m in (by_text, by_items, [ask])] + [{}])
    )

    assert (text.observations, text.format) == ("user", "openai")
    assert (items.format, len(items.messages), items.calls) == ("responses", 3, (1, 3))
    assert items.usage == (Usage(10, output=2), Usage(10, output=2))
    assert tally.bad == 2


def test_one_trajectory_is_picked_by_its_place() -> None:
    path = FIXTURES / "claude_code.jsonl"
    recordings = list(read_logs([path], Tally()))

    for index, expected in enumerate(recordings):
        assert read_one([path], Tally(), index=index) == (expected, 4)
    assert read_one([path], Tally(), index=4) == (None, 4)
    assert read_one([path], Tally()) == (None, 4)
    assert read_one([FIXTURES / "codex.jsonl"], Tally())[1] == 1
