"""An experiment with an environment and an agent from outside, played as Ray tasks."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from lab.tests.evaluate.remembering import TASKS

from agora_lab.episodes import (
    Episode,
    RunError,
    RunWriter,
    read_episodes,
    read_settings,
)
from agora_lab.evaluate.audit import TrainedOnError
from agora_lab.evaluate.experiment import Experiment, Run
from agora_lab.evaluate.method_choice import ExperimentError
from agora_lab.evaluate.play import as_references
from agora_lab.jsonl import BusyError, read_lines

HERE = "lab.tests.evaluate.remembering"
EXPERIMENT = Experiment(
    environments=(f"{HERE}:WORLD",),
    backbones=(f"{HERE}:rememberer",),
    methods=("none", "floor", "random_step,keep_ratio=.5", "agora_paper,scorer=bm25"),
    tasks=12,
)


def play(experiment: Experiment, folder: Path) -> Run:
    run = Run(experiment, folder)
    list(run.play())
    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    play(EXPERIMENT, folder)
    return folder


def records(folder: Path) -> dict[str, Episode]:
    return {episode.key: episode for episode in read_episodes(folder)}


def test_every_arm_plays_the_same_tasks_from_the_same_state(folder: Path) -> None:
    episodes = list(read_episodes(folder))

    for method in EXPERIMENT.methods:
        mine = [one for one in episodes if one.cell.method == method]
        assert {one.task for one in mine} == set(TASKS[:12])
    openings = {(one.task, one.opening) for one in episodes}
    assert len(openings) == 12
    assert {one.cell.seed for one in episodes} == {47}


def test_a_run_that_was_stopped_goes_on_and_comes_out_the_same(
    folder: Path, tmp_path: Path
) -> None:
    first = Run(EXPERIMENT, tmp_path)
    steps = first.play()
    for _ in range(7):
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    with (tmp_path / "episodes.jsonl").open("ab") as file:
        file.write(b'{"half a line')

    rest = Run(EXPERIMENT, tmp_path)
    assert rest.done == 7
    last = list(rest.play())[-1]

    assert last.done == last.total == 4 * 12 + 3 * 12
    assert records(tmp_path) == records(folder)
    assert not list(Run(EXPERIMENT, tmp_path).play())


def test_a_run_may_grow_and_plays_only_what_is_new(tmp_path: Path) -> None:
    small = replace(EXPERIMENT, methods=("none",), tasks=2)
    play(small, tmp_path)

    grown = play(replace(small, methods=("none", "floor"), tasks=3), tmp_path)

    assert grown.total == 2 * 3 + 3
    assert len(list(read_episodes(tmp_path))) == 6


def test_a_run_is_not_resumed_with_other_settings_nor_written_twice_at_once(folder: Path) -> None:
    for other in ({"seed": 1}, {"steps": 3}, {"tasks": 11}, {"methods": ("none",)}):
        with pytest.raises(RunError, match="other settings"):
            play(replace(EXPERIMENT, **other), folder)

    with (
        RunWriter(folder, read_settings(folder)),
        pytest.raises(BusyError, match="another process"),
    ):
        RunWriter(folder, read_settings(folder))


def test_a_failed_episode_is_reported_and_the_others_are_played(tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, methods=("none",), tasks=16)

    failed = [step.error for step in Run(experiment, tmp_path).play() if step.error]

    assert failed == ["OSError: the door is stuck"]
    assert len(list(read_episodes(tmp_path))) == 15
    assert [line["error"] for line in read_lines(tmp_path / "failures.jsonl")] == failed
    assert Run(experiment, tmp_path).done == 15


def test_a_method_that_cannot_run_here_is_skipped_with_its_reason(tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, methods=("none", "agora,scorer=no/such/bundle"), tasks=3)

    skipped = {step.skipped for step in Run(experiment, tmp_path).play() if step.skipped}

    assert len(skipped) == 1
    assert "no/such/bundle" in skipped.pop()
    assert {one.cell.method for one in read_episodes(tmp_path)} == {"none"}


def test_tasks_that_were_trained_on_are_not_evaluated_but_may_be_played(tmp_path: Path) -> None:
    experiment = replace(EXPERIMENT, split="train", methods=("none",))

    with pytest.raises(TrainedOnError, match="were used for training"):
        Run(experiment, tmp_path)
    assert Run(experiment, tmp_path, evaluates=False).total == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"methods": ("magic",)}, "unknown method 'magic'"),
        ({"methods": ("floor,k_recent",)}, "has no value"),
        ({"environments": ("mars",)}, "unknown environment 'mars'"),
        ({"split": "dev"}, "has no split 'dev', only train, test"),
    ],
)
def test_what_cannot_be_played_says_why(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    with pytest.raises(ExperimentError, match=reason):
        Run(replace(EXPERIMENT, **change), tmp_path)  # type: ignore[arg-type]


def test_a_record_shows_what_the_agent_saw_and_comes_back_as_it_was(folder: Path) -> None:
    episode = next(one for one in read_episodes(folder) if one.cell.method == "floor")

    shown = episode.shown(len(episode.moves) - 1)

    assert shown[0]["content"] == "You may: open box, wait, say CODE."
    assert len(shown) < len(episode.conversation(len(episode.moves) - 1))
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
    with pytest.raises(ValueError, match="schema"):
        Episode.from_dict({})


def test_a_method_from_outside_is_named_by_its_module_and_takes_options(tmp_path: Path) -> None:
    method = f"{HERE}:KeepNewest,messages=4"

    play(replace(EXPERIMENT, methods=("none", method), tasks=2), tmp_path)

    moves = [m for e in read_episodes(tmp_path) if e.cell.method == method for m in e.moves]
    assert max(len(move.sent) for move in moves) == 6


def test_a_run_records_its_tasks_splits_seed_and_code(folder: Path) -> None:
    settings = read_settings(folder)

    assert settings["experiment"]["seed"] == 47
    assert settings["tasks"][f"{HERE}:WORLD"][f"{HERE}:rememberer"] == list(TASKS[:12])
    assert settings["training"][f"{HERE}:WORLD"] == ["1", "2"]
    [origin] = read_lines(folder / "origins.jsonl")
    assert {"agora", "code", "packages", "python"} <= origin.keys()
    assert json.dumps(settings)


def test_of_two_messages_that_say_the_same_the_later_is_meant() -> None:
    whole = [{"content": text} for text in ("system", "task", "look", "dust", "look", "dust")]

    assert as_references([whole[0], whole[1], whole[4], whole[5]], whole) == [0, 1, 4, 5]
