"""The output folder of a run: one run at a time, one configuration, every answer exactly once.

`answers/` holds only finished Parquet files: a reader finds whole files and no
duplicate answers at any time. Files get there in three steps, so that a process
may die at any moment:

1. Each answer is appended to a journal as soon as it arrives, before the next
   question is asked. A killed process loses only the calls in flight.
2. Ray Data writes blocks of answers to `landing/` with its two-phase commit: a
   file counts once a checkpoint, renamed after it, says so.
3. The process that holds the lock copies committed files into `answers/`, drops
   rows that are already there, and then removes their journals.

Every run lands in its own folder, and its successor renames that folder before
reading it. Leftover processes of a dead run can then neither finish a file nor
keep asking.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agora.errors import AgoraError
from agora_lab.journal import Journal, read_lines

SETTINGS, LOCK, FAILURES = "settings.json", "lock", "failures.jsonl"
_PENDING = ".pending.parquet"


class OutputError(AgoraError):
    """An output folder that a run cannot use."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the output {self.folder!r} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """The staging folders of one run; workers know these and no others."""

    folder: str
    earlier: str
    """Journals of runs before this one."""

    @property
    def data(self) -> str:
        """Where Ray Data writes blocks of answers."""
        return f"{self.folder}/data"

    @property
    def checkpoint(self) -> str:
        """Where Ray Data records which of them are committed."""
        return f"{self.folder}/checkpoint"

    @property
    def journal(self) -> str:
        """Where each asker appends its answers."""
        return f"{self.folder}/journal"

    @property
    def status(self) -> str:
        """Where each asker reports its progress and failures."""
        return f"{self.folder}/status"

    @property
    def going(self) -> str:
        """A file that exists as long as the run should keep asking."""
        return f"{self.folder}/going"

    def is_going(self) -> bool:
        """Whether to keep asking: neither stopped nor superseded by another run."""
        return os.path.exists(self.going)


class Output:
    """An output folder, locked by this process until it is closed."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], planned: int) -> None:
        """Lock the folder, and clean up after an earlier run.

        Raises:
            OutputError: another run holds it, or it was started with other settings.
        """
        self.folder = folder
        self.answers = folder / "answers"
        self.done = np.zeros(planned, dtype=bool)
        """Which asks of the plan have an answer, by their place in it."""
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
        """Move landed answers into `answers/`; return how many there were."""
        return self._seal(Path(self.landing.folder))

    def forget_journals(self, starts: Sequence[int]) -> None:
        """Remove the journals of blocks whose answers are all in `answers/`.

        `starts` are the starts of the plan's blocks, and the plan's end.
        """
        for folder in (self._earlier, Path(self.landing.journal)):
            for journal in folder.glob("*.jsonl"):
                start = int(journal.name.partition("-")[0])
                place = int(np.searchsorted(starts, start, side="right"))
                stop = starts[place] if place < len(starts) else len(self.done)
                if self.done[start:stop].all():
                    journal.unlink(missing_ok=True)

    def stop(self) -> None:
        """Have the askers finish the calls in flight and ask no more."""
        Path(self.landing.going).unlink(missing_ok=True)

    def finish(self) -> None:
        """Seal what is left once the workers have ended, and remove the landing folder."""
        self.stop()
        folder = Path(self.landing.folder)
        self._absorb(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Unlock the folder."""
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
                    "remove it to ask for its answers again",
                ) from error
            if self.done[order].any() or len(np.unique(order)) != len(order):
                raise OutputError(
                    str(self.folder),
                    f"has duplicate answers in answers/{file.name}; remove that file",
                )
            self.done[order] = True

    def _take_over(self) -> None:
        """Fence off what earlier runs left, then keep what they committed."""
        landing = self.folder / "landing"
        # First the folders that a run fenced off but never read.
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
        # A fresh name, even if a process of a dead run recreates its folder.
        folder = self.folder.resolve() / "landing" / f"{time.time_ns():020d}"
        landing = Landing(folder=str(folder), earlier=str(self._earlier.resolve()))
        for part in (landing.data, landing.checkpoint, landing.journal, landing.status):
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
                # Unfinished, or being rewritten by a worker that replaces a dead one.
                continue
            sealed += self._keep(name, checkpoint, folder / "data")
        return sealed

    def _keep(self, name: str, checkpoint: Path, data: Path) -> int:
        """Write the new rows of a landed block to a file of their own."""
        kept = 0
        table = _landed(name, checkpoint, data)
        # If the data that a checkpoint promises is missing, a worker died while rewriting the
        # block. The journal still has its answers.
        if table is not None:
            order = table["order"].to_numpy()
            new = ~self.done[order]
            # Of two rows for one ask in a block, the first wins.
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


def journal_of(landing: Landing, start: int, writer: str) -> Journal:
    """Return the journal to which an asker appends the answers of a block."""
    return Journal(Path(f"{landing.journal}/{start:012d}-{writer}.jsonl"))


def journalled(folder: str, start: int) -> Iterator[bytes]:
    """Return the lines of a block in the journals of a folder."""
    for path in sorted(Path(folder).glob(f"{start:012d}-*.jsonl")):
        yield from read_lines(path)


def _landed(name: str, checkpoint: Path, data: Path) -> pa.Table | None:
    """Return the rows of a block that Ray Data committed, or None if any are missing."""
    try:
        promised = pq.read_metadata(checkpoint).num_rows
        # The whole name and a dash: Ray itself matches a prefix only, and the name of block
        # 1000000 starts with that of block 100000.
        files = sorted(data.glob(f"{name}-*.parquet"))
        table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    except (OSError, ValueError, pa.ArrowException):
        return None
    return table if table.num_rows == promised else None


def _write_whole(table: pa.Table, path: Path) -> None:
    """Write a file atomically and durably."""
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
    """Return the acquired lock of a folder; the system releases it when the process ends."""
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
        raise OutputError(str(folder), f"has no readable {SETTINGS}: {error}") from error
    changed = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if changed:
        said = "; ".join(f"{n}: {found.get(n)!r} then, {wanted.get(n)!r} now" for n in changed)
        raise OutputError(
            str(folder), f"was started with other settings ({said}); use another folder"
        )
