"""Several goals in the same house of ALFWorld in one conversation, by one tool.

House, things and rules are the game's; its own goal is left out. Whoever lives there gives goals of
the game's kinds one after the other: put a thing somewhere, clean, hot or cold where that is
possible. Where a thing is was mostly seen while an earlier goal was worked on.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agora_lab.environments.alfworld import NOTHING, without_location
from agora_lab.environments.alfworld import extract as extract_action
from agora_lab.environments.alfworld_games import Facts, Player
from agora_lab.environments.base import Outcome, Start, World
from agora_lab.environments.data import read_splits
from agora_lab.environments.tool_calls import CallError, OneTool, canonical

NAME = "households"
GOALS = 40
"""How many goals a conversation has; fewer where the house does not offer as many."""
STEPS_A_GOAL = 40
_TREATMENTS: Mapping[str, tuple[str, str, str]] = {
    "clean": ("cleanable", "isclean", "sinkbasin"),
    "hot": ("heatable", "ishot", "microwave"),
    "cool": ("coolable", "iscool", "fridge"),
}
"""By its word in a goal: what a thing has to be for it, what it is afterwards, and where."""
_TREATED = 0.4
"""How often a goal asks for a treatment where one is possible."""
TOOL = OneTool("act", "command")
GREETING = "Hello, I have some things for you to do in this room."
FAREWELL = "Thank you, that is all."

INSTRUCTIONS = f"""\
You are in a room of a house. Whoever lives there gives you one task after the other. You have at \
most {STEPS_A_GOAL} steps for each. When one is done, say so in plain words: you are then given \
the next. Things stay where you put them.

Answer with one call of the tool, on a line of its own: act {{"command": "COMMAND"}}
Commands, in lower case, with the names and numbers as they were told to you:
go to RECEPTACLE
open RECEPTACLE
close RECEPTACLE
take OBJECT from RECEPTACLE
put OBJECT in/on RECEPTACLE
clean OBJECT with RECEPTACLE
heat OBJECT with RECEPTACLE
cool OBJECT with RECEPTACLE
examine RECEPTACLE
inventory
look

For example: act {{"command": "take mug 2 from countertop 1"}}
You see what lies in a receptacle when you are at it and it is open. You can hold one object.
You clean with a sinkbasin, heat with a microwave and cool with a fridge, holding the object. \
"Nothing happens." means that the command was not possible."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be put where, and how treated."""

    thing: str
    place: str
    treatment: str = ""

    @property
    def text(self) -> str:
        """The goal in the game's words."""
        words = " ".join(filter(None, (self.treatment, self.thing)))
        return f"Your task is to: put a {words} in {self.place}."

    def reached(self, facts: Facts) -> bool:
        """Tell whether a thing is where it should be, as it should be."""
        kinds = kinds_of(facts)
        state = _TREATMENTS[self.treatment][1] if self.treatment else ""
        return any(
            kinds.get(fact[1]) == self.thing
            and kinds.get(fact[2]) == self.place
            and (not state or (state, fact[1]) in facts)
            for fact in facts
            if fact[0] == "inreceptacle"
        )


class Households:
    """One conversation at a time. The reward is the share of goals reached when it was said."""

    def __init__(self, player: Player | None = None) -> None:
        self._player = player or Player()
        self.goals: tuple[Goal, ...] = ()
        self.at = 0
        """The place of the goal that is being worked on."""
        self._reached = 0
        self._used = 0
        self._over = False

    def reset(self, task: str) -> Start:
        """Begin in the house of that game."""
        _, _, feedback = self._player.start(task).partition("\n\n")
        room, _, _ = feedback.rpartition("\n\n")
        self.goals = drawn(self._player.facts(), random.Random(f"{NAME} {task}"))
        self.at = self._reached = self._used = 0
        self._over = False
        return Start(task=f"{GREETING} {room.strip()}", observation=self.goals[0].text)

    def step(self, action: str) -> Outcome:
        """Act in the house, or hear the next goal."""
        try:
            command = TOOL.given(action)
        except CallError as error:
            return self._outcome(f"Error: {error}", valid=False)
        if command is None:
            return self._said()
        self._used += 1
        if self._used > STEPS_A_GOAL:
            return self._outcome("Error: no steps are left for this task", valid=False)
        feedback, _ = self._player.act(extract_action(command))
        return self._outcome(without_location(feedback), valid=feedback != NOTHING)

    def close(self) -> None:
        """Give back the planner's library."""
        self._player.close()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The things that the newest goal could be reached with, by name."""
        goal = self.goals[min(self.at, len(self.goals) - 1)]
        kinds = kinds_of(self._player.facts())
        return tuple(sorted(name for name, kind in kinds.items() if kind == goal.thing))

    def _said(self) -> Outcome:
        facts = self._player.facts()
        self._reached += self.goals[self.at].reached(facts)
        self._used = 0
        self.at += 1
        while self.at < len(self.goals) and self.goals[self.at].reached(facts):
            # What was reached by the way is not asked for any more.
            self._reached += 1
            self.at += 1
        if self.at >= len(self.goals):
            self._over = True
            return self._outcome(FAREWELL)
        return self._outcome(self.goals[self.at].text)

    def _outcome(self, observation: str, *, valid: bool = True) -> Outcome:
        return Outcome(
            observation=observation,
            reward=self._reached / len(self.goals),
            terminated=self._over,
            valid=valid,
        )


def kinds_of(facts: Facts) -> dict[str, str]:
    """Return the kind of each thing and of each receptacle, by its name."""
    return {
        fact[1]: fact[2].removesuffix("type")
        for fact in facts
        if fact[0] in ("objecttype", "receptacletype")
    }


def drawn(facts: Facts, chance: random.Random) -> tuple[Goal, ...]:
    """Return the goals of a house: each can be reached, and none is at the beginning."""
    kinds = kinds_of(facts)
    holders = {kinds[fact[1]] for fact in facts if fact[0] == "receptacletype"}
    # What stands on the floor is in no receptacle, and cannot be taken.
    taken = {fact[1] for fact in facts if fact[0] == "inreceptacle"}
    moved = {kinds[fact[1]] for fact in facts if fact[0] == "pickupable" and fact[1] in taken}
    pairs = sorted(
        (fact[2].removesuffix("type"), fact[1].removesuffix("type"))
        for fact in facts
        if fact[0] == "cancontain"
    )
    found: list[Goal] = []
    for thing, place in pairs:
        if thing in moved and place in holders:
            possible = ["", *_possible(thing, facts, kinds, holders)]
            treated = len(possible) > 1 and chance.random() < _TREATED
            found.append(Goal(thing, place, chance.choice(possible[1:]) if treated else ""))
    chance.shuffle(found)
    return tuple(goal for goal in found if not goal.reached(facts))[:GOALS]


def _possible(
    thing: str, facts: Facts, kinds: Mapping[str, str], holders: Collection[str]
) -> list[str]:
    """Return the treatments that every thing of a kind can be given in this house."""
    named = [name for name, kind in kinds.items() if kind == thing]
    return [
        word
        for word, (able, _, place) in _TREATMENTS.items()
        if place in holders and all((able, name) in facts for name in named)
    ]


def splits() -> Mapping[str, Sequence[str]]:
    """Return the houses by split: ALFWorld's games."""
    return read_splits("alfworld")


WORLD = World(
    name=NAME,
    make=Households,
    instructions=INSTRUCTIONS,
    examples="",
    splits=splits,
    extract=TOOL.extract,
    canonical=canonical,
    most_steps=GOALS * (STEPS_A_GOAL + 1),
    calls=True,
)
