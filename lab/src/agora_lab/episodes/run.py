"""A run: a folder of episodes that can be stopped at any moment and resumed.

Each writer appends whole lines to its own file, so writers do not wait for each
other. The settings are recorded once, and a run cannot be resumed with others.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from agora.errors import AgoraError
from agora_lab.episodes.episode import Cell, Episode, Timing
from agora_lab.journal import BusyError, Journal, read_lines

SETTINGS = "settings.json"
_EPISODES = "episodes"
_TIMINGS = "timings"


class RunError(AgoraError):
    """A run that cannot be resumed."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the run in {self.folder!r} {self.problem}"


class Run:
    """A folder of episodes, and the one file in it that this process writes."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        *,
        writer: str = "0",
        own: bool = False,
    ) -> None:
        """Open a run, or begin it.

        With `own`, only this writer's episodes count as present: for writers that are
        handed their episodes by a coordinator.

        Raises:
            RunError: it was started with other settings, or another process holds this file.
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
        """Append an episode durably.

        Raises:
            RunError: the episode exists already.
        """
        if episode.key in self:
            raise RunError(str(self._folder), f"already has the episode {episode.key!r}")
        # The timing first: an episode without one would be missing from every rate.
        _write(self._timings, json.dumps(asdict(timing)))
        _write(self._episodes, episode.to_json())
        self._done.add(episode.key)

    def close(self) -> None:
        """Close the files."""
        self._episodes.close()
        self._timings.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def begin(folder: Path, settings: Mapping[str, Any]) -> None:
    """Begin a run, or check that it was started with these settings.

    Raises:
        RunError: it was started with other settings.
    """
    for part in (_EPISODES, _TIMINGS):
        (folder / part).mkdir(parents=True, exist_ok=True)
    _agree(folder, settings)


def read_episodes(folder: Path) -> Iterator[Episode]:
    """Return the episodes of a run, writer by writer; an incomplete last line is skipped."""
    for file in sorted((folder / _EPISODES).glob("*.jsonl")):
        yield from map(Episode.from_json, read_lines(file))


def read_keys(folder: Path, *, writer: str = "*") -> Iterator[str]:
    """Return the keys of a run's episodes, or of one writer's, without parsing the episodes.

    A record's cell is at the start of its line and its task at the end, so opening a
    run of a hundred thousand episodes costs one read of its files.
    """
    for file in sorted((folder / _EPISODES).glob(f"{writer}.jsonl")):
        yield from map(_key, read_lines(file))


_CELL, _TASK = b'{"cell":', b',"task":'


def _key(line: bytes) -> str:
    end, start = line.find(b"}") + 1, line.rfind(_TASK)
    if not line.startswith(_CELL) or start < 0:
        return Episode.from_json(line).key
    # No cell name contains a brace, and quotes inside text are escaped: what is found
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
        for line in read_lines(file):
            values = json.loads(line)
            values["method_ms"] = tuple(values.get("method_ms", ()))
            timing = Timing(**values)
            found[timing.key] = timing
    return found


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings a run was started with.

    Raises:
        RunError: there is no run in the folder.
    """
    try:
        found = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(str(folder), f"has no readable {SETTINGS}") from error
    assert isinstance(found, dict)  # noqa: S101
    return found


def _agree(folder: Path, settings: Mapping[str, Any]) -> None:
    wanted = json.loads(json.dumps(settings))
    path = folder / SETTINGS
    text = json.dumps(wanted, indent=1, sort_keys=True) + "\n"
    mine = path.with_name(f"{SETTINGS}.{os.getpid()}")
    mine.write_text(text, encoding="utf-8")
    try:
        # Atomic, and the first writer wins.
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
        raise RunError(str(folder), f"was started with other settings ({said}); use another folder")


def _append(path: Path, folder: Path) -> Journal:
    try:
        return Journal(path)
    except BusyError:
        raise RunError(str(folder), f"has {path.name} open in another process") from None


def _write(journal: Journal, line: str) -> None:
    journal.add(line.encode("utf-8", "surrogatepass"))
    journal.sync()
