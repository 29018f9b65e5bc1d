"""ALFWorld's games: unpacked once, and played by TextWorld."""

import hashlib
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from agora import MissingExtraError
from agora_lab.envs.data import DataError, cache_folder, data_file

try:
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
except ImportError as error:
    raise MissingExtraError(__name__, "environments", "agora-lab") from error

ARCHIVE = "alfworld/alfworld_games.tar.xz"
ORIGIN = "the ALFWorld game files, json_2.1.1 (github.com/alfworld/alfworld)"
_GAMES = "json_2.1.1"
_MOST_BYTES = 1_000_000_000
"""Over four times the unpacked size of the archive: anything larger is another archive."""


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
    """Write the files of a game, plain files only, and nothing outside the folder."""
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


class Player:
    """Plays one game at a time; a game can be loaded again and again. For one thread."""

    def __init__(self) -> None:
        self._folder = games_folder()
        self._game: Any = None

    def start(self, task: str) -> str:
        """Load the game with that id; return its opening text.

        Raises:
            DataError: The game does not exist.
        """
        file = self._folder / task / "game.tw-pddl"
        inside = file.resolve().is_relative_to(self._folder.resolve())
        if not inside or not file.is_file():
            raise DataError(
                f"task {task!r}", "is not a game in the archive; see splits/alfworld.json"
            )
        self.close()
        wrappers = [AlfredDemangler(shuffle=False)]
        # The planner's translator parses and replaces the arguments of the process.
        arguments = sys.argv
        try:
            self._game = textworld.start(str(file), textworld.EnvInfos(won=True), wrappers=wrappers)
            return str(self._game.reset().feedback)
        finally:
            sys.argv = arguments

    def act(self, command: str) -> tuple[str, bool]:
        """Perform the command; return the game's reply, and True if the game is won."""
        state, _, _ = self._game.step(command)
        return str(state.feedback), bool(state["won"])

    def close(self) -> None:
        """Release the planner's library."""
        if self._game is not None:
            self._game.close()
            self._game = None
