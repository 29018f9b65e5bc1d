"""Carries things in a house of ScienceWorld, request by request, from the text of a prompt alone.

ScienceWorld's reader reads the house and knows the ways. It gets the prompt in its own form: calls
as actions, their results as observations, and the lines under markers as those of an agent that
acts by text. This module adds the topic of a request: the thing that was chosen for an earlier one,
or the place of a thing before it was picked up. If the prompt has lost that place, the reader gives
the request up.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agora_lab.agents.base import prompt_blocks
from agora_lab.agents.scripted.left import NOTHING, Apart, Line, Told, apart, note
from agora_lab.agents.scripted.scienceworld.plans import Agent
from agora_lab.agents.scripted.scienceworld.scene import INVENTORY, LOOK, Scene, best, read

DONE = "That is done. What is next?"
GIVEN_UP = "I am sorry, I could not do that. What is next?"
_MOST_STEPS = 40
_CALL = re.compile(r"act (\{.*\})")
_TO = r"(?:in|on) the ([a-z ]{1,40}) in the ([a-z ]{1,40})"
_CARRY = re.compile(rf"Put the ([a-z ]{{1,60}}) {_TO}\.")
_CHOOSE = re.compile(rf"Put a ([a-z ]{{1,60}}) {_TO}; which one is up to you\.")
_AGAIN = re.compile(rf"Put the ([a-z ]{{1,60}}) that you chose for request (\d{{1,3}}) {_TO}\.")
_BACK = re.compile(r"Put what you carried for request (\d{1,3}) back to where it was before\.")
_OPENED = ("cupboard", "closet")
"""Opaque containers that a thing may be in."""
_REQUEST = re.compile(r"Request \d{1,3}\. ")
_GO = "go to "
_TAKEN = re.compile(r"pick up (.+)")
_LAID = re.compile(r"(?:move (.+?) to|put down) (.+)")


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place by its room and name; the floor where it has none."""

    room: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A mention of a thing at a place, and the number of blocks before it."""

    name: str
    spot: _Spot
    at: int


@dataclass(slots=True)
class _Visit:
    """The rest of one request in the prompt: its text, and the actions in order."""

    text: str
    start: int
    """How many blocks there are before it."""
    actions: list[tuple[int, str]] = field(default_factory=list)
    """Every action with the number of blocks before it; an empty one where nothing is left."""
    newest: str = ""
    """The result of the newest call."""
    done: bool = False
    """True if the agent reported it as done."""

    def taken(self, kind: str) -> tuple[int, str] | None:
        """Return the things of a kind that were picked up, and when."""
        for at, action in self.actions:
            found = _TAKEN.fullmatch(action)
            if found and _is_of(kind, found[1]):
                return at, found[1]
        return None


@dataclass(slots=True)
class _Prompt:
    """The prompt in the form of ScienceWorld's own, and its requests."""

    blocks: list[str] = field(default_factory=list)
    visits: list[_Visit] = field(default_factory=list)
    mentions: list[_Mention] = field(default_factory=list)
    """Facts that lines and notes give of removed results."""
    _room: str = ""

    def did(self, action: str) -> None:
        """Note an action of the newest request; an empty one where nothing is left of it."""
        self.visits[-1].actions.append((len(self.blocks), action))
        if not action:
            self._room = ""
        elif action.startswith(_GO):
            self._room = action.removeprefix(_GO)

    def told(self, told: Told) -> None:
        """Note the remaining facts of the previous action's result."""
        if told.status != "error" and self._room:
            self.mentions += [
                _Mention(name, _Spot(self._room, under), len(self.blocks))
                for under, name in told.places
            ]

    def mentioned(self, what: str, before: int | None = None) -> list[_Spot]:
        """Return the mentioned places of a thing before a block, newest first."""
        return [
            one.spot
            for one in reversed(self.mentions)
            if one.name == what and (before is None or one.at <= before)
        ]

    def room(self, to: int, what: str) -> str:
        """Return the room in which a thing was picked up, if the way there is known."""
        room = ""
        for at, visit in enumerate(self.visits[: to + 1]):
            for _, action in visit.actions:
                if at == to and (found := _TAKEN.fullmatch(action)) and found[1] == what:
                    return room
                if not action:
                    room = ""
                elif action.startswith(_GO):
                    room = action.removeprefix(_GO)
        return ""

    def scene(self, blocks: int | None = None) -> Scene:
        """Return the facts about the house after a number of blocks."""
        return read("\n\n".join(self.blocks[:blocks]))


def _is_of(kind: str, name: str) -> bool:
    return name == kind or name.endswith(f" {kind}") or name.startswith(f"{kind} (")


def _opens(name: str) -> bool:
    return name.endswith(_OPENED)


class ChainReader:
    """Acts in the house, request by request, on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next call or sentence."""
        seen = _read(prompt)
        if not seen.visits or len(seen.visits[-1].actions) >= _MOST_STEPS:
            return GIVEN_UP
        now = seen.visits[-1]
        if now.newest.startswith("You move the ") and now.actions:
            laid = _LAID.fullmatch(now.actions[-1][1])
            if laid is not None and laid[2] != "inventory":
                return DONE
        carrier = _Carrier(seen)
        action = carrier.next()
        return GIVEN_UP if carrier.lost else f"act {json.dumps({'command': action})}"


class _Carrier(Agent):
    """Decides on the next action for the newest request."""

    def __init__(self, seen: _Prompt) -> None:
        super().__init__(seen.scene())
        self._seen = seen
        self._visit = seen.visits[-1]
        # The carried thing follows from the actions of this request; see `_held`.
        self._scene.gap = False
        self.lost = False
        """True if the prompt has lost the text of the request."""

    def _wish(self) -> str:
        text = self._visit.text
        if found := _CARRY.search(text):
            return self._carry(found[1], _Spot(found[3], found[2]))
        if found := _CHOOSE.search(text):
            return self._one_of(found[1], _Spot(found[3], found[2]))
        if found := _AGAIN.search(text):
            return self._again(found[1], int(found[2]) - 1, _Spot(found[4], found[3]))
        if found := _BACK.search(text):
            return self._back(int(found[1]) - 1)
        self.lost = True
        return ""

    def _carry(self, what: str, spot: _Spot) -> str:
        """Have a thing at a place."""
        held = self._held(what)
        if held is None:
            return INVENTORY
        if held:
            return self._walk(spot.room) or self._lay(what, spot)
        return self._get(what) or f"pick up {what}"

    def _lay(self, what: str, spot: _Spot) -> str:
        if "isn't open" in self._scene.last:
            return f"open {spot.name}"
        return f"move {what} to {spot.name}" if spot.name else f"put down {what}"

    def _held(self, what: str) -> bool | None:
        """Return True if a thing is carried; None if no step of this request shows it."""
        known: bool | None = False
        for _, action in self._visit.actions:
            if not action:
                known = None
            elif (found := _TAKEN.fullmatch(action)) and found[1] == what:
                known = True
            elif action == INVENTORY:
                # The result of looking was read with the house.
                known = best(what, self._scene.held) is not None
        if known and self._visit.newest and "You move the" not in self._visit.newest:
            refused = self._visit.actions[-1][1] == f"pick up {what}"
            return not refused
        return known

    def _get(self, what: str) -> str:
        """Be where a thing is."""
        scene = self._scene
        if best(what, scene.seen.get(scene.room, ())):
            return ""
        put = self._put_at(what)
        if put and scene.room != put.room:
            return self._walk(put.room)
        place = scene.place(what)
        if place and place != scene.room:
            return self._walk(place)
        arrivals = {scene.room, *self._arrivals()}
        said = (spot.room for spot in self._seen.mentioned(what) if spot.room not in arrivals)
        return next(map(self._walk, said), "") or self._look_for()

    def _look_for(self) -> str:
        """Look into closed containers here, then through the other rooms."""
        scene = self._scene
        if scene.room in scene.stale or scene.room not in scene.seen:
            return LOOK
        closed = {
            room: [thing.name for thing in seen if thing.state == "closed" and _opens(thing.name)]
            for room, seen in scene.seen.items()
        }
        if closed[scene.room]:
            return f"open {closed[scene.room][0]}"
        unseen = [room for room in self._first_steps() if room not in scene.seen]
        shut = sorted(room for room in scene.seen if closed[room] or room in scene.stale)
        return next((self._walk(room) for room in (*unseen, *shut)), LOOK)

    def _put_at(self, what: str) -> _Spot | None:
        """Return the target of a thing of an earlier request, from the words of the request."""
        found = None
        for visit in self._seen.visits[:-1]:
            if not visit.done:
                continue
            if (carry := _CARRY.search(visit.text)) and carry[1] == what:
                found = _Spot(carry[3], carry[2])
            elif back := _BACK.search(visit.text):
                to = int(back[1]) - 1
                if self._thing_of(to) == what:
                    found = self._origin(to, what)
        # The thing is not there.
        return None if found and found.room in self._arrivals() else found

    def _arrivals(self) -> set[str]:
        return {
            action.removeprefix(_GO) for _, action in self._visit.actions if action.startswith(_GO)
        }

    def _one_of(self, kind: str, spot: _Spot) -> str:
        """Bring a thing of a kind to a place: the one picked up before, else the nearest."""
        taken = self._visit.taken(kind)
        if taken:
            return self._carry(taken[1], spot)
        scene = self._scene
        rooms = [scene.room, *reversed(scene.seen)]
        known = (t.name for room in rooms for t in scene.seen.get(room, ()) if _is_of(kind, t.name))
        what = next(known, "")
        return self._carry(what, spot) if what else self._look_for()

    def _again(self, kind: str, to: int, spot: _Spot) -> str:
        """Have the thing at a place that was chosen before; it may still be where it was put."""
        what = self._thing_of(to)
        if what == kind and (taken := self._visit.taken(kind)):
            what = taken[1]
        if what != kind:
            return self._carry(what, spot)
        put = self._spot_of(to)
        there = self._scene.seen.get(put.room, ())
        left = [thing.name for thing in there if _is_of(kind, thing.name)]
        if left:
            return self._carry(left[0], spot)
        if put.room and self._scene.room != put.room and put.room not in self._arrivals():
            return self._walk(put.room)
        return self._one_of(kind, spot)

    def _back(self, to: int) -> str:
        what = self._thing_of(to)
        spot = self._origin(to, what)
        if spot is None:
            self.lost = True
            return ""
        return self._carry(what, spot)

    def _thing_of(self, to: int) -> str:
        """Return the thing carried for a request; only its kind if nothing else is left."""
        if to >= len(self._seen.visits):
            return ""
        visit = self._seen.visits[to]
        for pattern in (_CARRY, _AGAIN, _CHOOSE):
            if found := pattern.search(visit.text):
                taken = visit.taken(found[1])
                return taken[1] if taken else found[1]
        return ""

    def _spot_of(self, to: int) -> _Spot:
        """Return the target of a request, from its words."""
        visit = self._seen.visits[to] if to < len(self._seen.visits) else _Visit("", 0)
        found = _CHOOSE.search(visit.text)
        return _Spot(found[3], found[2]) if found else _Spot("")

    def _origin(self, to: int, what: str) -> _Spot | None:
        """Return the place of a thing before it was picked up for a request."""
        if to >= len(self._seen.visits):
            return None
        visit = self._seen.visits[to]
        taken = visit.taken(what)
        before = self._seen.scene(taken[0] if taken else visit.start)
        room = self._seen.room(to, what) or before.place(what)
        if thing := best(what, before.seen.get(room, ())):
            return _Spot(room, thing.within[-1] if thing.within else "")
        said = self._seen.mentioned(what, taken[0] if taken else visit.start)
        if spot := next((one for one in said if not room or one.room == room), None):
            return spot
        # If the prompt names only the room, its floor is the best guess.
        return _Spot(room) if room else None


def _read(prompt: str) -> _Prompt:
    seen = _Prompt()
    for role, text in prompt_blocks(prompt):
        if role == "SYSTEM":
            continue
        parts = apart(text, result=role == "TOOL")
        visit = seen.visits[-1] if seen.visits else None
        if role == "ASSISTANT":
            call = _CALL.fullmatch(parts.own)
            if call and visit:
                command = _command(call[1])
                seen.did(command)
                seen.blocks.append(f"[ASSISTANT]\n{command}")
            elif visit:
                visit.done = parts.own == DONE
        else:
            if role == "USER" and _REQUEST.search(parts.own):
                visit = _Visit(_REQUEST.split(parts.own)[-1], len(seen.blocks))
                seen.visits.append(visit)
            if visit:
                visit.newest = parts.own if role == "TOOL" else ""
                if role == "TOOL" and (told := note(parts.own)):
                    seen.told(told)
            seen.blocks.append(f"[USER]\n{parts.own}")
        if parts.marks and seen.blocks:
            if visit:
                visit.newest = ""
                for action, told in _left(parts):
                    seen.did(action)
                    seen.told(told)
            # In a block of its own, so that the house can be read up to it; the first line of a
            # block is never a marker.
            seen.blocks.append(f"[USER]\n.\n\n{_marked(parts)}")
    return seen


def _left(parts: Apart) -> Iterator[tuple[str, Told]]:
    """Yield the actions in markers; an empty one where a step has no line."""
    for mark in parts.marks:
        yield from [("", NOTHING)] * (mark.steps - len(mark.lines))
        yield from ((_done(line), line.told) for line in mark.lines)


def _marked(parts: Apart) -> str:
    """Return markers as they are written for an agent that acts by text."""
    rows: list[str] = []
    for mark in parts.marks:
        rows.append(f"[... {mark.steps} step(s) elided ...]")
        for line in mark.lines:
            status = f"{line.told.status} {line.told.text}".strip()
            rows.append(f"{line.number} {_done(line)}" + (f" -> {status}" if status else ""))
    return "\n".join(rows)


def _done(line: Line) -> str:
    return line.arguments.get("command") or line.done.removeprefix("act").strip()


def _command(arguments: str) -> str:
    try:
        return str(json.loads(arguments)["command"])
    except (ValueError, KeyError, TypeError):
        return ""


READER = ChainReader()
