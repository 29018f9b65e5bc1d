"""The recorded trajectories, by hand and as they lie in the data folder."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agora.formats import validate
from agora.logs import Recording, Tally
from agora_lab.recorded import read_logs

DATA = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[3] / "shared" / "data"))


def read_value(folder: Path, value: Any) -> tuple[list[Recording], Tally]:
    path = folder / "log.json"
    path.write_text(json.dumps(value))
    tally = Tally()
    return list(read_logs([path], tally)), tally


def test_a_played_game_becomes_actions_and_observations(tmp_path: Path) -> None:
    text = "A room.\n> Think: look\n> go to shelf 1\nYou see a mug.\nAnd a pen.\n> take mug\n"

    (recording,), _ = read_value(tmp_path, {"name": "mug", "traj": text})

    assert recording.observations == "user"
    assert recording.task == "mug"
    assert [message["content"] for message in recording.messages] == [
        "A room.",
        "Think: look\ngo to shelf 1",
        "You see a mug.\nAnd a pen.",
        "take mug",
    ]


def test_entries_by_name_are_read_one_by_one(tmp_path: Path) -> None:
    turns = {"actions": ["ls"], "observations": ["a.py"]}
    value = {
        "0": {"query": "List.", "turn_history": turns},
        "1": {"query": "List.", "turn_history": {"actions": ["ls"]}},
        "2": {"action_history": ["click"]},
        "games": {"a": {"problem": "Room.", "trace": " go\nok"}, "b": {"trace": " "}},
        "overall": {"rate": 0.5},
    }

    recordings, tally = read_value(tmp_path, value)

    assert [r.task for r in recordings] == ["0", "games/a"]
    assert [m["content"] for m in recordings[1].messages] == ["Room.", "go", "ok"]
    assert [bad.problem.split(":")[0] for bad in tally.examples] == [
        "has 1 actions and 0 observations",
        "has 1 actions and no observations",
        "has an empty trace",
    ]


def test_swe_agent_histories_are_read_with_and_without_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "Fix it."}]
    acts = {"role": "assistant", "content": "ls", "thought": "x"}
    with_calls = [
        *opening,
        {**acts, "tool_calls": [call]},
        {"role": "tool", "content": "a.py", "tool_call_ids": ["c1"], "agent": "main"},
        {**acts, "tool_calls": [{**call, "id": "c2"}]},
    ]
    model = {"agent": {"model": {"name": "gpt-4o"}}}

    (recording,), _ = read_value(tmp_path, {"history": with_calls, "replay_config": model})
    assert recording.messages[-1] == {"role": "tool", "content": "a.py", "tool_call_id": "c1"}
    assert (recording.observations, recording.model) == (None, "gpt-4o")
    assert not validate(recording.messages, format="openai")

    by_text = [*opening, acts, {"role": "user", "content": "a.py"}]
    (recording,), _ = read_value(tmp_path, {"history": by_text})
    assert recording.observations == "user"
    assert recording.messages[2] == {"role": "assistant", "content": "ls"}

    recordings, tally = read_value(tmp_path, {"history": opening})
    assert not recordings
    assert tally.examples[0].problem == "holds no action of an agent"


def test_of_several_agents_those_that_run_things_are_observed(tmp_path: Path) -> None:
    led = [
        {"role": "human", "content": "Find a class."},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Search."},
        {"role": "WebSurfer", "content": "A page."},
    ]
    (recording,), _ = read_value(tmp_path, {"question": "q", "history": led})
    assert [m["role"] for m in recording.messages] == ["user", "assistant", "user"]
    assert recording.messages[2]["name"] == "WebSurfer"

    group = [
        {"role": "assistant", "name": "Excel_Expert", "content": "The task."},
        {"role": "assistant", "name": "Data_Expert", "content": "run()"},
        {"role": "user", "name": "Computer_terminal", "content": "8"},
    ]
    (recording,), _ = read_value(tmp_path, {"question": "q", "history": group})
    assert [m["role"] for m in recording.messages] == ["user", "assistant", "user"]


EXPECTED = {
    "tau-bench": (200, 88),
    "agentrx": (100, 1),
    "swe-agent": (22, 0),
    "intercode": (200 + 93 + 1_034, 0),
    "knowagent": (1_238, 0),
    "adapt": (128, 106),
    "whowhen": (184, 0),
    "trail": (259, 0),
}
"""Recordings and bad records. What is bad: tau-bench's examples shown as text, AgentRx's file of
labels, ADaPT's 6 games without a trace and 100 shopping tours without observations."""


@pytest.mark.parametrize("folder", sorted(EXPECTED))
def test_the_recorded_data_is_read_whole_and_legal(folder: str) -> None:
    path = DATA / folder
    if not path.is_dir():
        pytest.skip(f"there is no {folder} in the data folder; set AGORA_DATA to where it lies")
    tally = Tally()

    recordings = list(read_logs([path], tally))

    assert (tally.recordings, tally.bad) == EXPECTED[folder]
    assert len({recording.id for recording in recordings}) == len(recordings)
    broken = Counter(
        rule.code
        for recording in recordings
        for rule in validate(recording.messages, format=recording.format, tools=recording.tools)
    )
    assert not broken


def test_every_trace_gives_the_calls_of_its_agent() -> None:
    if not (DATA / "trail").is_dir():
        pytest.skip("there is no trail in the data folder; set AGORA_DATA to where it lies")
    recordings = list(read_logs([DATA / "trail"], Tally()))

    assert len({recording.task for recording in recordings}) == 60
    assert sum(len(recording.calls) for recording in recordings) == 313
    assert all(recording.usage and recording.at_seconds for recording in recordings)
