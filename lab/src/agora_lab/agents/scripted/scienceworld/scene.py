"""The facts in a prompt about the house: rooms, doors, things, their places, past actions."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from agora_lab.agents.base import prompt_blocks

LOOK = "look around"
INVENTORY = "inventory"
_LINE_CHARACTERS = 2_000
"""How much of a line is read: no line of the simulator is longer, and patterns stay quick."""
_GAPS = ("[steps ", "[... ")
"""How markers of several steps begin; a single step's note has its action above it."""
_ARTICLE = re.compile(r"(?:an?|the) (?:substance called )?", re.IGNORECASE)
_PUNCTUATION = re.compile(r"(\(containing |\(|\)|, |\.+(?: |$)|: )")
_INSIDE = re.compile(r"(?:On|In) the (.+?) (?:is|you see)$")
_SHUT = re.compile(r"The (.+) door is (open|closed)$")


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing that was seen, and the things that it is in or on, outermost first."""

    name: str
    within: tuple[str, ...] = ()
    state: str = ""
    """Open or closed, on or off; empty if unknown."""


def has(name: str, what: str) -> bool:
    """Return True if a name contains `what` as whole words: a crocodile egg is a crocodile."""
    return f" {what} " in f" {name} "


def things(text: str) -> list[Thing]:
    """Return the things in one line of a description, each with the things around it.

    >>> for thing in things("a counter. On the counter is: a bowl (containing an apple), a cup."):
    ...     print(thing.name, thing.within)
    counter ()
    bowl ('counter',)
    apple ('counter', 'bowl')
    cup ('counter',)
    """
    found: list[Thing] = []
    levels: list[tuple[str, str]] = []
    pieces = _PUNCTUATION.split(text)
    for piece, mark in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        words = piece.strip()
        inside, shut = _INSIDE.match(words), _SHUT.match(words)
        if levels and levels[-1][0] == "(":
            found[-1:] = [replace(thing, name=f"{thing.name} ({words})") for thing in found[-1:]]
        elif inside:
            levels.append((":", inside[1]))
        elif shut or words.startswith(("which is", "currently")):
            found[-1:] = [replace(thing, state=words.split()[-1]) for thing in found[-1:]]
        elif words and words != "nothing" and not words.startswith("titled "):
            within = tuple(name for kind, name in levels if kind != "(")
            # The name is listed with the plant's stage, which actions do not accept.
            name = _ARTICLE.sub("", words, count=1).partition(" in the ")[0]
            found.append(Thing(name, within))
        if mark.startswith("("):
            levels.append((mark, found[-1].name if found else ""))
        elif mark == ")":
            while levels and levels.pop()[0] == ":":
                pass
    return found


@dataclass(slots=True)
class Scene:
    """The facts in a prompt."""

    task: str = ""
    room: str = ""
    """The agent's room; empty after a gap in the prompt."""
    doors: dict[str, list[str]] = field(default_factory=dict)
    seen: dict[str, list[Thing]] = field(default_factory=dict)
    """The content of each room when the agent last looked around in it."""
    stale: set[str] = field(default_factory=set)
    """Rooms in which something was opened or happened since the agent looked around."""
    held: list[Thing] = field(default_factory=list)
    gap: bool = False
    """True if steps were left out since the inventory was last read."""
    focused: list[str] = field(default_factory=list)
    links: list[frozenset[tuple[str, str]]] = field(default_factory=list)
    """Terminals that were connected, as pairs of (part, terminal)."""
    degrees: dict[str, float] = field(default_factory=dict)
    """The last temperature that was measured of each thing."""
    waited: bool = False
    """True if time passed since the last connection."""
    active: set[str] = field(default_factory=set)
    unmovable: set[str] = field(default_factory=set)
    since: list[str] = field(default_factory=list)
    """Actions since the last change: repeating one of them is useless."""
    action: str = ""
    last: str = ""
    """The last message."""

    def here(self) -> list[Thing]:
        """Return the things in reach: those in hand and those seen in this room."""
        return [*self.held, *self.seen.get(self.room, ())]

    def find(self, what: str) -> Thing | None:
        """Return the thing of that name in reach; an equal name before a similar one."""
        return best(what, self.here())

    def place(self, what: str) -> str:
        """Return a room in which that thing was seen, the last one looked at first."""
        rooms = [room for room in reversed(self.seen) if best(what, self.seen[room])]
        return rooms[0] if rooms else ""

    def holds(self, what: str) -> bool:
        """Return True if the agent carries that thing."""
        return best(what, self.held) is not None


def best(what: str, among: Iterable[Thing]) -> Thing | None:
    """Return the thing with that name, or else one with that name among its words."""
    alike = [thing for thing in among if has(thing.name, what)]
    exact = [thing for thing in alike if thing.name == what]
    return next(iter(exact or alike), None)


def read(prompt: str) -> Scene:
    """Return the facts in a prompt. Unreadable lines are skipped."""
    scene = Scene()
    for role, text in prompt_blocks(prompt):
        scene.last = ""
        if role == "ASSISTANT":
            for line in _lines(text):
                _act(scene, line)
        elif role == "USER":
            _hear(scene, text)
    return scene


def _lose(scene: Scene) -> None:
    scene.room, scene.gap = "", True
    scene.since.clear()


def _lines(text: str) -> Iterator[str]:
    for raw in text.split("\n"):
        if line := raw.strip()[:_LINE_CHARACTERS]:
            yield line


def _act(scene: Scene, line: str) -> None:
    if line.isdecimal():
        return  # This answers "which one?", so the action before it is the one that happens.
    scene.action = line
    if not scene.since or scene.since[-1] != scene.action:
        scene.since.append(scene.action)


def _hear(scene: Scene, text: str) -> None:
    mode = "" if scene.task else "task"
    for line in _lines(text):
        if not scene.last and line.startswith("[") and scene.action:
            _assume(scene)
        scene.last += line + "\n"
        mode = _note(scene, line, mode)


_EVENTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("listing", r"This (?:room|outside location) is called the (.+?)\. "),
        ("carried", r"In your inventory, you see:"),
        ("door", r"A door to the (.+?) \(that is (\w+)\)"),
        ("arrived", r"You (?:move|teleport) to the (.+?)\.$"),
        ("moved", r"(?:\(disconnecting .+?\))?You move the (.+?) to the (.+?)\.$"),
        ("focused", r"You focus on the (.+?)\.$"),
        ("opened", r"The (.+?) is (?:now|already) open\.$"),
        ("activated", r"The (.+?) is (?:now|already) activated\.$"),
        ("linked", r"(.+?) on (.+?) is now connected to (.+?) on (.+)$"),
        ("measured", r"the thermometer measures a temperature of (-?\d+) degrees"),
        ("waited", r"You decide to wait"),
        ("poured", r"You pour the contents of the (.+?) into the (.+?)\.$"),
        ("mixed", r".* mix to produce (.+?)\.$"),
        ("fixed", r"The (.+?) is not moveable"),
    )
)


_END = r"(anode|cathode|terminal \d)"
_ASSUMED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        (r"(?:go|teleport) to (.+)$", r"You move to the \1."),
        (r"pick up (.+)$", r"You move the \1 to the inventory."),
        (r"move (.+?) to (.+)$", r"You move the \1 to the \2."),
        (r"focus on (.+)$", r"You focus on the \1."),
        (r"open (.+)$", r"The \1 is now open."),
        (r"activate (.+)$", r"The \1 is now activated."),
        (rf"connect (.+?) {_END} to (.+?) {_END}$", r"\2 on \1 is now connected to \4 on \3"),
        (r"wait", "You decide to wait"),
    )
)
"""The simulator's answer to an action that works."""


def _assume(scene: Scene) -> None:
    """Assume that the last action worked, since its answer was left out."""
    scene.since.clear()
    for pattern, answer in _ASSUMED:
        if found := pattern.match(scene.action):
            _note(scene, found.expand(answer), "")


def _note(scene: Scene, line: str, mode: str) -> str:
    """Note a line; return the mode for the lines after it."""
    if line.startswith(_GAPS) and ("elided" in line or "removed" in line):
        _lose(scene)
        return "gap"
    name = ""
    groups: tuple[str, ...] = ("",)
    for kind, pattern in _EVENTS:
        if found := pattern.match(line):
            name, groups = kind, found.groups() or ("",)
            break
    if mode == "task" and not name:
        scene.task += line + " "
        return mode
    if not name:
        if line.startswith("You also see"):
            return ""
        if mode == "listing":
            scene.seen[scene.room] += things(line)
        elif mode == "carried":
            scene.held += things(line)
        return mode
    if _happened(scene, name, groups):
        scene.since.clear()
    return name if name in {"listing", "carried"} else ""


def _happened(scene: Scene, name: str, groups: tuple[str, ...]) -> bool:
    """Note an event; return True if it changed the world."""
    first = groups[0]
    changed = True
    match name:
        case "listing":
            scene.room, changed = first, False
            # Taken out first, so that the last room looked at is the last of the dict.
            scene.seen.pop(first, None)
            scene.seen[first] = []
            scene.stale.discard(first)
        case "carried":
            scene.held, scene.gap, changed = [], False, False
        case "door":
            scene.doors.setdefault(scene.room, [])
            if first not in scene.doors[scene.room]:
                scene.doors[scene.room].append(first)
            changed = False
        case "arrived":
            scene.room = first
        case "moved":
            _move(scene, first, groups[1])
        case "focused":
            scene.focused.append(first)
        case "opened":
            old = scene.seen.get(scene.room, [])
            scene.seen[scene.room] = [
                replace(thing, state="open") if thing.name == first else thing for thing in old
            ]
            scene.stale.add(scene.room)
        case "activated":
            scene.active.add(first)
            scene.stale.add(scene.room)
        case "linked":
            scene.links.append(frozenset({(groups[1], first), (groups[3], groups[2])}))
            scene.waited = False
            scene.stale.add(scene.room)
        case "measured":
            scene.degrees[scene.action.partition(" on ")[2]] = float(first)
            scene.stale.add(scene.room)
        case "waited":
            scene.waited = True
            scene.stale.add(scene.room)
        case "poured":
            _pour(scene, groups[1])
        case "mixed":
            vessel = scene.action.removeprefix("mix ")
            _empty(scene, vessel)
            scene.seen.setdefault(scene.room, []).append(Thing(first, (vessel,)))
        case "fixed":
            scene.unmovable.add(first)
            changed = False
    return changed


def _move(scene: Scene, what: str, into: str) -> None:
    """Move a thing and its contents to its new place."""
    room = scene.seen.get(scene.room, [])
    # The answer may have another name for the thing: a frog egg is a common toad.
    asked = scene.action.removeprefix("pick up ").removeprefix("move ").partition(" to ")[0]
    moved = best(asked, scene.here()) or best(what, scene.here()) or Thing(what)
    name = moved.name
    taken = [thing for thing in scene.here() if thing is moved or name in thing.within]
    rest = [thing for thing in room if thing not in taken]
    scene.held = [thing for thing in scene.held if thing not in taken]
    taken = [
        replace(thing, within=thing.within[thing.within.index(name) :] if thing.within else ())
        if thing is not moved
        else replace(thing, within=())
        for thing in taken or [moved]
    ]
    if into == "inventory":
        scene.held += taken
        left = rest
    else:
        outer = () if into == scene.room else (into,)
        left = rest + [replace(t, within=(*outer, *t.within)) for t in taken]
    # By the prompt the agent never looked around in this room, so that is still to do.
    if scene.room in scene.seen:
        scene.seen[scene.room] = left


def _pour(scene: Scene, into: str) -> None:
    """Move the paint of the last action from its cup to the vessel."""
    paint = scene.action.partition(" containing ")[2].partition(" in ")[0]
    room = scene.seen.setdefault(scene.room, [])
    for at, thing in enumerate(room):
        if thing.name == paint and into not in thing.within:
            room[at] = Thing(paint, (into,))
            return
    room.append(Thing(paint, (into,)))


def _empty(scene: Scene, vessel: str) -> None:
    room = scene.seen.setdefault(scene.room, [])
    scene.seen[scene.room] = [thing for thing in room if vessel not in thing.within]
