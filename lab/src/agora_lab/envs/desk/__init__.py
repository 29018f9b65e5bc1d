"""The desk: one long conversation with a customer about orders, visits and payments, by tools.

Our own world over a real SQLite database, made after the shape of recorded customer service
(tau-bench's airline and retail trajectories): tools that look up and change, results in JSON of
the sizes recorded there. A scripted customer gives 18 to 52 requests one after the other. Many
point back to a fact that an earlier request showed. Everything is drawn by the task's name.
"""

import json
import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agora_lab.envs import tool_calls
from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import read_splits
from agora_lab.envs.desk.catalogue import SERVICES, TODAY
from agora_lab.envs.desk.database import (
    Place,
    State,
    changes,
    copied,
    filled,
    state_of,
    value_at,
)
from agora_lab.envs.desk.script import Script, scripted
from agora_lab.envs.desk.tools import TOOLS, RefusedError, call

__all__ = ["WORLD", "Desk", "canonical", "extract", "fulfilled"]

NAME = "desk"
STEPS = 480
GREETING = (
    "Hello, I look after several customers of yours and have a list of requests. I will give you "
    "one after the other; tell me when one is done."
)
FAREWELL = "Thank you, that is all."
_CALL = re.compile(r"([a-z_]{1,40}) (\{.*\})", re.DOTALL)

INSTRUCTIONS = (
    "You work at the desk of a shop that sells and delivers household goods and sends technicians. "
    "A customer gives you requests; do each of them exactly, and change nothing else.\n"
    "Answer with one call of a tool, on a line of its own, as NAME {ARGUMENTS IN JSON}; its result "
    "is what you see next. When a request is done, or cannot be done, say so in plain words: the "
    "customer then gives you the next one.\n\nTools:\n"
    + "\n".join(
        f"{name} {{{', '.join(tool.parameters)}}}: {tool.about}" for name, tool in TOOLS.items()
    )
    + f"\n\nToday is {TODAY}. Services are {', '.join(SERVICES)}. "
    "Dates are written 2026-05-31. A pending order can be cancelled, sent elsewhere and paid "
    "otherwise, a delivered one returned and exchanged, item by item. Codes of credits are told "
    "once, when an order is cancelled, and cannot be looked up."
)


class Desk:
    """One conversation at a time. The database is visible through the tools alone.

    The reward is a share of the requests that change anything. A request counts if its effect was
    exactly in the database at the answer to the customer, if later requests alone changed that
    effect, and if nothing else was changed during it.
    """

    def __init__(self) -> None:
        self._database: sqlite3.Connection | None = None
        self.script = Script(wishes=(), expected={}, effects=(), owners={})
        self.request = 0
        """The number of the current request."""
        self._state: State = {}
        self._start: State = {}
        self._touched: dict[Place, int] = {}
        self._answered: set[int] = set()

    def reset(self, task: str) -> Start:
        """Begin the conversation of that name."""
        self.close()
        chance = random.Random(f"desk {task}")
        self._database = filled(chance)
        played_through = copied(self._database)
        self.script = scripted(played_through, chance)
        played_through.close()
        self.request = 0
        self._start = self._state = state_of(self._database)
        self._touched = {}
        self._answered = set()
        return Start(task=GREETING, observation=self.script.wishes[0].text)

    def step(self, action: str) -> Outcome:
        """Call a tool, or hear the customer's next request."""
        found = _CALL.fullmatch(action)
        if found is None:
            return self._said()
        try:
            arguments = json.loads(found[2])
        except ValueError as error:
            return self._outcome(f"Error: the arguments are no JSON: {error}", valid=False)
        assert self._database is not None  # noqa: S101
        name = found[1]
        try:
            result = call(self._database, name, arguments)
        except RefusedError as reason:
            return self._outcome(f"Error: {reason}", valid=name in TOOLS)
        except (sqlite3.Error, TypeError, AttributeError) as error:
            return self._outcome(f"Error: {error}", valid=False)
        if TOOLS[name].writes:
            self._note()
        return self._outcome(json.dumps(result))

    def close(self) -> None:
        """Let go of the database."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def state(self) -> State:
        """Return the database as it is now."""
        return self._state

    def done(self) -> frozenset[int]:
        """Return the places of the requests that count as done."""
        return fulfilled(self.script, self._start, self._state, self._touched) & self._answered

    def _note(self) -> None:
        """Note the fields that this request changed."""
        assert self._database is not None  # noqa: S101
        after = state_of(self._database)
        self._touched.update(dict.fromkeys(changes(self._state, after), self.request))
        self._state = after

    def _said(self) -> Outcome:
        effect = (
            self.script.effects[self.request] if self.request < len(self.script.effects) else {}
        )
        if all(value_at(self._state, place) == value for place, value in effect.items()):
            self._answered.add(self.request)
        self.request += 1
        wishes = self.script.wishes
        if self.request >= len(wishes):
            return self._outcome(FAREWELL, terminated=True)
        return self._outcome(wishes[self.request].text)

    def _outcome(
        self, observation: str, *, terminated: bool = False, valid: bool = True
    ) -> Outcome:
        return Outcome(
            observation=observation,
            reward=len(self.done()) / len(self.script.counted),
            terminated=terminated,
            valid=valid,
        )


def fulfilled(
    script: Script, start: State, state: State, touched: Mapping[Place, int]
) -> frozenset[int]:
    """Return the requests whose effect is exactly in the database, judged by its state.

    A request fails if a field that it has to change has another value, or if a field that no
    request should change was changed during it.
    """
    failed = {
        at
        for place, at in script.owners.items()
        if value_at(state, place) != value_at(script.expected, place)
    }
    for place, at in touched.items():
        if place not in script.owners and value_at(state, place) != value_at(start, place):
            failed.add(at)
    return frozenset(script.counted) - failed


def splits() -> Mapping[str, Sequence[str]]:
    """Return the conversations by split."""
    return read_splits(NAME)


def extract(text: str) -> str:
    r"""Return the first call in an answer, else the whole answer.

    >>> extract('I look it up.\nget_order {"order_id": "#W1"}')
    'get_order {"order_id": "#W1"}'
    """
    return tool_calls.first_call(text, _CALL)


def canonical(action: str) -> str:
    """Return the canonical form of an action: arguments in order; words in lower case.

    >>> canonical('f {"b": 1,  "a": 2}')
    'f {"a": 2, "b": 1}'
    """
    found = _CALL.fullmatch(action)
    if found is None:
        return tool_calls.canonical(action)
    try:
        arguments: Any = json.loads(found[2])
    except ValueError:
        return action
    return f"{found[1]} {json.dumps(arguments, sort_keys=True)}"


WORLD = World(
    name=NAME,
    make=Desk,
    instructions=INSTRUCTIONS,
    examples="",
    splits=splits,
    extract=extract,
    canonical=canonical,
    most_steps=STEPS,
    calls=True,
)
