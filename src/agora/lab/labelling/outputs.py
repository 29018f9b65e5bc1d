"""The folder a run writes: one run at a time, one configuration, every answer once.

`answers/` holds finished Parquet files and nothing else: whoever reads it, at
any time, finds whole files and no answer twice. Files get there in three steps,
so that a process may die at any moment:

1. An answer is added to a journal as soon as it is there, one line each, before
   the next is asked for. A killed process loses what was under way and no more.
2. Blocks of answers are written to `landing/` by Ray Data, under its two-phase
   commit: a file counts when a checkpoint says so that was renamed after it.
3. The one process that holds the lock copies files that count into `answers/`,
   leaves out rows that are there already, and then lets go of their journals.

Every run lands in a folder of its own, and its successor renames that folder
before it reads it. Processes of a run that died, and do not know it yet, can
then neither finish a file nor go on asking.
"""

import fcntl
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from agora.errors import AgoraError, MissingExtraError

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise MissingExtraError(__name__, "lab") from error

SETTINGS, LOCK, FAILURES = "settings.json", "lock", "failures.jsonl"
_PENDING = ".pending.parquet"


class OutputError(AgoraError):
    """A folder that a run cannot write to."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the output {self.folder!r} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """The folders of one run on the way to `answers/`. Workers know these and no others."""

    folder: str
    earlier: str
    """Journals of runs before this one."""

    @property
    def data(self) -> str:
        """Where Ray Data writes blocks of answers."""
        return f"{self.folder}/data"

    @property
    def checkpoint(self) -> str:
        """Where Ray Data says which of them count."""
        return f"{self.folder}/checkpoint"

    @property
    def journal(self) -> str:
        """Where each asker adds what it heard."""
        return f"{self.folder}/journal"

    @property
    def told(self) -> str:
        """Where each asker tells how far it is, and what failed."""
        return f"{self.folder}/told"

    @property
    def going(self) -> str:
        """A file that is there as long as the run is to go on asking."""
        return f"{self.folder}/going"

    def is_going(self) -> bool:
        """Tell whether more may be asked: neither stopped nor followed by another run."""
        return os.path.exists(self.going)


class Output:
    """An output folder, held by this process until it is closed."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], planned: int) -> None:
        """Take the folder, and put in order what an earlier run left in it.

        Raises:
            OutputError: another run has it, or it was begun with other settings.
        """
        self.folder = folder
        self.answers = folder / "answers"
        self.done = np.zeros(planned, dtype=bool)
        """Which asks of the plan have their answer, by their place in it."""
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)
        try:
            _agree(folder, settings)
            self.answers.mkdir(exist_ok=True)
            self._earlier = folder / "journal"
            self._earlier.mkdir(exist_ok=True)
            self._read_done()
            self._take_over()
            self.landing = self._new_landing()
        except BaseException:
            self._lock.close()
            raise

    def seal(self) -> int:
        """Bring what has landed into `answers/`; return how many answers that were."""
        return self._seal(Path(self.landing.folder))

    def forget_journals(self, starts: Sequence[int]) -> None:
        """Remove the journals of blocks whose answers are all in `answers/`.

        `starts` are where the plan's blocks begin, and its end.
        """
        for folder in (self._earlier, Path(self.landing.journal)):
            for journal in folder.glob("*.jsonl"):
                start = int(journal.name.partition("-")[0])
                place = int(np.searchsorted(starts, start, side="right"))
                stop = starts[place] if place < len(starts) else len(self.done)
                if self.done[start:stop].all():
                    journal.unlink(missing_ok=True)

    def stop(self) -> None:
        """Have the askers finish what they have begun and ask no more."""
        Path(self.landing.going).unlink(missing_ok=True)

    def finish(self) -> None:
        """Seal what is left after the workers have ended, and clear the landing away."""
        self.stop()
        folder = Path(self.landing.folder)
        self._absorb(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_done(self) -> None:
        for stray in self.answers.glob("*.draft"):
            stray.unlink()
        for file in sorted(self.answers.glob("*.parquet")):
            try:
                order = pq.read_table(file, columns=["order"])["order"].to_numpy()
            except (OSError, pa.ArrowException) as error:
                raise OutputError(
                    str(self.folder),
                    f"has a damaged file, answers/{file.name} ({error}); "
                    "remove it, and its answers are asked for again",
                ) from error
            if self.done[order].any() or len(np.unique(order)) != len(order):
                raise OutputError(
                    str(self.folder), f"has answers twice, the second time in answers/{file.name}"
                )
            self.done[order] = True

    def _take_over(self) -> None:
        """Fence off what earlier runs left, then keep what counts of it."""
        landing = self.folder / "landing"
        # Those first that a run fenced off and did not come to read.
        for folder in (*landing.glob("*.fenced"), *landing.glob("[0-9]*[0-9]")):
            fenced = folder
            if folder.suffix != ".fenced":
                fenced = folder.rename(folder.with_name(f"{folder.name}.fenced"))
            self._absorb(fenced)
            shutil.rmtree(fenced, ignore_errors=True)

    def _absorb(self, folder: Path) -> None:
        self._seal(folder)
        for journal in (folder / "journal").glob("*.jsonl"):
            journal.rename(self._earlier / journal.name)

    def _new_landing(self) -> Landing:
        # The name is new even if a process of a dead run makes its folder again.
        folder = self.folder.resolve() / "landing" / f"{time.time_ns():020d}"
        landing = Landing(folder=str(folder), earlier=str(self._earlier.resolve()))
        for part in (landing.data, landing.checkpoint, landing.journal, landing.told):
            Path(part).mkdir(parents=True)
        Path(landing.going).touch()
        return landing

    def _seal(self, folder: Path) -> int:
        checkpoints = folder / "checkpoint"
        if not checkpoints.is_dir():
            return 0
        sealed = 0
        for checkpoint in sorted(checkpoints.glob("*.parquet")):
            name = checkpoint.name.removesuffix(".parquet")
            if name.endswith(".pending") or (checkpoints / f"{name}{_PENDING}").exists():
                # Not finished, or being written anew by a worker that follows a dead one.
                continue
            sealed += self._keep(name, checkpoint, folder / "data")
        return sealed

    def _keep(self, name: str, checkpoint: Path, data: Path) -> int:
        """Bring the rows of a landed block that are new into a file of their own."""
        kept = 0
        table = _landed(name, checkpoint, data)
        # Without the data that a checkpoint promises a worker died while it wrote a block for the
        # second time. The journal still has its answers.
        if table is not None:
            order = table["order"].to_numpy()
            new = ~self.done[order]
            # Of two rows in one block the first stands.
            again = np.ones(len(order), dtype=bool)
            again[np.unique(order, return_index=True)[1]] = False
            new &= ~again
            kept = int(new.sum())
            if kept:
                whole = table if kept == len(order) else table.filter(pa.array(new))
                _write_whole(
                    whole, self.answers / f"{order[new].min():012d}-{time.time_ns()}.parquet"
                )
                self.done[order[new]] = True
        for file in data.glob(f"{name}-*.parquet"):
            file.unlink(missing_ok=True)
        checkpoint.unlink(missing_ok=True)
        return kept


class Journal:
    """A file of answers that one asker adds to, line by line; half a line is never left in it."""

    def __init__(self, landing: Landing, start: int, writer: str) -> None:
        path = f"{landing.journal}/{start:012d}-{writer}.jsonl"
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._bytes = os.fstat(self._handle).st_size
        self._open = threading.Lock()

    def add(self, line: bytes) -> None:
        """Write a line so that it stays when the process is killed.

        Raises:
            OSError: there is no room, and nothing of the line was left.
        """
        data = line + b"\n"
        written = 0
        try:
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError:
            os.ftruncate(self._handle, self._bytes)
            raise
        self._bytes += len(data)

    def sync(self) -> None:
        """Have what was added so far stay when the machine loses its power. Any thread may call."""
        with self._open:
            if self._handle >= 0:
                os.fdatasync(self._handle)

    def close(self) -> None:
        """Let go of the file."""
        with self._open:
            os.close(self._handle)
            self._handle = -1


def journalled(folder: str, start: int) -> Iterator[bytes]:
    """Return the lines that askers wrote for a block into the journals of a folder."""
    for path in sorted(Path(folder).glob(f"{start:012d}-*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                # Half a line is the end of an asker that was killed.
                if line.endswith(b"\n"):
                    yield line


def _landed(name: str, checkpoint: Path, data: Path) -> pa.Table | None:
    """Return the rows of a block that Ray Data committed, or None if they are not all there."""
    try:
        promised = pq.read_metadata(checkpoint).num_rows
        # The whole name and a dash: Ray itself looks for a prefix only, and block 1000000 of a run
        # begins like block 100000.
        files = sorted(data.glob(f"{name}-*.parquet"))
        table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    except (OSError, ValueError, pa.ArrowException):
        return None
    return table if table.num_rows == promised else None


def _write_whole(table: pa.Table, path: Path) -> None:
    """Write a file that is there whole, and stays, or not at all."""
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _locked(folder: Path) -> IO[str]:
    """Return the lock of a folder, held: the system lets go of it when the process ends."""
    file = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        who = file.read().strip() or "another process"
        file.close()
        raise OutputError(
            str(folder), f"is being written by {who}; wait for it, or use another folder"
        ) from None
    file.truncate(0)
    when = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    file.write(f"process {os.getpid()} on {socket.gethostname()}, since {when}\n")
    file.flush()
    return file


def _agree(folder: Path, settings: Mapping[str, Any]) -> None:
    wanted = json.loads(json.dumps(settings))
    path = folder / SETTINGS
    if not path.exists():
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(wanted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        draft.replace(path)
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(str(folder), f"has no {SETTINGS} that can be read: {error}") from error
    changed = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if changed:
        said = "; ".join(f"{n}: {found.get(n)!r} then, {wanted.get(n)!r} now" for n in changed)
        raise OutputError(
            str(folder), f"was begun with other settings ({said}); use another folder"
        )
