import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lab.tests.evaluation.counting import KeepAll, make_player

from agora_lab.episodes.episode import Episode
from agora_lab.episodes.run import Run, RunError, read_episodes, read_keys, read_timings
from agora_lab.evaluate.episode_player import _refer

PROGRAM = Path(__file__).with_name("counting.py")


def test_an_episode_is_played_until_the_environment_says_so() -> None:
    episode, timing = make_player().play("3")

    assert episode.ended == "done"
    assert episode.reward == 1.0
    assert [move.observation for move in episode.moves] == ["1", "2", "3"]
    assert timing.steps == 3


def test_an_episode_that_takes_too_long_is_cut_off() -> None:
    episode, _ = make_player().play("9")

    assert episode.ended == "steps"
    assert len(episode.moves) == 5
    assert episode.reward == 0.0


def test_the_record_tells_what_the_backbone_saw() -> None:
    episode, _ = make_player().play("3")

    assert episode.shown(2) == [
        {"role": "system", "content": "Say: one more"},
        {"role": "user", "content": "2"},
    ]
    assert episode.moves[2].sent == [0, 5]
    assert episode.moves[2].tokens_sent < episode.moves[2].tokens_whole


def test_a_record_comes_back_as_it_was() -> None:
    episode, _ = make_player().play("3")

    again = Episode.from_json(episode.to_json())

    assert again.to_json() == episode.to_json()
    assert again.key == episode.key
    with pytest.raises(ValueError, match="schema"):
        Episode.from_json("{}")


def test_the_same_episode_twice_is_the_same_bytes() -> None:
    assert make_player().play("4")[0].to_json() == make_player().play("4")[0].to_json()


def test_a_run_is_gone_on_with_where_it_stopped(tmp_path: Path) -> None:
    episode, timing = make_player().play("2")
    with Run(tmp_path, {"a": 1}) as run:
        run.add(episode, timing)
        with pytest.raises(RunError, match="already"):
            run.add(episode, timing)
    with (tmp_path / "episodes" / "0.jsonl").open("ab") as file:
        file.write(b'{"half a line')

    with Run(tmp_path, {"a": 1}) as run:
        assert episode.key in run
        assert len(run) == 1
        run.add(*make_player().play("3"))

    assert [one.task for one in read_episodes(tmp_path)] == ["2", "3"]
    assert set(read_timings(tmp_path)) == {one.key for one in read_episodes(tmp_path)}


def test_a_run_with_other_settings_is_refused_and_says_what_changed(tmp_path: Path) -> None:
    Run(tmp_path, {"keep_ratio": 0.25}).close()

    with pytest.raises(RunError, match=r"keep_ratio: 0\.25 then, 0\.5 now"):
        Run(tmp_path, {"keep_ratio": 0.5})


def test_one_file_has_one_writer(tmp_path: Path) -> None:
    with (
        Run(tmp_path, {}, writer="a"),
        Run(tmp_path, {}, writer="b"),
        pytest.raises(RunError, match="another process"),
    ):
        Run(tmp_path, {}, writer="a")


def test_killed_in_the_middle_no_episode_is_lost_and_none_is_there_twice(tmp_path: Path) -> None:
    tasks = 150
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(tasks)]
    file = tmp_path / "episodes" / "0.jsonl"
    for written in (20, 50, 90):
        child = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if file.exists() and file.read_bytes().count(b"\n") >= written:
                break
            time.sleep(0.003)
        assert child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    child = subprocess.Popen(command)
    child.wait(timeout=60)

    assert child.returncode == 0
    keys = [episode.key for episode in read_episodes(tmp_path)]
    assert len(keys) == len(set(keys)) == tasks
    lines = file.read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)


def test_a_method_that_changes_nothing_is_written_as_places_alone() -> None:
    player = make_player()
    episode, _ = type(player)(
        cell=player.cell,
        world=player.world,
        environment=player.environment,
        backbone=player.backbone,
        method=KeepAll(),
    ).play("3")

    assert episode.moves[2].sent == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["newest", "a}b", 'a","task":"b', "ünï|code"])
def test_keys_are_read_without_the_episodes_and_are_theirs(tmp_path: Path, name: str) -> None:
    player = make_player()
    named = replace(player, cell=replace(player.cell, method=name))
    with Run(tmp_path, {}, writer="a") as run, Run(tmp_path, {}, writer="b") as other:
        run.add(*named.play("2"))
        other.add(*named.play("3"))

    assert sorted(read_keys(tmp_path)) == sorted(e.key for e in read_episodes(tmp_path))
    with Run(tmp_path, {}, writer="a", own=True) as run:
        assert len(run) == 1


def test_a_record_from_before_finishes_were_kept_can_be_read() -> None:
    old = json.loads(make_player().play("2")[0].to_json())
    for move in old["moves"]:
        del move["finish"]

    assert Episode.from_json(json.dumps(old)).moves[0].finish == ""


def test_the_time_of_each_call_of_the_method_is_kept(tmp_path: Path) -> None:
    episode, timing = make_player().play("3")
    with Run(tmp_path, {}) as run:
        run.add(episode, timing)

    assert len(timing.method_ms) == 3
    assert read_timings(tmp_path)[episode.key] == timing


def test_of_two_messages_that_say_the_same_the_later_is_meant() -> None:
    whole = [{"content": text} for text in ("system", "task", "look", "dust", "look", "dust")]

    assert _refer([whole[0], whole[1], whole[4], whole[5]], whole) == [0, 1, 4, 5]
