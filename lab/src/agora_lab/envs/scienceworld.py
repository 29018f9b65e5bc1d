"""ScienceWorld: elementary science in a house of ten rooms, on its own simulator.

The simulator is the released `scienceworld` package, which starts a JVM; nothing of
it is reimplemented here. A task id is the official name of the task and the number
of a variation: `boil/12`. The official split into train, dev and test variations is
kept (dev is called validation). Variations of a task differ little, and some tasks
have hundreds, so splits/scienceworld.json has at most 60 of each task and split, spread
evenly.
"""

import contextlib
import functools
import importlib.resources
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from agora import MissingExtraError
from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import DataError, read_splits

try:
    from scienceworld import ScienceWorldEnv
except ImportError as error:
    raise MissingExtraError(__name__, "environments", "agora-lab") from error

EASY = "easy"
"""What is most often played: doors are open, one can teleport, flower pots water themselves, and
wires only matter in the tasks about them."""

_REFUSALS = ("No known action matches", "Unknown action", "Ambiguous request")
"""How the simulator opens its answer to an action that it cannot read."""
_JAVA_OPTIONS = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2 -XX:+UseSerialGC"
"""Things of one name are listed in the order of their hash codes, which Java takes from chance:
with one hash code for all it is the order in which they were made. The other collectors start a
thread per core and machine, and there may be many machines."""
_END_SECONDS = 10.0


class ScienceWorld:
    """A JVM with a simulator in it, reset from task to task.

    The same actions give the same observations on any machine: the simulator's
    randomness (bees fly about) starts from the same seed each time. It has no step
    limit of its own. The episode ends when the task is completed or, as in the
    official interface, when the score is negative, which is how the simulator signals
    that the wrong thing was focused on.
    """

    def __init__(self, simplification: str = EASY) -> None:
        self._simplification = simplification
        with _java_options(_JAVA_OPTIONS):
            self._env: Any = ScienceWorldEnv()
        scala: Any = self._env._gateway.jvm.scala.util
        self._chance = getattr(getattr(scala, "Random$"), "MODULE$")

    def reset(self, task: str) -> Start:
        """Begin the task `NAME/VARIATION`.

        Raises:
            DataError: The task or variation does not exist.
        """
        name, _, variation = task.rpartition("/")
        env = self._env
        if name not in env.task_names or not variation.isdecimal():
            raise DataError(f"task {task!r}", "is not a ScienceWorld task; an example is 'boil/12'")
        if int(variation) >= env.get_max_variations(name):
            most = env.get_max_variations(name) - 1
            raise DataError(f"task {task!r}", f"does not exist: the last variation is {most}")
        self._chance.setSeed(0)
        env.load(name, int(variation), self._simplification)
        # The wrapper's own `step` also lists every possible action, which is 20 times slower.
        return Start(
            task=str(env.server.getTaskDescription()).strip(),
            observation=_tidy(env.server.step("look around")),
        )

    def step(self, action: str) -> Outcome:
        """Perform the action; the reward is the score so far, 0 if it is negative."""
        server = self._env.server
        observation = _tidy(server.step(action))
        score = float(server.getScore())
        return Outcome(
            observation=observation,
            reward=round(min(1.0, max(0.0, score)), 4),
            terminated=bool(server.getCompleted()) or score < 0,
            valid=not observation.startswith(_REFUSALS),
        )

    def look(self) -> str:
        """Return the text of `look around` without a step passing."""
        return _tidy(self._env.look())

    def tree(self) -> Mapping[str, Any]:
        """Return every thing with its properties and its `contents`."""
        found: Mapping[str, Any] = self._env.getObjectTree()
        return found

    def close(self) -> None:
        """Stop the JVM and wait until it has ended."""
        process: Any = self._env._gateway.java_process
        with contextlib.suppress(OSError):
            self._env.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _java_options(options: str) -> Iterator[None]:
    """Pass options to the next JVM, since the wrapper takes none."""
    name = "JDK_JAVA_OPTIONS"
    before = os.environ.get(name)
    os.environ[name] = f"{before} {options}" if before else options
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _tidy(text: Any) -> str:
    return "\n".join(line.rstrip() for line in str(text).strip().split("\n"))


INSTRUCTIONS = """\
You are an agent in a house with a hallway, other rooms and an outside, and solve a task of \
elementary science in it. Answer each observation with one action, on a line of its own and \
nothing after it. OBJ is the name of a thing as you see it; where two have the same name, say \
where it is: "drawer in counter", "orange in inventory".
Actions:
look around: describe the room you are in, with its doors
look at OBJ, look in OBJ, read OBJ: describe a thing, what is in it, what is written on it
inventory: list what you carry
go to ROOM: go through an open door of this room into the next
teleport to ROOM: be in any room at once
open OBJ, close OBJ: a container or a door
pick up OBJ, put down OBJ
move OBJ to OBJ: put a thing into a container or another place
pour OBJ in OBJ, dunk OBJ in OBJ, mix OBJ: liquids, and what is in a container
activate OBJ, deactivate OBJ: turn a device on or off
use OBJ on OBJ: a tool, for example a thermometer, on a thing
connect OBJ to OBJ, disconnect OBJ: electrical parts by their terminals, for example \
"connect battery anode to red wire terminal 1" (a thing that is tested has terminals too)
eat OBJ, flush OBJ
focus on OBJ: say that this is the thing the task is about; the wrong one ends the task
wait, wait1: let ten moments pass, or one
After "Ambiguous request" answer with the number of what you meant."""

_VERBS = (
    "activate",
    "close",
    "connect",
    "deactivate",
    "disconnect",
    "drop",
    "dunk",
    "eat",
    "examine",
    "flush",
    "focus on",
    "get",
    "go",
    "inventory",
    "look",
    "mix",
    "move",
    "open",
    "pick up",
    "pour",
    "put",
    "read",
    "take",
    "task",
    "teleport",
    "turn",
    "use",
    "wait",
    "wait1",
    "walk",
)
_ACTION = re.compile(rf"(?:{'|'.join(_VERBS)})(?:\s|$)|\d+$", re.IGNORECASE)
_LABEL = re.compile(r"(?:next )?action(?: \d+)?\s*:\s*", re.IGNORECASE)
_DECORATION = " \t>*`\"'-"


def extract(answer: str) -> str:
    r"""Return the first action in an answer, without decoration.

    A line marked as the action comes before a line that only looks like one. Without either the
    first line is returned, which the simulator will refuse.

    >>> extract("Thought: it is hot.\nAction: `go to kitchen`.")
    'go to kitchen'
    """
    spaced = (" ".join(line.split()) for line in answer.split("\n"))
    lines = [bare for line in spaced if (bare := line.strip(_DECORATION))]
    labelled = [line[found.end() :] for line in lines if (found := _LABEL.match(line))]
    for line in (*labelled, *lines):
        bare = line.strip(_DECORATION + ".")
        if _ACTION.match(bare):
            return bare
    return (labelled or lines or [""])[0].strip()


_SAME = (
    (re.compile(r"(?:take|get|pick up) "), "pick up "),
    (re.compile(r"(?:drop|put down) "), "put down "),
    (re.compile(r"(?:examine|look at) "), "look at "),
    (re.compile(r"turn on "), "activate "),
    (re.compile(r"turn off "), "deactivate "),
    (re.compile(r"(?:go|walk)(?: to)? "), "go to "),
    (re.compile(r"teleport(?: to)? "), "teleport to "),
    (re.compile(r"look$"), "look around"),
)
_JOINT = re.compile(r" (?:in|on) ")
_ARTICLE = re.compile(r"\b(?:the|an?) ")


def canonical(action: str) -> str:
    """Return one form for actions that mean the same to the simulator.

    >>> canonical("Put the lighter in  sink"), canonical("take lighter")
    ('move lighter to sink', 'pick up lighter')
    """
    plain = _ARTICLE.sub("", " ".join(action.lower().split()))
    for pattern, form in _SAME:
        found = pattern.match(plain)
        if found:
            return form + plain[found.end() :]
    if plain.startswith("put ") and (joints := list(_JOINT.finditer(plain))):
        return f"move {plain[4 : joints[-1].start()]} to {plain[joints[-1].end() :]}"
    return plain


def _examples() -> str:
    folder = importlib.resources.files(__package__)
    return folder.joinpath("scienceworld_examples.txt").read_text(encoding="utf-8").strip()


WORLD = World(
    name="scienceworld",
    make=ScienceWorld,
    instructions=INSTRUCTIONS,
    examples=_examples(),
    splits=functools.partial(read_splits, "scienceworld"),
    extract=extract,
    canonical=canonical,
)
