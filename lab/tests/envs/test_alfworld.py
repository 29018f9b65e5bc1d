import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("alfworld", reason="ALFWorld's games need the package alfworld")
pytest.importorskip("textworld", reason="ALFWorld's games need the package textworld")

from hypothesis import given
from hypothesis import strategies as st

from agora_lab.envs import alfworld_games as games
from agora_lab.envs import world
from agora_lab.envs.alfworld import NOTHING, AlfWorld, canonical, extract, splits
from agora_lab.envs.base import Outcome, Start
from agora_lab.envs.data import DataError

BOWL = "valid_train/look_at_obj_in_light-Bowl-None-DeskLamp-304/trial_T20190907_232227_752681"
PLAN = ("go to desk 1", "take bowl 1 from desk 1", "go to shelf 1", "use desklamp 1")


@pytest.fixture(scope="module")
def environment() -> Iterator[AlfWorld]:
    try:
        made = AlfWorld()
    except DataError as error:
        pytest.skip(str(error))
    yield made
    made.close()


def play(environment: AlfWorld, actions: tuple[str, ...]) -> tuple[Start, list[Outcome]]:
    return environment.reset(BOWL), [environment.step(action) for action in actions]


def test_a_game_is_won_by_doing_what_its_task_says(environment: AlfWorld) -> None:
    start, outcomes = play(environment, PLAN)

    assert start.task == "Your task is to: look at bowl under the desklamp."
    assert start.observation.startswith("You are in the middle of a room.")
    assert [outcome.reward for outcome in outcomes] == [0, 0, 0, 1]
    assert [outcome.terminated for outcome in outcomes] == [False, False, False, True]
    assert all(outcome.valid for outcome in outcomes)
    assert outcomes[2].observation.startswith("On the shelf 1, you see")


def test_an_action_outside_the_grammar_is_not_valid_and_changes_nothing(
    environment: AlfWorld,
) -> None:
    environment.reset(BOWL)
    for action in ("", "fly to desk 1", "Go to desk 1", "go to desk", "go to desk 99"):
        outcome = environment.step(action)
        assert (outcome.valid, outcome.observation) == (False, NOTHING)


def test_the_same_actions_bring_the_same_texts_whatever_was_played_before(
    environment: AlfWorld,
) -> None:
    first = play(environment, PLAN)
    environment.reset(splits()["train"][5])
    environment.step("look")

    assert play(environment, PLAN) == first
    assert play(environment, PLAN[:2])[1] == first[1][:2]


def test_a_game_that_is_not_there_is_an_error_that_names_it(environment: AlfWorld) -> None:
    for task in ("valid_train/no-such-game", "../../etc", "/etc"):
        with pytest.raises(DataError, match=r"is not a game in the archive"):
            environment.reset(task)


def test_the_splits_are_the_official_ones_and_share_no_trial() -> None:
    found = splits()

    assert {split: len(tasks) for split, tasks in found.items()} == {
        "train": 200,
        "validation": 140,
        "test": 134,
    }
    trials = [task.rpartition("/")[2] for tasks in found.values() for task in tasks]
    assert len(trials) == len(set(trials))
    folders = {"train": "valid_train", "validation": "valid_seen", "test": "valid_unseen"}
    for split, tasks in found.items():
        assert all(task.startswith(f"{folders[split]}/") for task in tasks)


def test_examples_come_from_train_and_are_actions_of_the_grammar() -> None:
    examples = world("alfworld").examples
    actions = [line[2:] for line in examples.splitlines() if line.startswith("> ")]

    assert len(actions) > 5
    assert all(extract(action) == action for action in actions)


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("go to desk 1", "go to desk 1"),
        ("Thought: perhaps there.\nAction: Go to desk 1.", "go to desk 1"),
        ("> `take mug 2 from desk 1`", "take mug 2 from desk 1"),
        ("I will look around\nput mug 2 in/on coffeemachine 1", "put mug 2 in/on coffeemachine 1"),
        ("open the door", "open the door"),
        ("", ""),
        ("\n \n", ""),
    ],
)
def test_the_action_is_found_in_an_answer(answer: str, action: str) -> None:
    assert extract(answer) == action


@given(st.text())
def test_extracting_twice_is_extracting_once_and_gives_one_line(text: str) -> None:
    action = extract(text)

    assert extract(action) == action
    assert canonical(action) == action
    assert len(action.splitlines()) <= 1


def pack(archive: Path, *names: str) -> None:
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:xz") as packed:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 2
            packed.addfile(member, io.BytesIO(b"{}"))


def test_two_processes_that_unpack_at_once_get_one_whole_folder(tmp_path: Path) -> None:
    names = [f"json_2.1.1/valid_seen/kind-{n}/trial/game.tw-pddl" for n in range(50)]
    pack(tmp_path / "data" / games.ARCHIVE, *names)
    program = "from agora_lab.envs import alfworld_games as g; print(g.games_folder())"
    told = {
        **os.environ,
        "AGORA_CACHE": str(tmp_path / "cache"),
        "AGORA_DATA": str(tmp_path / "data"),
    }

    both = [
        subprocess.Popen([sys.executable, "-c", program], env=told, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    folders = {one.communicate(timeout=120)[0].decode().strip() for one in both}

    assert [one.returncode for one in both] == [0, 0]
    assert len(folders) == 1
    assert len(list(Path(folders.pop()).glob("*/*/*/game.tw-pddl"))) == 50
    assert len(list((tmp_path / "cache" / "alfworld").iterdir())) == 1


@pytest.mark.parametrize("name", ["../outside/game.tw-pddl", "json_2.1.1/../../x/game.tw-pddl"])
def test_an_archive_that_writes_outside_its_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pack(tmp_path / "data" / games.ARCHIVE, "json_2.1.1/a/b/c/game.tw-pddl", name)
    monkeypatch.setenv("AGORA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGORA_CACHE", str(tmp_path / "cache"))

    with pytest.raises(DataError, match="unsafe member"):
        games.games_folder()
    assert list((tmp_path / "cache" / "alfworld").iterdir()) == []


def test_without_the_archive_the_error_says_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGORA_DATA", str(tmp_path))

    with pytest.raises(DataError, match="alfworld"):
        games.games_folder()
