"""ALFWorld's games: unpacked once, translated once, played by TextWorld.

A game takes seconds to load, because TextWorld runs the planner's translator four
times and parses the grammar of all its texts. Both depend only on the game, so the
translation is cached on disk and the grammar in memory. After each action TextWorld
derives every possible command; here each is derived once. The game logic and its
texts are TextWorld's and ALFWorld's own, and a test checks that both ways of
playing a game agree.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agora import MissingExtraError
from agora_lab.envs.data import DataError, cache_folder, data_file

try:
    import fast_downward
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import logic as pddl_logic
    from textworld.envs.pddl.pddl import PddlEnv
    from textworld.logic import Proposition, Type, Variable
except ImportError as error:
    raise MissingExtraError(__name__, "environments", "agora-lab") from error

ARCHIVE = "alfworld/alfworld_games.tar.xz"
ORIGIN = "the ALFWorld game files, json_2.1.1 (github.com/alfworld/alfworld)"
_GAMES = "json_2.1.1"
_MOST_BYTES = 1_000_000_000
"""Over four times the unpacked size of the archive: anything larger is another archive."""
_TASK = "Your task is to: "
_GOAL = "(the goal)"
"""What stands in the one grammar that is kept where each game has its own goal."""
_FORMAT = 1
"""Changes when what is kept of a translation does."""
_SHOWN = re.compile(r"\{(\w+)")
"""What a command template shows: its conditions hold for every action that can be done."""


def games_folder() -> Path:
    """Return the folder of the unpacked games; the first call unpacks them.

    They are unpacked elsewhere and moved into place atomically, so that no process sees
    half of them, and of two that unpack at once one wins.
    """
    archive = data_file(ARCHIVE, origin=ORIGIN)
    root = cache_folder("alfworld")
    # One folder per archive, so that files of different archives never mix.
    name = f"games-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"
    place = root / name
    if place.is_dir():
        return place / _GAMES
    beside = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
    try:
        _unpack(archive, beside)
        try:
            beside.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return place / _GAMES


def _unpack(archive: Path, folder: Path) -> None:
    """Write what a game needs, plain files only, and nothing outside the folder."""
    total = 0
    with tarfile.open(archive, "r:xz") as packed:
        for member in packed:
            if not member.isfile() or not member.name.endswith("/game.tw-pddl"):
                continue
            total += member.size
            if total > _MOST_BYTES:
                raise DataError(str(archive), f"unpacks to more than {_MOST_BYTES:,} bytes")
            try:
                packed.extract(member, folder, filter="data")
            except tarfile.FilterError as error:
                raise DataError(str(archive), f"has an unsafe member: {error}") from error
    if not (folder / _GAMES).is_dir():
        raise DataError(str(archive), f"has no games under {_GAMES}/")


def playable(folder: Path, split: str) -> tuple[str, ...]:
    """Return the ids of the games of a split that ALFWorld plays, sorted.

    As in ALFWorld itself: no movable receptacles, nothing sliced, and solved before.
    """
    ids: list[str] = []
    for file in sorted((folder / split).glob("*/*/game.tw-pddl")):
        name = file.parent.relative_to(folder).as_posix()
        if "movable" in name or "Sliced" in name:
            continue
        if json.loads(file.read_text(encoding="utf-8")).get("solvable"):
            ids.append(name)
    return tuple(ids)


class Player:
    """Plays one game at a time; a game can be loaded again and again. For one thread."""

    def __init__(self) -> None:
        self._folder = games_folder()
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._game = AlfredDemangler(_Game(infos), shuffle=False)

    def start(self, task: str) -> str:
        """Load the game with that id; return its opening text.

        Raises:
            DataError: the game does not exist.
        """
        file = self._folder / task / "game.tw-pddl"
        inside = file.resolve().is_relative_to(self._folder.resolve())
        if not inside or not file.is_file():
            raise DataError(
                f"task {task!r}", "is not a game in the archive; see splits/alfworld.json"
            )
        self._game.load(str(file))
        return str(self._game.reset().feedback)

    def act(self, command: str) -> tuple[str, bool]:
        """Perform the command; return the game's reply, and whether it is won."""
        state, _, _ = self._game.step(command)
        return str(state.feedback), bool(state["won"])

    def commands(self) -> tuple[str, ...]:
        """Return every command that would do something now, sorted."""
        return tuple(self._game.unwrapped.state["admissible_commands"])

    def close(self) -> None:
        """Release the planner's library. Nothing can be played afterwards."""
        if self._game is not None:
            fast_downward.close_lib(self._game.unwrapped.downward_lib)
            self._game = None


class _Game(PddlEnv):  # type: ignore[misc]
    """TextWorld's game, without rereading what never changes."""

    def __init__(self, infos: Any) -> None:
        super().__init__(infos)
        self._commands: dict[tuple[str, ...], str] = {}
        self._moves = 0

    def load(self, filename_or_data: str) -> None:
        """Read a game file."""
        game: dict[str, str] = json.loads(Path(filename_or_data).read_text(encoding="utf-8"))
        # The grammars of two games differ in one sentence.
        before, _, rest = game["grammar"].partition(_TASK)
        self._goal, quote, after = rest.partition('"')
        self._logic = _logic(game["pddl_domain"], f"{before}{_TASK}{_GOAL}{quote}{after}")
        self._translation = _translated(game["pddl_domain"], game["pddl_problem"])
        self._pddl_state: Any = None
        self._begin()
        self._entity_infos = self._get_entity_infos()

    def reset(self) -> Any:
        """Restart the game."""
        self._begin()
        self.prev_state = None
        self.state = textworld.GameState()
        self._last_action = None
        feedback = self._logic.grammar.derive("#intro#", self._context({}))
        self.state.feedback = feedback.replace(_GOAL, self._goal)
        self.state.raw = self.state.feedback
        self._gather_infos()
        return self.state

    def _begin(self) -> None:
        if self._pddl_state is None or self._moves:
            self._pddl_state = _State(self.downward_lib, self._translation, self._logic)
        self._moves = 0

    def _context(self, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        """Return what a text is derived from."""
        return {
            "state": self._pddl_state,
            "facts": list(self._pddl_state.facts),
            "variables": {p.name: self._entity_infos[v.name] for p, v in mapping.items()},
            "mapping": mapping,
            "entity_infos": self._entity_infos,
        }

    def _gather_infos(self) -> None:
        self.state["won"] = self._pddl_state.check_goal()
        self.state["lost"] = False
        actions = self._pddl_state.all_applicable_actions()
        commands = [self._command(action) for action in actions]
        self.state["_valid_actions"] = actions
        self.state["_valid_commands"] = commands
        self.state["admissible_commands"] = sorted(set(commands))

    def _command(self, action: Any) -> str:
        """Return the command for an action; of two with the same names, in any game, it is one."""
        template = action.command_template
        shown = _SHOWN.findall(template)
        names = {p.name: self._entity_infos[v.name].name for p, v in action.mapping.items()}
        key = (template, *map(names.__getitem__, shown))
        if key not in self._commands:
            derived = self._logic.grammar.derive(template, self._context(action.mapping))
            action.command_template = derived
            self._commands[key] = action.format_command(names)
        return self._commands[key]


class _State(pddl_logic.PddlState):  # type: ignore[misc]
    """The state of a game, from a cached translation."""

    def __init__(self, downward_lib: Any, translation: Mapping[str, Any], logic: Any) -> None:
        self._facts: defaultdict[Any, set[Any]] = defaultdict(set)
        self._vars_by_name: dict[str, Any] = {}
        self._vars_by_type: defaultdict[str, set[Any]] = defaultdict(set)
        self._var_counts: Counter[str] = Counter()
        self._logic = logic
        self.downward_lib = downward_lib
        self.name2type = translation["objects"]
        self._actions = {
            name: SimpleNamespace(
                name=name, parameters=[SimpleNamespace(name=p, type_name=t) for p, t in given]
            )
            for name, given in translation["actions"].items()
        }
        for name, above in translation["types"]:
            with suppress(ValueError):  # The grammar is shared and already has the types.
                logic.types.add(Type(name, above))
        self.add_facts(
            Proposition(name, [Variable(item, self.name2type[item]) for item in items])
            for name, items in translation["facts"]
        )
        downward_lib.load_sas(translation["sas"].encode())
        atoms = (pddl_logic.Atom * downward_lib.get_state_size())()
        downward_lib.get_state(atoms)
        facts = (atom.get_fact(self.name2type) for atom in atoms)
        self.add_facts([fact for fact in facts if not fact.is_negation])


@lru_cache(maxsize=1)
def _logic(domain: str, grammar: str) -> Any:
    return pddl_logic.GameLogic(domain=domain, grammar=grammar)


def _translated(domain: str, problem: str) -> Mapping[str, Any]:
    """Return a game in the planner's form, from the cache if it was translated before."""
    said = f"{_FORMAT}\0{version('fast-downward-textworld')}\0{domain}\0{problem}"
    key = hashlib.sha256(said.encode()).hexdigest()
    folder = cache_folder("alfworld/translations")
    file = folder / f"{key[:32]}.json.z"
    try:
        found: dict[str, Any] = json.loads(zlib.decompress(file.read_bytes()))
    except (OSError, ValueError, zlib.error):
        found = _translate(domain, problem)
        packed = zlib.compress(json.dumps(found).encode(), 6)
        # Written elsewhere and moved, so that a reader sees all of it or nothing.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as beside:
            beside.write(packed)
        os.replace(beside.name, file)
    return found


def _translate(domain: str, problem: str) -> dict[str, Any]:
    # The translator parses and replaces the arguments of the process.
    arguments = sys.argv
    try:
        task, sas = fast_downward.pddl2sas(domain, problem)
    finally:
        sys.argv = arguments
    return {
        "sas": sas,
        "objects": {item.name: item.type_name for item in task.objects},
        "types": [(kind.name, list(kind.supertype_names)) for kind in task.types],
        "actions": {
            action.name: [(item.name, item.type_name) for item in action.parameters]
            for action in task.actions
        },
        "facts": [
            (atom.predicate, list(atom.args))
            for atom in task.init
            if getattr(atom, "predicate", "=") != "="
        ],
    }
