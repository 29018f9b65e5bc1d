"""A run: a folder of episodes that can be stopped at any moment and gone on with.

Each writer has a file of its own and adds whole lines to it, so writers need no
lock and a killed one leaves at most half a line at the end, which is cut off
when the run is opened again. What the run was started with is written down
once; going on with anything else is refused.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

from agora.errors import AgoraError
from agora.lab.episodes.episode import Cell, Episode, Timing

SETTINGS = "settings.json"
_EPISODES = "episodes"
_TIMINGS = "timings"


class RunError(AgoraError):
    """A run that cannot be gone on with."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the run in {self.folder!r} {self.problem}"


class Run:
    """A folder of episodes, and the one file of it that this process writes."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        *,
        writer: str = "0",
        own: bool = False,
    ) -> None:
        """Open a run, or begin it.

        With `own` only this writer's episodes count as there: for many writers
        that someone hands the episodes out to.

        Raises:
            RunError: it was begun with other settings, or another process has this writer's file.
        """
        self._folder = folder
        begin(folder, settings)
        self._episodes = _append(folder / _EPISODES / f"{writer}.jsonl", folder)
        self._timings = _append(folder / _TIMINGS / f"{writer}.jsonl", folder)
        self._done = set(read_keys(folder, writer=writer if own else "*"))

    def __contains__(self, key: str) -> bool:
        return key in self._done

    def __len__(self) -> int:
        return len(self._done)

    def add(self, episode: Episode, timing: Timing) -> None:
        """Write an episode so that it stays whatever happens next.

        Raises:
            RunError: it is there already.
        """
        if episode.key in self:
            raise RunError(str(self._folder), f"has the episode {episode.key!r} already")
        # Its time first: an episode without one would be missing from every rate.
        _write(self._timings, json.dumps(asdict(timing)))
        _write(self._episodes, episode.to_json())
        self._done.add(episode.key)

    def close(self) -> None:
        """Let go of the files."""
        self._episodes.close()
        self._timings.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def begin(folder: Path, settings: Mapping[str, Any]) -> None:
    """Begin a run, or make sure that it is the one that was begun with these settings.

    Raises:
        RunError: it was begun with other settings.
    """
    for part in (_EPISODES, _TIMINGS):
        (folder / part).mkdir(parents=True, exist_ok=True)
    _agree(folder, settings)


def read_episodes(folder: Path) -> Iterator[Episode]:
    """Return the episodes of a run, writer by writer; half a line at an end is passed over."""
    for file in sorted((folder / _EPISODES).glob("*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield Episode.from_json(line)


def read_keys(folder: Path, *, writer: str = "*") -> Iterator[str]:
    """Return the keys of a run's episodes, or of one writer's, not what happened in them.

    A record's cell stands at the beginning of its line and its task at the end,
    so opening a run of a hundred thousand episodes costs reading its files once.
    """
    for file in sorted((folder / _EPISODES).glob(f"{writer}.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield _key(line)


_CELL, _TASK = b'{"cell":', b',"task":'


def _key(line: bytes) -> str:
    end, start = line.find(b"}") + 1, line.rfind(_TASK)
    if not line.startswith(_CELL) or start < 0:
        return Episode.from_json(line).key
    # No name of a cell has a brace in it, and a quote inside a text is escaped: what is found
    # at both ends is the record's own, or it is no JSON and the whole line is read.
    try:
        cell = Cell(**json.loads(line[len(_CELL) : end]))
        task = json.loads(b"{" + line[start + 1 :])["task"]
    except (ValueError, TypeError, KeyError):
        return Episode.from_json(line).key
    return cell.key(str(task))


def read_timings(folder: Path) -> dict[str, Timing]:
    """Return how long each episode of a run took, by its key."""
    found = {}
    for file in sorted((folder / _TIMINGS).glob("*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    values = json.loads(line)
                    values["method_ms"] = tuple(values.get("method_ms", ()))
                    timing = Timing(**values)
                    found[timing.key] = timing
    return found


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what a run was begun with.

    Raises:
        RunError: there is no run in the folder.
    """
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(str(folder), f"has no {SETTINGS} that can be read") from error
    assert isinstance(found, dict)  # noqa: S101
    return found


def _agree(folder: Path, settings: Mapping[str, Any]) -> None:
    wanted = json.loads(json.dumps(settings))
    path = folder / SETTINGS
    text = json.dumps(wanted, indent=1, sort_keys=True) + "\n"
    mine = path.with_name(f"{SETTINGS}.{os.getpid()}")
    mine.write_text(text, encoding="utf-8")
    try:
        # Whole or not at all, and the first writer wins.
        os.link(mine, path)
    except FileExistsError:
        pass
    finally:
        mine.unlink()
    found = read_settings(folder)
    changed = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if changed:
        said = "; ".join(f"{n}: {found.get(n)!r} then, {wanted.get(n)!r} now" for n in changed)
        raise RunError(str(folder), f"was begun with other settings ({said}); use another folder")


def _append(path: Path, folder: Path) -> IO[bytes]:
    file = path.open("ab+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunError(str(folder), f"has another process writing {path.name}") from None
    file.truncate(_whole_lines(file))
    file.seek(0, os.SEEK_END)
    return file


_BLOCK = 1 << 16


def _whole_lines(file: IO[bytes]) -> int:
    """Return how many bytes of a file are whole lines, looking from its end."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write(file: IO[bytes], line: str) -> None:
    file.write(line.encode("utf-8", "surrogatepass") + b"\n")
    file.flush()
    os.fsync(file.fileno())
