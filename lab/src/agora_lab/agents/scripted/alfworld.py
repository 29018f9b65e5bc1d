"""Plays ALFWorld from the text of a prompt alone.

The reader notes the facts in the prompt: where things were seen, the thing in hand, the treated
things, the failed actions. The next action follows from these notes. Facts that the prompt has lost
are searched for again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agora_lab.agents.base import prompt_blocks

_LOOK = "look"
_INVENTORY = "inventory"
_NOTHING = "nothing happens"

# Where things usually are. A weight is for all receptacles of a kind together: with many of a kind
# in the room, each of them gets little of it.
_PLACES = """
apple tomato potato: countertop 5, diningtable 4, fridge 5, sinkbasin 3, garbagecan 2, microwave 2, sidetable 1
lettuce: countertop 5, diningtable 4, fridge 5, sinkbasin 2, garbagecan 1, sidetable 1
bread: countertop 6, diningtable 5, fridge 3, sidetable 1, microwave 1, garbagecan 1
egg: fridge 5, countertop 4, diningtable 3, sinkbasin 3, garbagecan 3, microwave 2, sidetable 1
mug: countertop 5, cabinet 3, coffeemachine 3, sinkbasin 3, diningtable 3, desk 4, microwave 2, shelf 2, fridge 1, sidetable 2, dresser 2, drawer 1
cup: countertop 4, cabinet 4, sinkbasin 4, diningtable 3, fridge 2, microwave 2, shelf 3, sidetable 2
bowl: countertop 5, cabinet 4, diningtable 4, sinkbasin 2, fridge 2, shelf 3, desk 3, dresser 2, sidetable 2, coffeetable 2
plate: countertop 5, cabinet 4, diningtable 4, sinkbasin 3, fridge 2, shelf 3, microwave 1, sidetable 1, coffeetable 2
pan: stoveburner 6, countertop 4, cabinet 3, sinkbasin 2, diningtable 2, fridge 1
pot: stoveburner 6, countertop 3, cabinet 2, sinkbasin 2, fridge 2, diningtable 2, shelf 1
kettle: stoveburner 4, countertop 4, cabinet 4, diningtable 2, sinkbasin 2, shelf 1
winebottle glassbottle: countertop 4, cabinet 4, fridge 4, garbagecan 3, diningtable 2, shelf 2, sidetable 1
fork spoon butterknife knife: countertop 6, diningtable 5, drawer 4, sinkbasin 3, sidetable 1
spatula: countertop 6, drawer 4, diningtable 4, sinkbasin 3, sidetable 1, stoveburner 1
ladle: countertop 5, cabinet 3, drawer 3, diningtable 4, sinkbasin 3
saltshaker peppershaker: countertop 5, cabinet 4, drawer 4, diningtable 4, shelf 3, sidetable 2
dishsponge: countertop 4, sinkbasin 5, drawer 3, cabinet 3, garbagecan 1, bathtubbasin 1, toilet 1, cart 1
soapbottle: countertop 5, cabinet 5, sinkbasin 2, garbagecan 3, toilet 3, drawer 2, shelf 3, cart 1, bathtubbasin 1
soapbar: sinkbasin 4, countertop 4, bathtubbasin 4, toilet 3, cabinet 3, garbagecan 2, drawer 2, cart 2, shelf 1
spraybottle: countertop 4, cabinet 5, toilet 3, garbagecan 3, shelf 3, drawer 2, cart 2
toiletpaper: toilet 5, cabinet 4, countertop 3, toiletpaperhanger 4, garbagecan 3, drawer 2, shelf 2, cart 1
cloth: countertop 4, cabinet 4, drawer 3, bathtubbasin 3, sinkbasin 2, cart 2, shelf 2, garbagecan 1, dresser 1, laundryhamper 1
candle: countertop 4, toilet 4, shelf 3, cabinet 3, drawer 2, coffeetable 2, diningtable 2, cart 2, sidetable 2, desk 1
handtowel: handtowelholder 9, countertop 3, cabinet 1, sinkbasin 1, bathtubbasin 1
towel: towelholder 9, bathtubbasin 3, countertop 1
scrubbrush plunger: toilet 4, cabinet 3, countertop 2, cart 2, sinkbasin 1
tissuebox: sidetable 4, countertop 3, coffeetable 3, toilet 3, diningtable 3, dresser 3, desk 3, cabinet 2, shelf 2, garbagecan 1, drawer 1, cart 1
cellphone: desk 5, bed 5, sidetable 4, dresser 4, drawer 2, sofa 3, coffeetable 3, armchair 2, diningtable 3, countertop 2, shelf 1, tvstand 1
laptop: desk 5, bed 5, sofa 4, coffeetable 4, diningtable 4, armchair 3, ottoman 2, dresser 1, sidetable 1
remotecontrol: sofa 5, coffeetable 4, tvstand 3, armchair 4, sidetable 3, dresser 3, diningtable 3, drawer 2, ottoman 2, shelf 2, garbagecan 1
pen pencil: desk 6, drawer 3, shelf 4, dresser 4, sidetable 4, garbagecan 2, bed 1, diningtable 3, countertop 3, coffeetable 2
cd: desk 6, drawer 3, shelf 4, dresser 4, sidetable 3, garbagecan 2, safe 2, bed 1, diningtable 1
book: bed 5, desk 5, shelf 3, sidetable 3, dresser 3, sofa 3, coffeetable 3, diningtable 3, drawer 1, countertop 2, cabinet 1
newspaper: coffeetable 4, sofa 4, diningtable 4, sidetable 4, armchair 2, drawer 2, shelf 2, garbagecan 2, ottoman 2, dresser 2, cabinet 2, countertop 1, tvstand 1, bed 1
creditcard: desk 5, dresser 4, sidetable 4, drawer 3, coffeetable 4, sofa 3, shelf 3, armchair 3, diningtable 3, countertop 3, bed 1, tvstand 2, cabinet 1, ottoman 1
keychain: dresser 4, sidetable 5, drawer 3, sofa 3, coffeetable 4, desk 4, safe 2, shelf 3, armchair 3, diningtable 3, countertop 2, tvstand 2, cabinet 1, ottoman 1
watch: dresser 4, sidetable 4, coffeetable 4, desk 4, drawer 3, shelf 3, safe 2, sofa 2, diningtable 3, tvstand 3, cabinet 2, armchair 1
alarmclock: sidetable 5, desk 6, dresser 4, shelf 3, bed 1, drawer 1
pillow: bed 7, sofa 6, armchair 5, ottoman 1
teddybear: bed 7, sofa 3, armchair 2, shelf 1
basketball baseballbat tennisracket: bed 3, armchair 2, desk 2, dresser 2, sidetable 1
box: sofa 4, coffeetable 4, diningtable 3, dresser 3, sidetable 3, desk 2, ottoman 2, armchair 2, bed 2, cabinet 1, shelf 1
statue: shelf 4, coffeetable 4, dresser 4, sidetable 4, tvstand 4, diningtable 3, desk 2, safe 1, cart 1, countertop 1
vase: shelf 4, coffeetable 4, sidetable 4, dresser 3, diningtable 3, cabinet 2, tvstand 2, safe 2, countertop 2, desk 1, cart 1
wateringcan: coffeetable 3, sidetable 3, countertop 3, diningtable 2, shelf 2
desklamp: desk 7, sidetable 6, dresser 4, shelf 2, coffeetable 1, diningtable 1
floorlamp: sidetable 2, desk 2, sofa 2, armchair 2, coffeetable 1
"""  # noqa: E501
_CLOSING = frozenset("cabinet drawer fridge microwave safe".split())
_OTHER_RECEPTACLES = "ottoman painting bathtub sink laundryhamper toaster".split()
_LAMPS = ("desklamp", "floorlamp")
_APPLIANCE = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_TREATED = {"clean": "clean", "hot": "heat", "heat": "heat", "cool": "cool", "cold": "cool"}
_UNLIKELY = 0.3
"""The weight of a kind of receptacle that no one would look in first."""
_GUESSES = 3
"""How many of a kind are tried if the prompt does not list the content of the room."""


def _read_places() -> dict[str, dict[str, float]]:
    places: dict[str, dict[str, float]] = {}
    for line in _PLACES.strip().splitlines():
        kinds, _, listed = line.partition(":")
        weights = {kind: float(w) for kind, w in (pair.split() for pair in listed.split(","))}
        places.update(dict.fromkeys(kinds.split(), weights))
    return places


_WEIGHTS = _read_places()
_RECEPTACLES = frozenset(kind for places in _WEIGHTS.values() for kind in places).union(
    _OTHER_RECEPTACLES
)

_NAME = re.compile(r"\b([a-z]{2,20}) ([0-9]{1,3})\b")
_ELIDED = re.compile(
    r"^\[(?:steps? |\.\.\. )[^\]\n]{0,80}(?:elided|removed)[^\]\n]{0,80}\]", re.MULTILINE
)
_SUMMARY = re.compile(r"[0-9]{1,6} ")
"""How a line under a marker begins. It is written by a compressor, and not read here."""
_THING = r"([a-z]{2,20} [0-9]{1,3})"
_ACTIONS = {
    "go": re.compile(rf"go to {_THING}"),
    "open": re.compile(rf"open {_THING}"),
    "close": re.compile(rf"close {_THING}"),
    "examine": re.compile(rf"examine {_THING}"),
    "use": re.compile(rf"use {_THING}"),
    "take": re.compile(rf"take {_THING} from {_THING}"),
    "put": re.compile(rf"put {_THING} (?:in/on|in|on) {_THING}"),
    "clean": re.compile(rf"clean {_THING} with {_THING}"),
    "heat": re.compile(rf"heat {_THING} with {_THING}"),
    "cool": re.compile(rf"cool {_THING} with {_THING}"),
    "inventory": re.compile("inventory"),
    "look": re.compile("look"),
}
_DONE = {
    "take": re.compile(rf"you pick up the {_THING} from the {_THING}"),
    "put": re.compile(rf"you put the {_THING} in/on the {_THING}"),
    "clean": re.compile(rf"you clean the {_THING} using the {_THING}"),
    "heat": re.compile(rf"you heat the {_THING} using the {_THING}"),
    "cool": re.compile(rf"you cool the {_THING} using the {_THING}"),
    "open": re.compile(rf"you open the {_THING}"),
    "close": re.compile(rf"you close the {_THING}"),
    "use": re.compile(rf"you turn on the {_THING}"),
}
_ON = re.compile(rf"on the {_THING}, you see ")
_IN = re.compile(rf"the {_THING} is open\. in it, you see ")
_CLOSED = re.compile(rf"the {_THING} is closed")
_CARRIED = re.compile(rf"you are carrying: an? {_THING}")
_GOAL = re.compile(r"your task is to: ?([^\n]{1,200})")
_GOAL_WORDS = re.compile(r"[a-z]+")


def _kind(name: str) -> str:
    return name.partition(" ")[0]


def _names(text: str) -> Iterator[str]:
    return (f"{kind} {number}" for kind, number in _NAME.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """The task."""

    thing: str
    target: str
    """The kind of receptacle to put it in; of the lamp, where it is to be looked at."""
    treatment: str = ""
    count: int = 1

    @property
    def in_light(self) -> bool:
        return self.target.endswith("lamp")


@dataclass(slots=True)
class _Notes:
    """The facts in a prompt."""

    goal: _Goal | None = None
    receptacles: dict[str, None] = field(default_factory=dict)
    held: dict[str, dict[str, None]] = field(default_factory=dict)
    """Receptacle to the things believed to be in it."""
    where: dict[str, str] = field(default_factory=dict)
    """Thing to the receptacle it is believed to be in."""
    searched: dict[str, int] = field(default_factory=dict)
    """Receptacles whose content was listed, and when."""
    closed: dict[str, bool] = field(default_factory=dict)
    at: str = ""
    holding: str = ""
    asked: bool = False
    """True if the inventory was listed since the hands last changed."""
    treated: dict[str, str] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    """Actions that failed since the last change."""
    failures: dict[str, int] = field(default_factory=dict)
    clock: int = 0

    def changed(self) -> None:
        self.failed = {}

    def see(self, place: str, things: Iterable[str]) -> None:
        content = self.held.setdefault(place, {})
        for thing in things:
            if thing != place and not self.is_receptacle(thing):
                self.forget(thing)
                content[thing] = None
                self.where[thing] = place

    def forget(self, thing: str) -> None:
        self.held.get(self.where.pop(thing, ""), {}).pop(thing, None)

    def is_receptacle(self, name: str) -> bool:
        return name in self.receptacles or _kind(name) in _RECEPTACLES


def _read(prompt: str) -> _Notes:
    notes = _Notes()
    action = ""
    for role, said in prompt_blocks(prompt):
        if role == "SYSTEM":
            continue
        text = said.lower()
        if role == "ASSISTANT":
            action = _action(text) or action
            continue
        notes.clock += 1
        _observe(notes, action, _without_markers(text))
        action = ""
    if action:
        _do(notes, action)
    return notes


def _without_markers(text: str) -> str:
    told: list[str] = []
    inside = False
    for line in text.splitlines():
        if found := _ELIDED.match(line):
            inside = True
            # The facts of a step that was masked in place come after the bracket.
            told.append(line[found.end() :])
        elif not (inside and _SUMMARY.match(line)):
            inside = False
            told.append(line)
    return "\n".join(told)


def _action(text: str) -> str:
    """Return the last line that is an action: a thought may come before it."""
    for line in reversed(text.splitlines()):
        bare = line.strip().removeprefix("> ").removeprefix("action: ")
        if any(pattern.fullmatch(bare) for pattern in _ACTIONS.values()):
            return bare
    return ""


def _parts(action: str) -> tuple[str, str, str]:
    """Return verb, thing and place of an action; empty where it names none."""
    for verb, pattern in _ACTIONS.items():
        if found := pattern.fullmatch(action):
            named = found.groups()
            if len(named) > 1:
                return verb, named[0], named[1]
            return verb, "", named[0] if named else ""
    return "", "", ""


def _do(notes: _Notes, action: str) -> None:
    verb, thing, place = _parts(action)
    if verb in ("go", "open", "close", "take", "put", "clean", "heat", "cool"):
        _done(notes, verb, thing, place)


def _done(notes: _Notes, verb: str, thing: str, place: str) -> None:
    notes.at = place
    notes.changed()
    if verb == "open":
        notes.closed[place] = False
    elif verb == "close":
        notes.closed[place] = True
    elif verb == "take":
        notes.forget(thing)
        notes.holding = thing
        notes.asked = True
    elif verb == "put":
        notes.see(place, [thing])
        notes.holding = ""
        notes.asked = True
    elif verb in _APPLIANCE:
        notes.holding = thing
        notes.treated[thing] = verb


def _observe(notes: _Notes, action: str, told: str) -> None:
    """Note an observation. The action before it may be unknown."""
    if _NOTHING in told:
        _fail(notes, action)
        return
    if found := _GOAL.search(told):
        notes.goal = _read_goal(found[1])
        told = told[: found.start()] + told[found.end() :]
    verb, _, place = _parts(action)
    if action:
        _do(notes, action)
    if "middle of a room" in told or (not notes.receptacles and notes.clock == 1):
        for name in _names(told):
            if notes.is_receptacle(name):
                notes.receptacles[name] = None
        return
    for done, pattern in _DONE.items():
        if (found := pattern.search(told)) and done != verb:
            named = found.groups()
            if done != "use":
                _done(notes, done, named[0] if len(named) > 1 else "", named[-1])
    if found := _CARRIED.search(told):
        notes.holding, notes.asked = found[1], True
    elif "not carrying anything" in told:
        notes.holding, notes.asked = "", True
    elif found := _CLOSED.search(told):
        notes.at = found[1]
        notes.closed[found[1]] = True
    elif found := _IN.search(told) or _ON.search(told):
        _arrive(notes, found[1], told[found.end() :])
    elif verb in ("go", "open", "examine") and notes.is_receptacle(place):
        # The rest of a cut sentence may still name things.
        listed = [name for name in _names(told) if name != place]
        if listed or "nothing" in told:
            _arrive(notes, place, told)
    elif not verb:
        _hear(notes, told)


def _arrive(notes: _Notes, place: str, listed: str) -> None:
    notes.at = place
    notes.closed[place] = False
    notes.searched[place] = notes.clock
    for thing in list(notes.held.get(place, ())):
        notes.forget(thing)
    notes.see(place, _names(listed))


def _hear(notes: _Notes, told: str) -> None:
    """Note where things are, from any other text."""
    for line in told.splitlines():
        named = list(_names(line))
        places = [name for name in named if notes.is_receptacle(name)]
        if len(places) == 1:
            notes.see(places[0], named)


def _fail(notes: _Notes, action: str) -> None:
    if not action:
        return
    notes.failed[action] = None
    notes.failures[action] = notes.failures.get(action, 0) + 1
    verb, _, place = _parts(action)
    if verb == "go":
        # The agent cannot go to its own place; two receptacles may be at one place.
        notes.at = place
    elif verb == "examine" and notes.at == place:
        notes.at = ""


def _read_goal(sentence: str) -> _Goal | None:
    words = _GOAL_WORDS.findall(sentence)
    treatment = next((_TREATED[word] for word in words if word in _TREATED), "")
    things = [word for word in words if word in _WEIGHTS and word not in _LAMPS]
    targets = [word for word in words if word in _RECEPTACLES or word in _LAMPS]
    if not things or not targets:
        return None
    return _Goal(
        thing=things[0],
        target=targets[-1],
        treatment=treatment,
        count=2 if "two" in words else 1,
    )


def _decide(notes: _Notes) -> str:
    goal = notes.goal
    if goal is None:
        return _LOOK if _LOOK not in notes.failed else _INVENTORY
    if notes.holding:
        if _kind(notes.holding) != goal.thing:
            wanted = _put_away(notes)
        elif goal.treatment and notes.treated.get(notes.holding) != goal.treatment:
            wanted = _treat(notes, goal)
        elif goal.in_light:
            wanted = _light(notes, goal)
        else:
            wanted = _place(notes, goal)
    else:
        wanted = _fetch(notes, goal)
    return wanted or _search(notes, goal.thing)


def _attempt(notes: _Notes, action: str, place: str) -> str:
    """Return the action, or one that makes it possible after it failed; empty if none is left."""
    if notes.at != place:
        return _go(notes, place)
    if notes.closed.get(place) and f"open {place}" not in notes.failed:
        return f"open {place}"
    if action not in notes.failed:
        return action
    if _kind(place) in _CLOSING and place not in notes.closed:
        opening = f"open {place}"
        if opening not in notes.failed:
            return opening
    if not notes.asked and _INVENTORY not in notes.failed:
        return _INVENTORY
    return _go(notes, place)


def _go(notes: _Notes, place: str) -> str:
    going = f"go to {place}"
    return going if going not in notes.failed and notes.failures.get(going, 0) < 3 else ""


def _put_away(notes: _Notes) -> str:
    """Drop a useless thing at the first place that takes it."""
    places = [notes.at] if notes.at else []
    places += [r for r in notes.receptacles if _kind(r) in ("countertop", "desk", "diningtable")]
    for place in places:
        action = f"put {notes.holding} in/on {place}"
        if notes.failures.get(action, 0) < 2 and (wanted := _attempt(notes, action, place)):
            return wanted
    return ""


def _treat(notes: _Notes, goal: _Goal) -> str:
    for place in _of_kind(notes, _APPLIANCE[goal.treatment]):
        action = f"{goal.treatment} {notes.holding} with {place}"
        if notes.at == place and action not in notes.failed:
            # These receptacles need not be open.
            return action
        if notes.failures.get(action, 0) < 3 and (wanted := _attempt(notes, action, place)):
            return wanted
    return ""


def _light(notes: _Notes, goal: _Goal) -> str:
    for place, thing in _seen(notes, goal.target):
        action = f"use {thing}"
        if notes.failures.get(action, 0) < 3 and (wanted := _attempt(notes, action, place)):
            return wanted
    return _search(notes, goal.target)


def _place(notes: _Notes, goal: _Goal) -> str:
    for place in _targets(notes, goal):
        action = f"put {notes.holding} in/on {place}"
        if notes.failures.get(action, 0) < 3 and (wanted := _attempt(notes, action, place)):
            return wanted
    return ""


def _fetch(notes: _Notes, goal: _Goal) -> str:
    """Take a thing that was seen outside its target."""
    targets = _targets(notes, goal)
    home = targets[0] if targets else ""
    seen = [
        (place, thing)
        for place, thing in _seen(notes, goal.thing)
        if place != home
        or goal.in_light
        or (goal.treatment and notes.treated.get(thing) != goal.treatment)
    ]
    seen.sort(key=lambda item: item[0] != notes.at)
    for place, thing in seen:
        action = f"take {thing} from {place}"
        if notes.failures.get(action, 0) < 3 and (wanted := _attempt(notes, action, place)):
            return wanted
    return ""


def _seen(notes: _Notes, kind: str) -> list[tuple[str, str]]:
    return [
        (place, thing)
        for place, content in notes.held.items()
        for thing in content
        if _kind(thing) == kind
    ]


def _targets(notes: _Notes, goal: _Goal) -> list[str]:
    """Return the possible targets: one that holds such a thing first, then the cheapest."""

    def cost(place: str) -> tuple[int, int, int]:
        there = sum(
            _kind(thing) == goal.thing
            and (not goal.treatment or notes.treated.get(thing) == goal.treatment)
            for thing in notes.held.get(place, ())
        )
        shut = notes.closed.get(place, _kind(place) in _CLOSING)
        return -there, shut, place != notes.at

    return sorted(_of_kind(notes, goal.target), key=cost)


def _of_kind(notes: _Notes, kind: str) -> list[str]:
    """Return the receptacles of a kind, by number; guesses if the prompt names none."""
    told = [name for name in notes.receptacles if _kind(name) == kind]
    if not told and not notes.receptacles:
        told = [f"{kind} {number}" for number in range(1, _GUESSES + 1)]
    return sorted(told, key=lambda name: (len(name), name))


def _search(notes: _Notes, kind: str) -> str:
    """Go to the likeliest receptacle that was not searched yet."""
    at = notes.at
    if at and at not in notes.searched:
        if notes.closed.get(at) and f"open {at}" not in notes.failed:
            return f"open {at}"
        if not notes.closed.get(at) and f"examine {at}" not in notes.failed:
            return f"examine {at}"
    weights = _WEIGHTS.get(kind, {})
    for place in _likely(notes, weights):
        if place != at and (wanted := _go(notes, place)):
            return wanted
    return _LOOK if _LOOK not in notes.failed else _INVENTORY


def _likely(notes: _Notes, weights: Mapping[str, float]) -> list[str]:
    """Return the receptacles in search order: new ones by likelihood, then the oldest seen."""
    places = list(notes.receptacles)
    if not places:
        places = [f"{kind} {n}" for kind in weights for n in range(1, _GUESSES + 1)]
    counts: dict[str, int] = {}
    for place in places:
        counts[_kind(place)] = counts.get(_kind(place), 0) + 1

    def order(place: str) -> tuple[int, float, int, str]:
        if place in notes.searched:
            return notes.searched[place], 0.0, len(place), place
        share = weights.get(_kind(place), _UNLIKELY) / counts[_kind(place)]
        return -1, -share / (2 if _kind(place) in _CLOSING else 1), len(place), place

    return sorted(places, key=order)


class AlfWorldReader:
    """Acts in ALFWorld on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next action."""
        return _decide(_read(prompt))


READER = AlfWorldReader()
