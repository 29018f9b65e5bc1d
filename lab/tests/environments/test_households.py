"""Several goals in one house: the goals from made-up facts, the rest in the real games."""

import json
import random
from collections.abc import Iterator
from functools import cache

import pytest

pytest.importorskip("textworld", reason="ALFWorld is in the extra `environments`")
pytest.importorskip("alfworld", reason="ALFWorld is in the extra `environments`")

from agora_lab.backbones.base import prompt_text
from agora_lab.backbones.readers import reader
from agora_lab.backbones.readers.households import DONE, GIVEN_UP, READER
from agora_lab.environments.alfworld_games import ARCHIVE, ORIGIN
from agora_lab.environments.data import DataError, data_file
from agora_lab.environments.households import WORLD, Goal, Households, drawn
from agora_lab.episodes.episode import Cell, Episode
from agora_lab.evaluation.episode_player import Player
from agora_lab.labelling.needs import floor_text, goals_of, stands_in
from agora_lab.methods import method

FACTS = frozenset(
    {
        ("objecttype", "mug 1", "mugtype"),
        ("objecttype", "mug 2", "mugtype"),
        ("objecttype", "plunger 1", "plungertype"),
        ("receptacletype", "desk 1", "desktype"),
        ("receptacletype", "shelf 1", "shelftype"),
        ("receptacletype", "microwave 1", "microwavetype"),
        ("pickupable", "mug 1"),
        ("pickupable", "mug 2"),
        ("pickupable", "plunger 1"),
        ("heatable", "mug 1"),
        ("heatable", "mug 2"),
        ("inreceptacle", "mug 1", "desk 1"),
        ("inreceptacle", "mug 2", "desk 1"),
        ("cancontain", "desktype", "mugtype"),
        ("cancontain", "shelftype", "mugtype"),
        ("cancontain", "microwavetype", "mugtype"),
        ("cancontain", "shelftype", "plungertype"),
    }
)
STEPS = 60


def test_a_goal_can_be_reached_and_is_not_at_the_beginning() -> None:
    for seed in range(30):
        goals = drawn(FACTS, random.Random(seed))

        assert goals == drawn(FACTS, random.Random(seed))
        assert {goal.thing for goal in goals} == {"mug"}
        assert not any(goal.reached(FACTS) for goal in goals)
        assert {goal.treatment for goal in goals} <= {"", "hot"}
        assert ("mug", "desk", "") not in [(g.thing, g.place, g.treatment) for g in goals]


def test_a_goal_is_reached_by_one_thing_that_is_there_as_it_should_be() -> None:
    hot = Goal("mug", "shelf", "hot")
    there = FACTS | {("inreceptacle", "mug 2", "shelf 1")}

    assert Goal("mug", "shelf").reached(there)
    assert not hot.reached(there | {("ishot", "mug 1")})
    assert hot.reached(there | {("ishot", "mug 2")})


@pytest.fixture
def house() -> Iterator[Households]:
    try:
        data_file(ARCHIVE, origin=ORIGIN)
    except DataError as error:
        pytest.skip(str(error))
    made = Households()
    yield made
    made.close()


@cache
def task() -> str:
    return next(one for one in WORLD.splits()["validation"] if "428" in one)


def play(house: Households) -> Episode:
    player = Player(
        cell=Cell(environment="households", backbone="reader", method="none"),
        world=WORLD,
        environment=house,
        backbone=reader("households"),
        method=method("none"),
        most_steps=STEPS,
    )
    return player.play(task())[0]


def test_goals_are_reached_one_after_the_other(house: Households) -> None:
    episode = play(house)

    said = [move for move in episode.moves if not move.called]
    assert [move.answer for move in said] == [DONE] * len(said)
    assert len(said) > 5
    # Each was reached when it was said, and some perhaps by the way.
    assert episode.reward >= len(said) / len(house.goals)
    assert episode.moves[-1].tokens_whole > 1_500
    for move in said:
        assert move.observation.startswith("Your task is to: put a")

    house.reset(task())
    calls = list(goals_of(episode, house))

    old = [one for one in calls if one.old]
    assert 0 < len(old) < len(calls)
    for one in old:
        messages = episode.conversation(one.step - 1)
        whole, floor = prompt_text(messages), floor_text(messages)
        assert any(stands_in(value, whole) for value in one.old)
        assert not any(stands_in(value, floor) for value in one.needed)


def test_saying_that_it_is_done_does_not_make_it_so(house: Households) -> None:
    house.reset(task())

    outcome = house.step("Done.")

    assert outcome.reward == 0.0
    assert outcome.observation == house.goals[1].text
    assert not house.step('act {"action": "look"}').valid
    assert not house.step('act {"command": "go to mars 1"}').valid
    assert house.step('act {"command": "look"}').valid


def told(*blocks: tuple[str, str]) -> str:
    return prompt_text([{"role": role, "content": text} for role, text in blocks])


def test_the_reader_goes_to_where_a_line_says_that_the_thing_is() -> None:
    room = "You are in the middle of a room. You see a desk 1, a drawer 1, a shelf 1, a shelf 2."
    said = f"{room}\n\nYour task is to: put a mug in desk."
    line = "7 act go to shelf 2 -> ok mug 1"
    marked = f"{said}\n\n[step 7 elided by the context compressor, not the user]\n{line}"

    # There it is already, as far as the line tells.
    assert json.loads(READER.act(told(("user", marked))).partition(" ")[2]) == {
        "command": "take mug 1 from shelf 2"
    }
    assert READER.act(told(("user", "hello"))) == GIVEN_UP


def test_the_reader_says_when_a_goal_is_done() -> None:
    done = told(
        ("user", "Your task is to: put a mug in desk."),
        ("assistant", 'act {"command": "put mug 1 in/on desk 1"}'),
        ("tool", "You put the mug 1 in/on the desk 1."),
    )

    assert READER.act(done) == DONE
    assert READER.act(done.replace("the desk 1", "the shelf 1")) != DONE
