"""Requests in a house of ScienceWorld: drawn from made-up things, played in the real simulator."""

import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scienceworld", reason="the simulator is in the extra `environments`")

from agora_lab.agents.base import prompt_text
from agora_lab.agents.scripted import reader
from agora_lab.agents.scripted.chains import DONE, GIVEN_UP, READER
from agora_lab.envs.chains import (
    LEAST_REQUESTS,
    MOST_REQUESTS,
    WORLD,
    Chains,
    Item,
    Place,
    Request,
    drawn,
    is_of,
    items,
    places,
)
from agora_lab.episodes import Cell, Episode
from agora_lab.evaluate.play import Player
from agora_lab.methods import MethodSettings, method

TASK = "validation-000"
THERE = (
    Item("1", "lighter", Place("kitchen")),
    Item("2", "axe", Place("outside")),
    Item("3", "red wire", Place("workshop", "table")),
    Item("4", "black wire", Place("workshop", "table")),
    Item("5", "book (Emma)", Place("bedroom", "book shelf")),
)
FREE = (
    Place("kitchen", "table"),
    Place("workshop", "table"),
    Place("bedroom", "bed"),
    Place("outside", "fire pit"),
)


def carry_out(
    requests: tuple[Request, ...], where: dict[str, Place]
) -> Iterator[tuple[Request, Place, Place]]:
    """Yield each request with the places before and after it, if each is done in turn."""
    chosen: dict[int, str] = {}
    before: dict[int, Place] = {}
    for at, request in enumerate(requests):
        if request.to is not None:
            name = chosen[request.to]
        else:
            name = next(name for name in sorted(where) if is_of(request.thing, name))
        chosen[at], before[at] = name, where[name]
        place = request.place or before[request.to or 0]
        yield request, where[name], place
        where[name] = place


@given(st.integers(0, 10_000))
def test_each_request_can_be_done_after_those_before_it_and_moves_something(seed: int) -> None:
    requests = drawn(THERE, FREE, random.Random(seed))

    assert requests == drawn(THERE, FREE, random.Random(seed))
    assert LEAST_REQUESTS <= len(requests) <= MOST_REQUESTS
    for request, before, after in carry_out(requests, {item.name: item.place for item in THERE}):
        assert before != after
        # What goes back is only said by what was seen, and goes to where no request had put it.
        if request.kind == "back":
            assert after in {item.place for item in THERE}
            assert "before" in request.text
        # Of books there is one only, so that none can be chosen.
        assert request.thing != "book"


def node(name: str, *inside: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": name, "uuid": f"id of {name}", "contents": dict(enumerate(inside))}


def test_things_and_places_are_read_from_the_simulators_tree() -> None:
    table = node("table", node("red wire"), node("bowl", node("lighter")))
    tree = node("universe", node("workshop", table, node("axe")), node("hallway", node("axe")))

    found = items(tree)

    assert {item.name: item.place for item in found.values()} == {
        "red wire": Place("workshop", "table"),
        "lighter": Place("workshop", "bowl"),
    }  # There are two axes, so that a name would not say which.
    assert places(tree) == [Place("workshop", "table")]


@pytest.fixture(scope="module")
def house() -> Iterator[Chains]:
    try:
        made = Chains()
    except OSError as error:
        pytest.skip(f"there is no Java to start the simulator with: {error}")
    yield made
    made.close()


def play(house: Chains, name: str = "none", *, steps: int | None = None) -> Episode:
    options = {} if name == "none" else {"share": 0.25, "edits": "every_call"}
    player = Player(
        cell=Cell(environment="chains", backbone="reader", method=name),
        world=WORLD,
        environment=house,
        backbone=reader("chains"),
        method=method(name, MethodSettings(observations="none", options=options)),
        steps=steps,
    )
    return player.play(TASK)[0]


def test_the_reader_does_everything_when_everything_is_sent(house: Chains) -> None:
    episode = play(house)

    said = [move.answer for move in episode.moves if not move.called]
    assert said == [DONE] * len(house.requests)
    assert all(move.valid for move in episode.moves)
    assert episode.reward == 1.0
    assert episode.moves[-1].tokens_whole > 10_000


def test_a_shortened_conversation_goes_on(house: Chains) -> None:
    episode = play(house, "agora", steps=60)

    assert all(move.valid for move in episode.moves)
    assert episode.moves[-1].tokens_sent < episode.moves[-1].tokens_whole / 2
    assert 0 < episode.reward < 1


def test_saying_that_it_is_done_does_not_make_it_so(house: Chains) -> None:
    house.reset(TASK)

    outcome = house.step("Done.")

    assert outcome.reward == 0.0
    assert outcome.observation == house.requests[1].text
    assert not house.step('act {"action": "look around"}').valid
    assert not house.step('act {"command": "go to mars"}').valid
    assert house.step('act {"command": "look around"}').valid


def test_whoever_arrives_sees_the_room(house: Chains) -> None:
    start = house.reset(TASK).task
    door = start.partition("A door to the ")[2].partition(" (")[0]

    told = house.step(json.dumps({"command": f"go to {door}"}).join(("act ", ""))).observation

    assert told.startswith(f"You move to the {door}.\nThis ")
    assert f"is called the {door}." in told


def test_conversations_are_apart() -> None:
    assert {name: len(tasks) for name, tasks in WORLD.splits().items()} == {
        "train": 60,
        "validation": 60,
        "test": 100,
    }


KITCHEN = (
    "This room is called the kitchen. In it, you see:\n\tthe agent\n"
    "\ta table. On the table is: a lighter.\nYou also see:\n\tA door to the hallway (that is open)"
)
HALLWAY = (
    "This room is called the hallway. In it, you see:\n\tthe agent\n"
    "You also see:\n\tA door to the kitchen (that is open)\n\tA door to the bedroom (that is open)"
)


def told(*blocks: tuple[str, str]) -> str:
    return prompt_text([{"role": role, "content": text} for role, text in blocks])


def called(command: str) -> tuple[str, str]:
    return "assistant", f"act {json.dumps({'command': command})}"


@cache
def carried(way: str = KITCHEN) -> tuple[tuple[str, str], ...]:
    """Return a conversation in which the lighter was carried from the kitchen to the bedroom."""
    return (
        ("user", f"Hello.\n\n{HALLWAY}\n\nRequest 1. Put the lighter on the bed in the bedroom."),
        called("go to kitchen"),
        ("tool", f"You move to the kitchen.\n{way}"),
        called("pick up lighter"),
        ("tool", "You move the lighter to the inventory."),
        called("go to hallway"),
        ("tool", f"You move to the hallway.\n{HALLWAY}"),
        called("go to bedroom"),
        ("tool", "You move to the bedroom."),
        called("move lighter to bed"),
        ("tool", "You move the lighter to the bed."),
    )


BACK = (
    "user",
    "Request 2. Put what you carried for request 1 back to where it was before.",
)
TAKEN = (called("pick up lighter"), ("tool", "You move the lighter to the inventory."))
THERE_AGAIN = (called("go to kitchen"), ("tool", f"You move to the kitchen.\n{KITCHEN}"))


def test_the_reader_takes_a_thing_back_to_where_a_look_had_shown_it() -> None:
    asked = (*carried(), ("assistant", DONE), BACK, *TAKEN, *THERE_AGAIN)

    assert READER.act(told(*carried())) == DONE
    assert "move lighter to table" in READER.act(told(*asked))


EMPTY = "You move to the kitchen.\nThis room is called the kitchen. In it, you see:"


def shortened(line: str, *after: tuple[str, str]) -> str:
    """Return the prompt in which the way into the kitchen is a line."""
    first, _, _, *rest = carried()
    marked = f"{first[1]}\n\n[step 1 elided by the context compressor, not the user]\n{line}"
    return told((first[0], marked), *rest, ("assistant", DONE), *after)


def test_the_reader_guesses_the_floor_where_only_the_room_is_left() -> None:
    there = (BACK, *TAKEN, called("go to kitchen"), ("tool", EMPTY))

    asked = shortened("1 act go to kitchen -> ok", *there)
    assert "put down lighter" in READER.act(asked)


@pytest.mark.parametrize(
    "said",
    [
        '"In the cupboard is"="a lighter"',
        '"On the stove is"="a bowl"; "In the cupboard is"="a lighter","a tin cup"',
    ],
)
def test_the_reader_takes_a_thing_back_to_where_a_line_says_it_was(said: str) -> None:
    there = (BACK, *TAKEN, called("go to kitchen"), ("tool", EMPTY))

    asked = shortened(f"1 act go to kitchen -> {said}", *there)
    assert "move lighter to cupboard" in READER.act(asked)


def test_the_reader_looks_for_a_thing_where_a_line_or_a_note_mentions_it() -> None:
    request = ("user", "Request 2. Put the tin cup on the bed in the bedroom.")
    noted = '[step 1: result elided by the context compressor] "In the cupboard is"="a tin cup"'
    back = (called("go to hallway"), ("tool", f"You move to the hallway.\n{HALLWAY}"))
    first, way, _, *rest = carried()

    by_line = shortened('1 act go to kitchen -> "In the cupboard is"="a tin cup"', request, *back)
    by_note = told(first, way, ("tool", noted), *rest, ("assistant", DONE), request, *back)
    assert "go to kitchen" in READER.act(by_line)
    assert "go to kitchen" in READER.act(by_note)


def test_the_reader_gives_up_what_the_prompt_does_not_say() -> None:
    first, *_ = carried()
    marked = f"{first[1]}\n\n[steps 1-5 elided by the context compressor, not the user]"
    asked = told(
        (first[0], marked), ("assistant", DONE), BACK, called("look around"), ("tool", HALLWAY)
    )

    assert READER.act(asked) == GIVEN_UP
    assert READER.act(told(("user", "hello"))) == GIVEN_UP


@given(st.text(max_size=300))
def test_there_is_an_answer_to_any_text(text: str) -> None:
    assert READER.act(told(("user", f"Request 1. {text}"), ("assistant", text), ("tool", text)))
