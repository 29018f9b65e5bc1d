"""The ScienceWorld reader: it acts on what the prompt says, and on nothing else."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_lab.agents.base import prompt_text
from agora_lab.agents.scripted.scienceworld import CLAIMED, READER
from agora_lab.agents.scripted.scienceworld.scene import LOOK, Thing, things

Message = dict[str, Any]

HALLWAY = """\
This room is called the hallway. In it, you see:
\tthe agent
\ta picture
You also see:
\tA door to the greenhouse (that is open)
\tA door to the kitchen (that is open)"""
KITCHEN = """\
This room is called the kitchen. In it, you see:
\tthe agent
\ta counter. On the counter is: a bowl (containing a red apple, an orange), a drawer.
\ta fridge. The fridge door is closed.
\ta orange box (containing nothing)
\ta thermometer, currently reading a temperature of 10 degrees celsius
You also see:
\tA door to the bathroom (that is open)
\tA door to the hallway (that is open)
\tA door to the outside (that is open)"""
OUTSIDE = """\
This outside location is called the outside. Here you see:
\tthe agent
\ta crocodile egg
\ta baby mouse
\tthe ground
You also see:
\tA door to the greenhouse (that is open)
\tA door to the kitchen (that is open)"""
FIND = (
    "Your task is to find a(n) animal. First, focus on the thing. "
    "Then, move it to the orange box in the kitchen."
)
EPISODE = (
    (FIND, HALLWAY),
    ("go to kitchen", "You move to the kitchen."),
    ("look around", KITCHEN),
    ("go to outside", "You move to the outside."),
    ("look around", OUTSIDE),
    ("pick up crocodile egg", "You move the crocodile to the inventory."),
    ("focus on crocodile egg", "You focus on the crocodile egg."),
    ("go to kitchen", "You move to the kitchen."),
    ("move crocodile egg to orange box", "You move the crocodile to the orange box."),
)


def chat(*steps: tuple[str, str]) -> list[Message]:
    (task, observation), *rest = steps
    messages = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": f"{task}\n\n{observation}"},
    ]
    for action, answer in rest:
        messages.append({"role": "assistant", "content": action})
        messages.append({"role": "user", "content": answer})
    return messages


def act(*steps: tuple[str, str]) -> str:
    return READER.act(prompt_text(chat(*steps)))


@pytest.mark.parametrize("done", range(1, len(EPISODE)))
def test_it_does_the_first_thing_of_its_plan_that_is_not_done(done: int) -> None:
    assert act(*EPISODE[:done]) == EPISODE[done][0]


@pytest.mark.parametrize(
    ("left_out", "action"),
    [
        (2, "move crocodile egg to orange box"),  # The box is where the task says it is.
        (6, "focus on crocodile egg"),
        (7, "go to kitchen"),
    ],
)
def test_a_step_that_is_left_out_is_only_done_again_when_it_was_needed(
    left_out: int, action: str
) -> None:
    steps = [step for at, step in enumerate(EPISODE[:8]) if at != left_out]

    assert act(*steps) == action


def test_without_the_doors_it_has_to_look_again() -> None:
    carried = ("inventory", "In your inventory, you see:\n\tnothing")

    assert act(*EPISODE[:3], carried) == "go to outside"
    assert act(*EPISODE[:2], carried) == LOOK


def test_after_a_gap_it_looks_where_it_is() -> None:
    task, observation = EPISODE[0]

    assert act((task, f"{observation}\n\n[steps 1-4 elided]")) == LOOK


DONE = ("1 go to kitchen", "2 look around", "3 go to outside", "4 look around -> egg")


@pytest.mark.parametrize("mask", ["[old observation left out]", "[step 5 elided] key 7"])
def test_an_action_whose_answer_was_masked_is_taken_to_have_worked(mask: str) -> None:
    steps = [*EPISODE[:5], (EPISODE[5][0], mask), *EPISODE[6:8]]

    assert act(*steps[:6], ("look around", OUTSIDE)) == "focus on crocodile egg"


def test_what_visibly_led_to_nothing_is_not_done_again() -> None:
    refused = ("pick up crocodile egg", "No known action matches that input.")

    assert act(*EPISODE[:5], refused) != refused[0]
    assert act(*EPISODE[:5], refused, ("look around", OUTSIDE)) != refused[0]


def test_a_question_is_answered_with_the_number_of_what_is_held() -> None:
    question = (
        "Ambiguous request: Please enter the number for the action you intended\n"
        "0:\tmove egg (in kitchen) to box\n1:\tmove egg (in inventory, in agent) to box"
    )

    assert act(*EPISODE[:8], ("move egg to box", question)) == "1"


@given(st.text())
def test_any_text_gets_an_answer(prompt: str) -> None:
    assert READER.act(prompt)


@given(seed=st.integers(0, 10_000), share=st.floats(0, 0.9))
def test_a_prompt_with_holes_in_it_gets_the_same_answer_each_time(seed: int, share: float) -> None:
    chance = random.Random(seed)
    whole = prompt_text(chat(*EPISODE[:8]))
    holes = "".join(letter for letter in whole if chance.random() > share)

    assert READER.act(holes) == READER.act(holes) != ""


def test_things_are_read_with_what_they_are_in() -> None:
    line = (
        "a shelf (containing A book (Beowulf) titled Beowulf by a poet, "
        "a pot 2 (containing a pea plant in the adult stage, soil), a lamp, which is off)"
    )

    assert things(line) == [
        Thing("shelf"),
        Thing("book (Beowulf)", ("shelf",)),
        Thing("pot 2", ("shelf",)),
        Thing("pea plant", ("shelf", "pot 2")),
        Thing("soil", ("shelf", "pot 2")),
        Thing("lamp", ("shelf",), "off"),
    ]


@pytest.fixture(scope="module")
def play() -> Iterator[Callable[[str], float]]:
    pytest.importorskip("scienceworld", reason="the simulator is in the extra `environments`")
    from agora_lab.envs.scienceworld import WORLD

    try:
        environment = WORLD.make()
    except OSError as error:
        pytest.skip(f"there is no Java to start the simulator with: {error}")

    def played(task: str) -> float:
        start = environment.reset(task)
        steps = [(start.task, start.observation)]
        for _ in range(WORLD.most_steps):
            action = act(*steps)
            outcome = environment.step(action)
            steps.append((action, outcome.observation))
            if outcome.terminated:
                break
        return outcome.reward

    yield played
    environment.close()


@pytest.mark.parametrize(
    "task",
    [
        "find-plant/0",
        "lifespan-longest-lived-then-shortest-lived/0",
        "use-thermometer/0",
        "test-conductivity/0",
        "measure-melting-point-known-substance/0",
        "chemistry-mix-paint-tertiary-color/0",
    ],
)
def test_it_solves_tasks_that_it_claims(play: Callable[[str], float], task: str) -> None:
    assert task.rpartition("/")[0] in CLAIMED
    assert play(task) == 1.0


def test_a_task_that_it_has_no_plan_for_is_played_to_the_end(play: Callable[[str], float]) -> None:
    assert 0.0 <= play("grow-fruit/0") < 1.0
