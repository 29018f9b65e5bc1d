import json
from dataclasses import replace
from pathlib import Path

import pytest

from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora_lab.labels import (
    Label,
    LabelsError,
    Writer,
    beside,
    data_hash,
    read_labels,
    read_trajectories,
)

TRAJECTORY = Trajectory(
    task="find it",
    preamble="find it",
    preamble_tokens=2,
    steps=(
        Step(
            number=1, action="look {}", observation="key 7", tokens=3, calls=(Call("look", "{}"),)
        ),
        Step(
            number=2,
            action="go",
            observation="",
            tokens=1,
            thought="so",
            removable=False,
            action_tokens=1,
        ),
    ),
    utterances=(Utterance(after=1, text="and?", tokens=1, by_user=True),),
)


def make_label(data: str, candidate: int = 1) -> Label:
    return Label(
        trajectory="a",
        data=data,
        source="here",
        task="0",
        anchor=4,
        candidate=candidate,
        label=1.0,
        kind="hindsight",
    )


def test_labels_and_trajectories_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    data = data_hash(TRAJECTORY)
    labels = [make_label(data, 1), make_label(data, 2)]
    with Writer(path) as writer:
        assert writer.add(TRAJECTORY, labels) == 2
        assert writer.add(TRAJECTORY, labels) == 0
        assert writer.add(TRAJECTORY, []) == 0

    assert read_labels(path) == labels
    assert list(read_trajectories(path)) == [(data, TRAJECTORY)]


def test_a_trajectory_that_comes_again_brings_the_pairs_that_are_new(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    data = data_hash(TRAJECTORY)
    first, second, third = (make_label(data, candidate) for candidate in (1, 2, 3))
    other = replace(second, kind="likelihood", label=0.5)
    with Writer(path) as writer:
        assert writer.add(TRAJECTORY, [first, second]) == 2
        assert writer.add(TRAJECTORY, [replace(second, label=0.0), third, other]) == 2

    assert read_labels(path) == [first, second, third, other]
    assert list(read_trajectories(path)) == [(data, TRAJECTORY)]


def test_the_hash_of_a_trajectory_changes_with_what_it_says() -> None:
    other = Trajectory(task="x", preamble="find it", preamble_tokens=2, steps=TRAJECTORY.steps)

    assert data_hash(TRAJECTORY) == data_hash(TRAJECTORY)
    assert data_hash(TRAJECTORY) != data_hash(other)


def test_a_file_that_holds_no_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    path.write_text("no")
    with pytest.raises(LabelsError, match="Parquet"):
        read_labels(path)
    with Writer(path):
        pass
    with pytest.raises(LabelsError, match="columns"):
        read_labels(beside(path))


def make_log(path: Path, tasks: int) -> Path:
    """Write trajectories in which the first observation is needed at the end, or is not."""
    episodes = []
    for task in range(tasks):
        messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
        names = [f"K{task}{n}X" for n in range(6)]
        for n, name in enumerate([*names, names[0]]):
            arguments = json.dumps({"of": name if n == 6 else "all"})
            function = {"name": "look", "arguments": arguments}
            call = {"id": f"c{n}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            text = f"it is {name} " + "filler " * (40 if n == 0 else 1)
            messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
        episodes.append({"task_id": task, "traj": messages})
    path.write_text(json.dumps(episodes))
    return path


def test_logs_become_labels(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from agora_lab.cli.label import label

    log = make_log(tmp_path / "log.json", 60)
    out = tmp_path / "labels.parquet"

    said = CliRunner().invoke(label, ["hindsight", str(log), "--out", str(out)])
    assert said.exit_code == 0, said.output
    assert "60 of them needed" in said.output

    _, trajectory = next(iter(read_trajectories(out)))
    assert len(trajectory.steps) == 7


def test_logs_without_a_past_say_so(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from agora_lab.cli.label import label

    log = tmp_path / "log.json"
    log.write_text(json.dumps([{"task_id": 1, "traj": [{"role": "user", "content": "go"}]}]))

    said = CliRunner().invoke(label, ["hindsight", str(log), "--out", str(tmp_path / "x.parquet")])

    assert said.exit_code == 1
    assert "nothing to label" in said.output
