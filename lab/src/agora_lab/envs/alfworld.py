"""ALFWorld: household tasks described in text, the real games under the lab's protocol."""

import importlib.resources
import re
from collections.abc import Mapping, Sequence

from agora_lab.envs.alfworld_games import Player
from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import read_splits

NAME = "alfworld"
NOTHING = "Nothing happens."
"""The game's reply to a command it cannot follow."""

INSTRUCTIONS = """\
You are in a room of a house and have a task to do with the things in it.
Each message of the user tells you what you see. Answer with one action, on a line of its own.

Actions, in lower case, with the names and numbers as they were told to you:
go to RECEPTACLE
open RECEPTACLE
close RECEPTACLE
take OBJECT from RECEPTACLE
put OBJECT in/on RECEPTACLE
clean OBJECT with RECEPTACLE
heat OBJECT with RECEPTACLE
cool OBJECT with RECEPTACLE
use OBJECT
examine OBJECT
examine RECEPTACLE
inventory
look

For example: go to countertop 1; take mug 2 from countertop 1; put mug 2 in/on coffeemachine 1.
You see what lies in a receptacle when you are at it and it is open. You can hold one object.
You clean with a sinkbasin, heat with a microwave and cool with a fridge, holding the object; \
these need not be opened for it. You look at an object in the light by holding it where a lamp is \
and using the lamp. "Nothing happens." means that the action was not possible."""

_ARRIVAL = re.compile(r"You arrive at loc [0-9]+\. ")
_THING = r"[a-z]+ [0-9]+"
_ACTION = re.compile(
    rf"(?:go to|open|close|use|examine) {_THING}"
    rf"|take {_THING} from {_THING}"
    rf"|put {_THING} (?:in/on|in|on) {_THING}"
    rf"|(?:clean|heat|cool|slice) {_THING} with {_THING}"
    r"|look|inventory"
)
_SAYS = re.compile(r"(?:next )?(?:action|act|command|answer|step)[ 0-9]{0,4}:")
_DECORATION = "`*\"'>-•. "


class AlfWorld:
    """One game at a time. Its texts are the game's, without its banner and location numbers."""

    def __init__(self) -> None:
        self._player = Player()
        self._won = False

    def reset(self, task: str) -> Start:
        """Begin the game with that id."""
        self._won = False
        _, _, feedback = self._player.start(task).partition("\n\n")
        observation, _, goal = feedback.rpartition("\n\n")
        return Start(task=goal.strip(), observation=observation.strip())

    def step(self, action: str) -> Outcome:
        """Perform the action, which must follow the game's grammar."""
        feedback, self._won = self._player.act(action)
        return Outcome(
            observation=without_location(feedback),
            reward=float(self._won),
            terminated=self._won,
            valid=feedback != NOTHING,
        )

    def close(self) -> None:
        """Release the planner's library."""
        self._player.close()


def without_location(feedback: str) -> str:
    """Return the game's reply without the number of the location.

    >>> without_location("You arrive at loc 3. On the desk 1, you see a mug 1.")
    'On the desk 1, you see a mug 1.'
    """
    arrival = _ARRIVAL.match(feedback)
    return feedback[arrival.end() :] if arrival else feedback


def splits() -> Mapping[str, Sequence[str]]:
    """Return the games by split: train, validation (rooms seen in train), test (rooms unseen)."""
    return read_splits(NAME)


def extract(text: str) -> str:
    r"""Return the first action in an answer, in the game's spelling.

    Without one the first line is returned, which the game will refuse. Nothing is corrected.

    >>> extract("Thought: it may be there.\n> Action: Go to desk 1.")
    'go to desk 1'
    """
    lines = [line for line in map(_bare, text.splitlines()) if line]
    return next((line for line in lines if _ACTION.fullmatch(line)), lines[0] if lines else "")


def canonical(action: str) -> str:
    """Return the canonical form of an action.

    >>> canonical("Go to  desk 1.")
    'go to desk 1'
    """
    return _bare(action)


def _bare(line: str) -> str:
    line = " ".join(line.lower().split()).strip(_DECORATION)
    says = _SAYS.match(line)
    return line[says.end() :].strip(_DECORATION) if says else line


def _examples() -> str:
    folder = importlib.resources.files("agora_lab.envs")
    return folder.joinpath("alfworld_examples.txt").read_text(encoding="utf-8").strip()


WORLD = World(
    name=NAME,
    make=AlfWorld,
    instructions=INSTRUCTIONS,
    examples=_examples(),
    splits=splits,
    extract=extract,
    canonical=canonical,
)
