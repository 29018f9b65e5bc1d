"""Sessions that coding agents leave on disk, and exports of what observers saw."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agora.adapters import parse, validate
from agora.logs import Recording, Tally, Usage, log_files, read_logs, read_one

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
        ("gemini_cli.json", 2, [12702, 15882], 12702, "gemini-2.5-pro"),
        ("gemini_cli.jsonl", 4, [69798], 12832, "gemini-2.5-pro"),
        ("opencode.db", 4, [7325, 10976, 14084, 21446, 83300], 112128, "gpt-5"),
        ("opencode.json", 4, [7325, 10976, 14084, 21446, 83300], 112128, "gpt-5"),
        ("opencode_storage", 2, [7325, 10976], 7296, "gpt-5"),
        ("openhands", 5, [5764, 6043, 6322, 6749, 7053, 7332], 31744, "openai/gpt-5"),
        ("mini_swe_agent.traj.json", 2, [841, 4331], 0, "openai/gpt-5"),
        ("langsmith.jsonl", 3, [900, 1100, 1300, 1500], 2304, "gpt-5"),
        ("langfuse.json", 3, [900, 1100, 1300, 1500], 2304, "gpt-5"),
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
    assert len(last.calls) == len(last.at_seconds) == len(last.output_tokens) == len(prompts)


def test_one_session_of_opencode_is_the_same_from_its_database_and_its_export() -> None:
    [(one,), (other,)] = [read(FIXTURES / name)[0] for name in ("opencode.db", "opencode.json")]

    assert one == other


def test_a_folder_with_a_file_for_each_event_is_one_log(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "openhands" / "conversation", tmp_path / "a")
    shutil.copytree(FIXTURES / "openhands" / "conversation", tmp_path / "b")
    shutil.copytree(FIXTURES / "opencode_storage", tmp_path / "c")
    (tmp_path / "b" / "base_state.json").unlink()

    recordings, tally = read(tmp_path)

    assert len(recordings) == 3
    assert [len(one.usage) for one in recordings] == [6, 0, 2]
    assert recordings[1].id == "events:1"
    assert tally.files == len(list(log_files(tmp_path)))
    assert tally.bad == 0


def test_a_database_that_is_not_opencodes_or_is_damaged_is_put_down(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    odd = tmp_path / "odd.db"
    shutil.copy(FIXTURES / "opencode.db", odd)
    with sqlite3.connect(odd) as connection:
        connection.execute("UPDATE message SET data = '{oops' WHERE rowid = 1")
        connection.execute("UPDATE message SET data = '[]' WHERE rowid = 2")
    connection.close()

    assert "none of opencode that can be read: no such table" in read(other)[1].examples[0].problem
    recordings, tally = read(odd)
    assert len(recordings) == 1
    assert [bad.problem[:11] for bad in tally.examples] == ["is not JSON", "is not an o"]


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


def test_a_rewound_session_of_gemini_goes_on_in_a_recording_of_its_own(tmp_path: Path) -> None:
    lines = lines_of("gemini_cli.jsonl")[:14]
    asked = [one["id"] for one in lines if one.get("type") == "user"]
    more = [
        {"id": "u", "type": "user", "content": "Something else."},
        {"id": "i", "type": "info", "content": "Shown, never sent."},
        {"id": "g", "type": "gemini", "content": [{"text": "Done."}], "tokens": {"input": 9}},
        {"what": "else"},
    ]
    for to, kept in ((asked[-1], 5), ("nobody", 0)):
        path = write(tmp_path, [*lines, {"$rewindTo": to}, *more])
        (whole, anew), tally = read(path)
        assert len(whole.calls) == 2
        assert [len(anew.calls), anew.usage] == [1, (Usage(9),)]
        assert len(anew.messages) >= kept + 2
        assert (tally.bad, sum(tally.skipped.values())) == (1, 1)


def test_a_compaction_of_opencode_begins_a_recording_of_its_own(tmp_path: Path) -> None:
    export = json.loads((FIXTURES / "opencode.json").read_text())
    first, *rest = export["messages"]
    compact = json.loads(json.dumps(first))
    compact["info"]["id"] = rest[-1]["info"]["id"][:-1]
    compact["parts"] = [{"id": "prt_1", "type": "compaction", "auto": True}]
    for part in compact["parts"]:
        part.pop("messageID", None)

    (before, after), _ = read(
        write(tmp_path, [{**export, "messages": [first, *rest[:-1], compact, rest[-1]]}])
    )

    assert (len(before.calls), len(after.calls)) == (4, 1)
    assert after.messages[0]["content"] == "What did we do so far?"


def test_an_answer_of_opencode_may_hold_several_calls_of_the_model(tmp_path: Path) -> None:
    export = json.loads((FIXTURES / "opencode.json").read_text())
    first, one, other, *_ = export["messages"]
    one["parts"] += [{**part, "messageID": one["info"]["id"]} for part in other["parts"]]
    tool = next(part for part in one["parts"] if part["type"] == "tool")
    tool["state"] = {"status": "error", "input": {}, "error": "It failed."}

    (recording,), _ = read(write(tmp_path, [{**export, "messages": [first, one]}]))

    assert [usage.prompt for usage in recording.usage] == [7325, 10976]
    assert "It failed." in [message["content"] for message in recording.messages]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "source": "agent", "id": fields.get("tool_call_id", kind), **fields}


def test_what_openhands_condenses_begins_a_recording_of_its_own(tmp_path: Path) -> None:
    files = sorted((FIXTURES / "openhands/conversation/events").glob("event-*"))
    events = [json.loads(file.read_text()) for file in files]
    forgotten = [one["id"] for one in events[2:6]]
    condensed = event("Condensation", forgotten_event_ids=forgotten, summary="S", summary_offset=2)

    (before, after), tally = read(
        write(tmp_path, [*events[:10], event("PauseEvent"), condensed, *events[10:], {"x": 1}])
    )

    assert (len(before.calls), len(after.calls)) == (3, 3)
    assert after.messages[2] == {"role": "user", "content": "S"}
    assert (tally.bad, sum(tally.skipped.values())) == (1, 1)


def test_errors_and_refusals_of_openhands_are_results(tmp_path: Path) -> None:
    def call(number: int, response: str) -> dict[str, Any]:
        made = {"id": f"c{number}", "name": "run", "arguments": "{}"}
        return event("ActionEvent", tool_call_id=f"c{number}", tool_call=made,
                     llm_response_id=response, thought=[{"text": "I try."}])  # fmt: skip

    asked = event("MessageEvent", llm_message={"role": "user", "content": "Do it."})
    values = [
        asked, call(1, "a"), call(2, "a"), call(3, "b"),
        event("AgentErrorEvent", tool_call_id="c1", error="No such tool."),
        event("UserRejectObservation", tool_call_id="c2", rejection_reason="Not that."),
        event("ObservationEvent", tool_call_id="c3", observation={"content": "ok"}),
    ]  # fmt: skip

    (recording,), _ = read(write(tmp_path, values))

    results = [m["content"] for m in recording.messages if m["role"] == "tool"]
    assert results == ["No such tool.", "Not that.", "ok"]
    assert len(recording.calls) == 2


def test_events_of_the_first_openhands_are_read(tmp_path: Path) -> None:
    values = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "You are an agent."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}},
        {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": ""},
        {"id": 3, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Hm."}},
        {"id": 4, "source": "agent", "observation": "run", "content": "a.py", "cause": 3},
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}},
    ]

    (recording,), tally = read(write(tmp_path, [values], "trajectory.json"))

    roles = [message["role"] for message in recording.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert recording.messages[2]["content"] == "Hm."
    assert json.loads(recording.messages[2]["tool_calls"][0]["function"]["arguments"]) == {
        "command": "ls"
    }
    assert tally.records == 6


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
    assert items.usage == (Usage(10), Usage(10))
    assert tally.bad == 2


def test_runs_of_langsmith_as_the_openai_client_traces_them(tmp_path: Path) -> None:
    sent = [{"role": "user", "content": "Find it."}]
    spoken = {"role": "assistant", "content": "It is there."}
    run = {"run_type": "llm", "inputs": {"messages": sent, "model": "gpt-5"}, "trace_id": "t",
           "outputs": {"choices": [{"message": spoken}]}, "prompt_tokens": 12,
           "prompt_token_details": {"cache_read": 4}, "completion_tokens": 3}  # fmt: skip
    below = {"run_type": "chain", "inputs": {}, "trace_id": "t", "child_runs": [run]}
    failed = {**run, "error": "429"}
    silent = {**run, "inputs": {"prompt": "x"}}

    for outputs in ({"choices": [{"message": spoken}]}, {"messages": [spoken]}, spoken):
        run["outputs"] = outputs
        (recording,), tally = read(write(tmp_path, [below, failed, silent, {}]))
        assert recording.messages == [*sent, spoken]
        assert (recording.usage, recording.output_tokens) == ((Usage(12, 4),), (3,))
        assert recording.model == "gpt-5"
        assert (tally.bad, sum(tally.skipped.values())) == (1, 3)


def test_langfuses_bulk_export_has_other_names_and_json_in_strings(tmp_path: Path) -> None:
    trace = json.loads((FIXTURES / "langfuse.json").read_text())
    names = {"traceId": "trace_id", "startTime": "start_time", "usageDetails": "usage_details",
             "model": "provided_model_name"}  # fmt: skip
    rows = []
    for one in trace["observations"]:
        row = {names.get(key, key): value for key, value in one.items()}
        row |= {key: json.dumps(row[key]) for key in ("input", "output", "usage_details")
                if row.get(key)}  # fmt: skip
        rows.append(row)
    failed = {**rows[0], "level": "ERROR"}
    silent = {**rows[0], "input": "text"}

    (plain,), _ = read(FIXTURES / "langfuse.json")
    (bulk,), tally = read(write(tmp_path, [*rows, failed, silent, {"x": 1}]))
    (page,), _ = read(write(tmp_path, [{"data": trace["observations"], "meta": {}}]))

    assert (bulk.messages, bulk.usage, bulk.model) == (plain.messages, plain.usage, plain.model)
    assert page.messages == plain.messages
    assert plain.task == "session-1"
    assert (tally.bad, sum(tally.skipped.values())) == (1, 3)


def test_one_trajectory_is_picked_by_its_place() -> None:
    path = FIXTURES / "claude_code.jsonl"
    recordings = list(read_logs([path], Tally()))

    for index, expected in enumerate(recordings):
        assert read_one([path], Tally(), index=index) == (expected, 4)
    assert read_one([path], Tally(), index=4) == (None, 4)
    assert read_one([path], Tally()) == (None, 4)
    assert read_one([FIXTURES / "codex.jsonl"], Tally())[1] == 1
