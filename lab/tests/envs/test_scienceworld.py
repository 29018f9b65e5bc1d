"""ScienceWorld behind the lab's protocol: the released simulator, made repeatable."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scienceworld", reason="the simulator is in the extra `environments`")

from agora_lab.envs.data import DataError
from agora_lab.envs.scienceworld import (
    WORLD,
    ScienceWorld,
    canonical,
    extract,
)


@pytest.fixture(scope="module")
def environment() -> Iterator[ScienceWorld]:
    try:
        started = ScienceWorld()
    except OSError as error:
        pytest.skip(f"there is no Java to start the simulator with: {error}")
    yield started
    started.close()


def test_the_splits_keep_the_official_ones(environment: ScienceWorld) -> None:
    splits = WORLD.splits()

    assert {task.rpartition("/")[0] for task in splits["train"]} == set(environment._env.task_names)
    for name in ("boil", "use-thermometer", "find-plant"):
        environment.reset(f"{name}/0")
        official = {
            "train": environment._env.get_variations_train(),
            "validation": environment._env.get_variations_dev(),
            "test": environment._env.get_variations_test(),
        }
        for split, variations in official.items():
            ids = {task for task in splits[split] if task.rpartition("/")[0] == name}
            assert ids
            assert ids <= {f"{name}/{number}" for number in variations}


def test_the_same_actions_bring_the_same_observations_whatever_came_before(
    environment: ScienceWorld,
) -> None:
    actions = ("open bee hive", "go to outside", "look around", "wait", "look around")

    def play() -> list[object]:
        return [environment.reset("find-plant/50"), *(environment.step(a) for a in actions)]

    first = play()
    environment.reset("chemistry-mix-paint-tertiary-color/6")
    environment.step("teleport to art studio")

    assert play() == first


@pytest.mark.parametrize("example", range(2))
def test_the_examples_are_what_the_simulator_says(environment: ScienceWorld, example: int) -> None:
    task = ("find-animal/50", "power-component/5")[example]
    told = WORLD.examples.split(f"Example {example + 1}\n")[1].partition("\n\nExample")[0]
    opening, *steps = told.split("\n> ")
    start = environment.reset(task)

    assert opening == f"{start.task}\n\n{start.observation}"
    for step in steps:
        action, _, observation = step.partition("\n")
        outcome = environment.step(action)
        assert (outcome.observation, outcome.valid) == (observation, True)
    assert outcome.terminated
    assert outcome.reward == 1.0
    assert task in WORLD.splits()["train"]


def test_the_wrong_focus_ends_the_episode_without_reward(environment: ScienceWorld) -> None:
    environment.reset("lifespan-longest-lived-then-shortest-lived/20")
    environment.step("teleport to outside")

    outcome = environment.step("focus on baby mouse")

    assert outcome.terminated
    assert outcome.reward == 0.0


@pytest.mark.parametrize(
    ("action", "valid"),
    [("look around", True), ("open door to hallway", True), ("wibble", False), ("", False)],
)
def test_what_the_simulator_cannot_read_is_not_valid(
    environment: ScienceWorld, action: str, valid: bool
) -> None:
    environment.reset("find-animal/5")

    assert environment.step(action).valid is valid


def test_a_question_which_thing_is_meant_is_not_valid_and_its_answer_is(
    environment: ScienceWorld,
) -> None:
    environment.reset("find-animal/5")
    for action in ("teleport to kitchen", "open cupboard"):
        environment.step(action)

    question = environment.step("open drawer")
    answer = environment.step("1")

    assert not question.valid
    assert "Ambiguous request" in question.observation
    assert answer.valid


@pytest.mark.parametrize("task", ["boil", "wibble/1", "boil/999", "boil/x", ""])
def test_a_task_that_is_none_is_named_in_the_error(environment: ScienceWorld, task: str) -> None:
    with pytest.raises(DataError, match=r"is not a ScienceWorld task|does not exist"):
        environment.reset(task)


def test_closing_ends_the_java_machine() -> None:
    started = ScienceWorld("")
    process = started._env._gateway.java_process
    started.close()
    started.close()

    assert process.poll() is not None


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("go to kitchen", "go to kitchen"),
        ("> go to  kitchen", "go to kitchen"),
        ("I should look for it.\n**Action:** `pick up bowl`.", "pick up bowl"),
        ("Look for a cup first.\nAction: open cupboard", "open cupboard"),
        ("0", "0"),
        ("\x1f0.", "0"),
        ("I do not know.", "I do not know."),
        ("", ""),
    ],
)
def test_the_action_is_found_in_an_answer(answer: str, action: str) -> None:
    assert extract(answer) == action


@given(st.text())
def test_an_extracted_action_is_one_line_and_stays_what_it_is(answer: str) -> None:
    action = extract(answer)

    assert "\n" not in action
    assert extract(action) == action


@given(st.text(alphabet="abct ehinopuk", max_size=40))
def test_the_canonical_form_is_its_own(action: str) -> None:
    assert canonical(canonical(action)) == canonical(action)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Take the bowl", "pick up bowl"),
        ("put bowl in red box", "move bowl to red box"),
        ("move drawer in counter to table", "put drawer in counter on table"),
        ("turn on stove", "activate  stove"),
        ("go kitchen", "go to the kitchen"),
        ("look", "look around"),
        ("drop bowl", "put down bowl"),
    ],
)
def test_actions_that_do_the_same_have_one_canonical_form(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)
