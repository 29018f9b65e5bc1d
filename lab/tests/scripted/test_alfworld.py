import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_lab.agents.base import prompt_text
from agora_lab.agents.scripted.alfworld import READER

ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, "
    "a cabinet 1, a countertop 1, a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1."
)
TASK = "Your task is to: put a clean mug in shelf."
EPISODE = (
    ("go to countertop 1", "On the countertop 1, you see a apple 1, and a knife 1."),
    ("go to cabinet 1", "The cabinet 1 is closed."),
    ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see a mug 2."),
    ("take mug 2 from cabinet 1", "You pick up the mug 2 from the cabinet 1."),
    ("go to sinkbasin 1", "On the sinkbasin 1, you see nothing."),
    ("clean mug 2 with sinkbasin 1", "You clean the mug 2 using the sinkbasin 1."),
    ("go to shelf 1", "On the shelf 1, you see a bowl 1."),
)
Steps = tuple[tuple[str, str], ...]


def messages(steps: Steps, task: str = TASK) -> list[dict[str, str]]:
    built = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": f"{task}\n\n{ROOM}"},
    ]
    for action, observation in steps:
        built.append({"role": "assistant", "content": action})
        built.append({"role": "user", "content": observation})
    return built


def act(steps: Steps, task: str = TASK) -> str:
    return READER.act(prompt_text(messages(steps, task)))


def without(*left_out: int) -> Steps:
    return tuple(step for n, step in enumerate(EPISODE) if n not in left_out)


def test_it_follows_a_task_to_its_end() -> None:
    assert act(EPISODE[:2]) == "open cabinet 1"
    assert act(EPISODE[:3]) == "take mug 2 from cabinet 1"
    assert act(EPISODE[:4]) == "go to sinkbasin 1"
    assert act(EPISODE[:5]) == "clean mug 2 with sinkbasin 1"
    assert act(EPISODE[:6]) == "go to shelf 1"
    assert act(EPISODE) == "put mug 2 in/on shelf 1"


def test_it_cleans_again_when_the_prompt_no_longer_says_that_it_did() -> None:
    assert act(without(5)) == "go to sinkbasin 1"


def test_a_step_that_brought_nothing_of_use_is_not_missed() -> None:
    assert act(without(0)) == act(EPISODE)


@pytest.mark.parametrize(
    ("task", "action"),
    [
        ("Your task is to: put a hot mug in shelf.", "go to microwave 1"),
        ("Your task is to: cool some mug and put it in shelf.", "go to fridge 1"),
        ("Your task is to: clean some mug and put it in shelf.", "go to sinkbasin 1"),
        ("Your task is to: put two mug in shelf.", "go to shelf 1"),
        ("Your task is to: put some mug on shelf.", "go to shelf 1"),
    ],
)
def test_what_it_does_with_a_thing_is_what_the_task_asks(task: str, action: str) -> None:
    assert act(EPISODE[:4], task) == action


def test_a_thing_is_looked_at_where_a_lamp_was_seen() -> None:
    steps = (("go to shelf 1", "On the shelf 1, you see a desklamp 1."), *EPISODE[1:4])
    task = "Your task is to: examine the mug with the desklamp."

    assert act(steps, task) == "go to shelf 1"
    assert act((*steps, ("go to shelf 1", steps[0][1])), task) == "use desklamp 1"


def test_an_action_that_led_to_nothing_is_not_repeated() -> None:
    steps: Steps = ()
    seen = []
    for _ in range(6):
        action = act(steps)
        seen.append(action)
        steps = (*steps, (action, "Nothing happens."))

    assert len(set(seen)) == len(seen)


def test_examples_in_the_instructions_are_not_taken_for_what_happened() -> None:
    chat = messages(EPISODE[:3])
    chat[0]["content"] = "On the shelf 1, you see a mug 9.\n> take mug 9 from shelf 1"

    assert READER.act(prompt_text(chat)) == "take mug 2 from cabinet 1"


@given(st.text())
def test_to_any_text_there_is_an_action(text: str) -> None:
    action = READER.act(text)

    assert action
    assert "\n" not in action


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_to_any_remains_of_a_prompt_there_is_an_action(seed: int, kept: float) -> None:
    chance = random.Random(seed)
    whole = prompt_text(messages(EPISODE))
    words = whole.split(" ")

    assert READER.act("".join(c for c in whole if chance.random() < kept))
    assert READER.act(" ".join(word for word in words if chance.random() < kept))
    assert READER.act(" ".join(chance.sample(words, len(words))))
