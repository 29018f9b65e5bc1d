"""A plan for each kind of task: a chain of aims, of which the first open one gives the action.

An aim is a method that returns the next action towards it, or an empty string once it is reached.
So `a or b or c` is a plan.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence

from agora_lab.agents.scripted.scienceworld.knowledge import (
    LEADS_TO,
    PAINTS,
    ROOM_DEGREES,
    USUAL_ROOMS,
    USUALLY_OFF,
    VESSELS,
    is_animal,
    is_of,
    melting_point,
    years,
)
from agora_lab.agents.scripted.scienceworld.scene import (
    INVENTORY,
    LOOK,
    Scene,
    Thing,
    has,
)

WAIT = "wait1"
_TASK_CHARACTERS = 1_000
"""How much of the first message is searched for the task; the longest has half of it."""
_WORKSHOP = ("workshop",)
_STUDIO = USUAL_ROOMS["paint"]


class Agent:
    """Chooses the next action from the facts in a prompt."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def next(self) -> str:
        """Return the action of the plan, or another one if it just failed."""
        scene = self._scene
        if "Ambiguous request" in scene.last:
            return _answer(scene.last)
        if not scene.room:
            return LOOK
        wish = self._wish() or WAIT
        if wish not in scene.since:
            return wish
        around = [f"go to {room}" for room in scene.doors.get(scene.room, ())]
        others = [LOOK, INVENTORY, *around, WAIT]
        return next((other for other in others if other not in scene.since), WAIT)

    def _wish(self) -> str:
        for pattern, plan in PLANS:
            if found := pattern.search(self._scene.task[:_TASK_CHARACTERS]):
                return plan(self, *found.groups())
        return self._search(())

    # --- aims -------------------------------------------------------------------------------

    def _walk(self, room: str) -> str:
        """Go to a room: through doors that were seen, or the likeliest untried door."""
        scene = self._scene
        if scene.room == room:
            return ""
        steps = self._first_steps()
        if room in steps:
            return f"go to {steps[room]}"
        if scene.room not in scene.seen:
            return LOOK
        likely = [*LEADS_TO.get(room, (USUALLY_OFF,)), *steps]
        untried = [other for other in likely if other in steps and other not in scene.doors]
        return f"go to {steps[untried[0]]}" if untried else LOOK

    def _first_steps(self) -> dict[str, str]:
        """Return the first door on the way to each known room, nearest room first."""
        doors: dict[str, list[str]] = {}
        for room, others in self._scene.doors.items():
            for other in others:
                doors.setdefault(room, []).append(other)
                doors.setdefault(other, []).append(room)
        here = self._scene.room
        steps = {here: ""}
        rooms = deque([here])
        while rooms:
            room = rooms.popleft()
            for other in doors.get(room, ()):
                if other not in steps:
                    steps[other] = steps[room] or other
                    rooms.append(other)
        del steps[here]
        return steps

    def _search(self, rooms: Sequence[str]) -> str:
        """Look in the usual rooms, then into closed things there, then everywhere else."""
        scene = self._scene
        for room in rooms:
            if room not in scene.seen:
                return self._walk(room) or LOOK
        for room in rooms:
            closed = [t.name for t in scene.seen[room] if t.state == "closed"]
            if closed or room in scene.stale:
                return self._walk(room) or (f"open {closed[0]}" if closed else LOOK)
        if scene.gap:
            return INVENTORY
        if scene.room not in scene.seen:
            return LOOK
        unseen = [room for room in self._first_steps() if room not in scene.seen]
        if unseen:
            return self._walk(unseen[0])
        for room in scene.seen:
            closed = [t.name for t in scene.seen[room] if t.state == "closed"]
            if closed or room in scene.stale:
                return self._walk(room) or (f"open {closed[0]}" if closed else LOOK)
        return INVENTORY

    def _reach(self, what: str, rooms: Sequence[str]) -> str:
        scene = self._scene
        if scene.find(what):
            return ""
        if scene.gap:
            return INVENTORY
        place = scene.place(what)
        return self._walk(place) if place else self._search(rooms)

    def _focus(self, what: str, rooms: Sequence[str]) -> str:
        if any(has(name, what) for name in self._scene.focused):
            return ""
        return self._reach(what, rooms) or f"focus on {what}"

    def _take(self, what: str, rooms: Sequence[str]) -> str:
        if self._scene.holds(what):
            return ""
        return self._reach(what, rooms) or f"pick up {what}"

    def _put(self, what: str, box: str, rooms: Sequence[str]) -> str:
        thing = self._scene.find(what)
        if thing and box in thing.within:
            return ""
        if not self._scene.holds(what) and self._scene.find(box) and thing:
            return f"move {what} to {box}"
        return self._take(what, ()) or self._walk_to(box, rooms) or f"move {what} to {box}"

    def _walk_to(self, box: str, rooms: Sequence[str]) -> str:
        """Go to a box. A room that the task names need not be seen first."""
        if rooms and not self._scene.place(box):
            return self._walk(rooms[0])
        return self._reach(box, rooms)

    # --- plans ------------------------------------------------------------------------------

    def find(self, kind: str, box: str, room: str) -> str:
        """Find a thing of a kind, focus on it and carry it to a box."""
        scene = self._scene
        usual = USUAL_ROOMS.get(kind, ())
        boxed = [thing.name for thing in scene.seen.get(room, ()) if box in thing.within]
        focused = [name for name in scene.focused if is_of(kind, name) and name not in boxed]
        for thing in scene.held:
            if is_of(kind, thing.name) and (not focused or self._was_focused(thing)):
                carrier = thing.within[0] if thing.within else thing.name
                return self._focus(thing.name, ()) or self._put(carrier, box, (room,))
        if focused and not scene.place(focused[-1]):
            return INVENTORY if scene.gap else self._put(focused[-1], box, (room,))
        rooms = [scene.room, *usual, *scene.seen]
        choices = [
            (place, thing)
            for place in dict.fromkeys(rooms)
            for thing in scene.seen.get(place, ())
            if is_of(kind, thing.name)
            and not {thing.name, _carrier(thing)} & scene.unmovable
            and box not in thing.within
        ]
        choices.sort(key=lambda choice: not self._was_focused(choice[1]))
        for place, thing in choices:
            return self._walk(place) or f"pick up {_carrier(thing)}"
        return self._search(usual)

    def _was_focused(self, thing: Thing) -> bool:
        return any(has(name, thing.name) for name in self._scene.focused)

    def lifespan(self, first: str, then: str | None) -> str:
        """Focus on the animal that lives longest or shortest, then maybe on the other one."""
        scene = self._scene
        animals = [t.name for t in scene.seen.get("outside", ()) if is_animal(t.name)]
        if not animals:
            return self._walk("outside") or LOOK
        animals.sort(key=lambda name: (years(name), name))
        ends = {"longest": animals[-1], "shortest": animals[0]}
        wanted = [ends[word] for word in (first, then) if word]
        for name in wanted:
            if name not in scene.focused:
                return self._walk("outside") or f"focus on {name}"
        return WAIT

    def temperature(self, what: str, room: str) -> str:
        """Measure a thing and put it into the box for its temperature."""
        aims = (
            self._take("thermometer", USUAL_ROOMS["thermometer"])
            or self._focus("thermometer", USUAL_ROOMS["thermometer"])
            or self._take(what, (room,))
            or self._focus(what, (room,))
        )
        if aims:
            return aims
        if what not in self._scene.degrees:
            return f"use thermometer on {what}"
        box = self._box(self._scene.degrees[what])
        return self._put(what, box, _rooms_of_boxes(self._scene.task))

    def melting(self, what: str, room: str) -> str:
        """Heat a substance until it is clear on which side of the threshold it melts."""
        scene = self._scene
        usual = USUAL_ROOMS["thermometer"]
        aims = (
            self._take("thermometer", usual)
            or self._focus("thermometer", usual)
            or self._focus(what, (room,))
        )
        threshold = _threshold(scene.task)
        known = melting_point(what)
        if known < ROOM_DEGREES:  # The substance is liquid already.
            return aims or self._choose(known)
        aims = aims or self._reach(what, (room,))
        if aims:
            return aims
        reading = scene.degrees.get(what)
        thing = scene.find(what)
        melted = scene.find(f"liquid {what}") is not None
        if melted or (reading is not None and reading > threshold):
            if scene.room in scene.stale:
                return LOOK
            return self._choose(known if melted else threshold + 1)
        if thing and "stove" not in thing.within:
            return self._reach("stove", usual) or f"move {what} to stove"
        if "stove" not in scene.active:
            return "activate stove"
        return f"use thermometer on {what}"

    def _choose(self, degrees: float) -> str:
        box = self._box(degrees)
        return self._walk_to(box, _rooms_of_boxes(self._scene.task)) or f"focus on {box}"

    def conductivity(self, what: str, room: str, box_if: str, box_if_not: str) -> str:
        """Put a thing into a circuit with a light, then into the box for the result."""
        scene = self._scene
        aims = self._focus(what, (room,)) or self._bring(what, room)
        if aims:
            return aims
        wires, lights = self._parts()
        if len(wires) < 3 or not lights:
            return self._search(_WORKSHOP)
        one, two, three = wires[:3]
        light = lights[0]
        link = self._link(
            (("battery", "anode"), (one, "terminal 1")),
            (("battery", "cathode"), (two, "terminal 1")),
            ((one, "terminal 2"), (light.name, "cathode")),
            ((three, "terminal 2"), (light.name, "anode")),
            ((what, "terminal 1"), (two, "terminal 2")),
            ((what, "terminal 2"), (three, "terminal 1")),
        )
        if link:
            return link
        if not scene.waited:
            return WAIT
        if scene.room in scene.stale:
            return LOOK
        return self._put(what, box_if if light.state == "on" else box_if_not, _WORKSHOP)

    def _bring(self, what: str, room: str) -> str:
        if self._scene.holds(what) or self._scene.place(what) == "workshop":
            return self._walk("workshop")
        return self._take(what, (room,))

    def power(self, what: str) -> str:
        """Connect a component to the battery."""
        aims = self._focus(what, _WORKSHOP)
        if aims:
            return aims
        wires, _ = self._parts()
        if len(wires) < 2:
            return self._search(_WORKSHOP)
        one, two = wires[:2]
        return self._link(
            (("battery", "anode"), (one, "terminal 1")),
            (("battery", "cathode"), (two, "terminal 1")),
            ((one, "terminal 2"), (what, "cathode")),
            ((two, "terminal 2"), (what, "anode")),
        )

    def _parts(self) -> tuple[list[str], list[Thing]]:
        seen = self._scene.seen.get("workshop", ())
        wires = [thing.name for thing in seen if thing.name.endswith(" wire")]
        return wires, [thing for thing in seen if thing.name.endswith(" light bulb")]

    def _link(self, *links: tuple[tuple[str, str], tuple[str, str]]) -> str:
        for one, other in links:
            if frozenset((one, other)) not in self._scene.links:
                return self._walk("workshop") or f"connect {' '.join(one)} to {' '.join(other)}"
        return ""

    def paint(self, colour: str) -> str:
        """Pour paints together and mix them, by way of a secondary colour where one is needed."""
        names = colour.split("-")
        middle = next((name for name in names if name in PAINTS), names[0])
        made = self._made(colour)
        if not made:
            if not self._made(middle):
                return self._mix(PAINTS.get(middle, ("red", "yellow")))
            last = [name for name in names if name != middle]
            return self._focus(f"{middle} paint", ()) or self._mix((middle, *last))
        return self._walk(_STUDIO[0]) or f"focus on {made}"

    def _made(self, colour: str) -> str:
        """Return the name of a paint of that colour: green-blue may be called blue green."""
        words = sorted(colour.split("-"))
        for thing in self._scene.seen.get(_STUDIO[0], ()):
            name, _, kind = thing.name.rpartition(" ")
            if kind == "paint" and sorted(name.replace("-", " ").split()) == words:
                return thing.name
        return ""

    def _mix(self, parts: Sequence[str]) -> str:
        seen = self._scene.seen.get(_STUDIO[0])
        if seen is None:
            return self._walk(_STUDIO[0]) or LOOK
        names = [thing.name for thing in seen]
        vessel = next((name for name in VESSELS if names.count(name) == 1), "")
        poured = {thing.name for thing in seen if vessel in thing.within}
        missing = [f"{part} paint" for part in parts if f"{part} paint" not in poured]
        if not vessel or any(paint not in names for paint in missing):
            return self._search(_STUDIO)
        if missing:
            return self._walk(_STUDIO[0]) or f"pour cup containing {missing[0]} in {vessel}"
        return self._walk(_STUDIO[0]) or f"mix {vessel}"

    def _box(self, degrees: float) -> str:
        """Return the box that the task names for a temperature."""
        side = "above" if degrees > _threshold(self._scene.task) else "below"
        found = re.search(
            rf"{side} [^,]*, (?:place it in|focus on) the (\w+ box)", self._scene.task
        )
        return found[1] if found else "red box"


def _answer(question: str) -> str:
    """Return the number of the held thing, or of the first one when something is picked up."""
    for line in question.split("\n"):
        number, _, action = line.partition(":")
        if number.isdecimal() and "in inventory" in action and "pick up" not in action:
            return number
    return "0"


def _carrier(thing: Thing) -> str:
    """Return the thing to pick up: for a plant its pot."""
    pots = [name for name in thing.within if "flower pot" in name]
    return pots[0] if pots else thing.name


def _threshold(task: str) -> float:
    found = re.search(r"above (-?\d+)", task)
    return float(found[1]) if found else 0.0


def _rooms_of_boxes(task: str) -> tuple[str, ...]:
    found = re.search(r"boxes are located around the ([a-z ]+)\.", task)
    return (found[1],) if found else ()


_CONDUCTIVITY = (
    r"determine if (.+?) is electrically conductive.*? located around the ([a-z ]+)\."
    r".*?place it in the (\w+ box)\..*?place it in the (\w+ box)\."
)
PLANS: tuple[tuple[re.Pattern[str], Callable[..., str]], ...] = tuple(
    (re.compile(pattern), plan)
    for pattern, plan in (
        (r"find a\(n\) ([a-z -]+)\..*?to the (\w+ box) in the ([a-z ]+)\.", Agent.find),
        (
            r"with the (longest|shortest) life span(?:, then the (longest|shortest))?",
            Agent.lifespan,
        ),
        (r"temperature of (.+?), which is located around the ([a-z ]+)\.", Agent.temperature),
        (r"melting point of (.+?), which is located around the ([a-z ]+)\.", Agent.melting),
        (_CONDUCTIVITY, Agent.conductivity),
        (r"turn on the ([a-z ]+)\. First", Agent.power),
        (r"create ([a-z-]+) paint", Agent.paint),
    )
)
"""A pattern of the task's text and its plan, whose arguments are the groups of the pattern."""
