"""Several requests in one house of ScienceWorld in one conversation, by one tool.

House, things and rules are the simulator's; its own task is left out. The agent carries things
about, one request after the other. It mostly saw the place of a thing during an earlier request.
Some requests point back: to the wire that the agent chose, or to the earlier place of a thing,
which nothing in the house shows any more.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import read_splits
from agora_lab.envs.scienceworld import ScienceWorld, canonical
from agora_lab.envs.scienceworld import extract as extract_action
from agora_lab.envs.tool_calls import CallError, OneTool

NAME = "chains"
LEAST_REQUESTS, MOST_REQUESTS = 16, 30
STEPS_A_REQUEST = 40
SIMPLIFICATION = "openDoors,selfWateringFlowerPots,noElectricalAction"
"""ScienceWorld's `easy` without teleporting: the way has to be known."""
_POINTING_BACK = 0.5
_CHOOSING = 0.3
"""How often a request that does not point back leaves the choice to the agent."""
THINGS = frozenset(
    "lighter,thermometer,stopwatch,metal pot,tin cup,ceramic cup,axe,shovel,jug,battery,switch,"
    "picture".split(",")
)
"""Things to carry, if there is one of them: those that do not grow or rot, and have the
simulator as it is shown."""
KINDS = ("wire", "light bulb", "book")
"""Kinds of which the agent may choose one."""
PLACES = frozenset("table,counter,chair,couch,bed,bathtub,sink,fire pit,book shelf".split(","))
"""Where things are put: open, and never moved."""
TOOL = OneTool("act", "command")
GREETING = "Hello, I have some things for you to carry about in this house."
FAREWELL = "Thank you, that is all."

INSTRUCTIONS = f"""\
You are in a house with a hallway, other rooms and an outside. Whoever works there gives you one \
request after the other. You have at most {STEPS_A_REQUEST} steps for each. When one is done, say \
so in plain words: you are then given the next. Some requests point back to earlier ones. Things \
stay where you put them.

Answer with one call of the tool, on a line of its own: act {{"command": "COMMAND"}}
Commands; OBJ is the name of a thing as you see it:
look around: describe the room you are in, with its doors
look in OBJ: describe what is in a thing
inventory: list what you carry
go to ROOM: go through a door of this room into the next, and see what is there
open OBJ: a container
pick up OBJ
put down OBJ: on the floor of this room
move OBJ to OBJ: put a thing into a container or another place in this room
After "Ambiguous request" answer with the number of what you meant, as a command.

For example: act {{"command": "move lighter to table"}}"""


@dataclass(frozen=True, slots=True)
class Place:
    """A place by its name and room; on the floor of the room where it has no name."""

    room: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: its words, the thing to carry, and the target."""

    kind: str
    """`carry` a thing, `choose` one of a kind, carry it `again`, or carry a thing `back`."""
    text: str
    thing: str = ""
    """The thing, or the kind of which one is chosen."""
    place: Place | None = None
    """Where to; None where that is the place at which a thing was before."""
    to: int | None = None
    """The request that is pointed back to."""


@dataclass(frozen=True, slots=True)
class Item:
    """A thing in the house, and where it is."""

    id: str
    name: str
    place: Place


class Chains:
    """One conversation at a time. The reward is the share of requests done when reported."""

    def __init__(self) -> None:
        self._house = ScienceWorld(SIMPLIFICATION)
        self.requests: tuple[Request, ...] = ()
        self.at = 0
        """The place of the request that is being worked on."""
        self.carried: dict[int, Item] = {}
        """By request: the thing that was carried for it, in its state before."""
        self._before: dict[str, Item] = {}
        self._done = 0
        self._used = 0
        self._over = False

    def reset(self, task: str) -> Start:
        """Begin the conversation of that name, which begins with the split of its house."""
        chance = random.Random(f"{NAME} {task}")
        split = task.partition("-")[0]
        houses = [one for one in read_splits("scienceworld")[split] if one.startswith("find-")]
        start = self._house.reset(chance.choice(houses))
        self._before = items(self._house.tree())
        self.requests = drawn(list(self._before.values()), places(self._house.tree()), chance)
        self.carried = {}
        self.at = self._done = self._used = 0
        self._over = False
        return Start(task=f"{GREETING}\n\n{start.observation}", observation=self.requests[0].text)

    def step(self, action: str) -> Outcome:
        """Act in the house, or hear the next request."""
        try:
            command = TOOL.given(action)
        except CallError as error:
            return self._outcome(f"Error: {error}", valid=False)
        if command is None:
            return self._said()
        self._used += 1
        if self._used > STEPS_A_REQUEST:
            return self._outcome("Error: no steps are left for this request", valid=False)
        outcome = self._house.step(extract_action(command))
        told = outcome.observation
        if told.startswith("You move to the "):
            told = f"{told}\n{self._house.look()}"
        return self._outcome(told, valid=outcome.valid)

    def close(self) -> None:
        """Stop the simulator."""
        self._house.close()

    def _said(self) -> Outcome:
        now = items(self._house.tree())
        moved = self._moved(now)
        if moved is not None:
            self.carried[self.at] = moved
            self._done += 1
        self._before = now
        self._used = 0
        self.at += 1
        if self.at >= len(self.requests):
            self._over = True
            return self._outcome(FAREWELL)
        return self._outcome(self.requests[self.at].text)

    def _moved(self, now: Mapping[str, Item]) -> Item | None:
        """Return the thing that was carried for this request, in its state before; None if none."""
        request = self.requests[self.at]
        for item in self._before.values():
            if item.id in now and now[item.id].place != item.place:
                pointed = self.carried.get(request.to) if request.to is not None else None
                if request.to is not None:
                    meant = pointed is not None and pointed.id == item.id
                else:
                    meant = is_of(request.thing, item.name)
                place = request.place or (pointed.place if pointed else None)
                if meant and now[item.id].place == place:
                    return item
        return None

    def _outcome(self, observation: str, *, valid: bool = True) -> Outcome:
        return Outcome(
            observation=observation,
            reward=self._done / len(self.requests),
            terminated=self._over,
            valid=valid,
        )


def is_of(thing: str, name: str) -> bool:
    """Return True if a name is the name of a thing or of its kind.

    >>> is_of("wire", "black wire"), is_of("book", "book (Moby Dick)"), is_of("wire", "lighter")
    (True, True, False)
    """
    return name == thing or (
        thing in KINDS and (name.endswith(f" {thing}") or name.startswith(f"{thing} ("))
    )


def items(tree: Mapping[str, Any]) -> dict[str, Item]:
    """Return the things that a request can name unambiguously, by id."""
    found = [
        Item(node["uuid"], node["name"], place)
        for node, place in _nodes(tree)
        if node["name"] in THINGS or any(is_of(kind, node["name"]) for kind in KINDS)
    ]
    names = [item.name for item in found]
    return {item.id: item for item in found if names.count(item.name) == 1}


def places(tree: Mapping[str, Any]) -> list[Place]:
    """Return the places that a thing can be put at."""
    found = [
        Place(place.room, node["name"])
        for node, place in _nodes(tree)
        if not place.name and node["name"] in PLACES
    ]
    return sorted(
        (place for place in found if found.count(place) == 1), key=lambda at: (at.room, at.name)
    )


def _nodes(tree: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Place]]:
    """Yield everything in the house, with the place that it is at."""
    for room in tree["contents"].values():
        yield from _inside(room, Place(room["name"]))


def _inside(node: Mapping[str, Any], place: Place) -> Iterator[tuple[Mapping[str, Any], Place]]:
    for own in node["contents"].values():
        yield own, place
        yield from _inside(own, Place(place.room, own["name"]))


def drawn(
    there: Sequence[Item], free: Sequence[Place], chance: random.Random
) -> tuple[Request, ...]:
    """Return the requests of a house: each can be done after those before it were."""
    return _Drawing(chance, tuple(there), tuple(free)).drawn()


@dataclass(slots=True)
class _Drawing:
    """Draws the requests of a conversation."""

    chance: random.Random
    there: tuple[Item, ...]
    free: tuple[Place, ...]
    requests: list[Request] = field(default_factory=list)
    at: dict[str, Place] = field(default_factory=dict)
    """The place of each thing, or of the chosen thing of a kind, by now."""
    back: set[int] = field(default_factory=set)
    """Requests of which the thing was not touched since: it can be put back."""

    def drawn(self) -> tuple[Request, ...]:
        carried = sorted({item.name for item in self.there} & THINGS)
        kinds = [kind for kind in KINDS if sum(is_of(kind, item.name) for item in self.there) > 1]
        self.at = {item.name: item.place for item in self.there if item.name in THINGS}
        for _ in range(self.chance.randrange(LEAST_REQUESTS, MOST_REQUESTS + 1)):
            request = self._pointing() if self.chance.random() < _POINTING_BACK else None
            if request is None:
                untouched = [kind for kind in kinds if kind not in self.at]
                if untouched and self.chance.random() < _CHOOSING:
                    request = self._choosing(self.chance.choice(untouched))
                else:
                    request = self._carrying(self.chance.choice(carried))
            self.requests.append(request)
        return tuple(self.requests)

    def _carrying(self, thing: str) -> Request:
        first = all(request.thing != thing for request in self.requests)
        place = self._to(thing)
        text = f"Put the {thing} {_words(place)}."
        request = Request(kind="carry", text=self._text(text), thing=thing, place=place)
        return self._noted(request, first=first)

    def _choosing(self, kind: str) -> Request:
        place = self._to(kind)
        text = f"Put a {kind} {_words(place)}; which one is up to you."
        request = Request(kind="choose", text=self._text(text), thing=kind, place=place)
        return self._noted(request, first=True)

    def _pointing(self) -> Request | None:
        newest = len(self.requests) - 1
        put_back = [at for at in sorted(self.back) if at < newest]
        chosen = [
            at
            for at, one in enumerate(self.requests[:newest])
            if one.kind == "choose" and self.at[one.thing] == one.place
        ]
        both = [("back", at) for at in put_back] + [("again", at) for at in chosen]
        if not both:
            return None
        kind, at = self.chance.choice(both)
        thing = self.requests[at].thing
        if kind == "back":
            text = f"Put what you carried for request {at + 1} back to where it was before."
            request = Request(kind=kind, text=self._text(text), thing=thing, to=at)
            self.back.discard(at)
            self.at[thing] = Place("")
            return request
        place = self._to(thing)
        text = f"Put the {thing} that you chose for request {at + 1} {_words(place)}."
        request = Request(kind=kind, text=self._text(text), thing=thing, place=place, to=at)
        return self._noted(request, first=False)

    def _noted(self, request: Request, *, first: bool) -> Request:
        """Note the new place of the thing, and True if only a look had shown its place."""
        self.back = {at for at in self.back if self.requests[at].thing != request.thing}
        if first:
            self.back.add(len(self.requests))
        assert request.place is not None  # noqa: S101 - only requests to put back have none
        self.at[request.thing] = request.place
        return request

    def _to(self, thing: str) -> Place:
        taken = {item.place for item in self.there if is_of(thing, item.name)}
        taken |= {self.at[thing]} if thing in self.at else set()
        return self.chance.choice([place for place in self.free if place not in taken])

    def _text(self, text: str) -> str:
        return f"Request {len(self.requests) + 1}. {text}"


def _words(place: Place) -> str:
    word = "in" if place.name in ("bathtub", "sink", "fire pit") else "on"
    return f"{word} the {place.name} in the {place.room}"


def splits() -> Mapping[str, Sequence[str]]:
    """Return the conversations by split; their houses are ScienceWorld's of the same split."""
    return read_splits(NAME)


WORLD = World(
    name=NAME,
    make=Chains,
    instructions=INSTRUCTIONS,
    examples="",
    splits=splits,
    extract=TOOL.extract,
    canonical=canonical,
    most_steps=MOST_REQUESTS * (STEPS_A_REQUEST + 1),
    calls=True,
)
