"""Logs in the shapes people have, read as recordings of trajectories."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from agora.adapters.rules.shape import kind_of
from agora.errors import UnknownFormatError
from agora.logs.recording import Bad, Compaction, Recording, Tally
from agora.logs.sniff import KINDS, LOOKED_AT, sniff
from agora.logs.source import NAMES, Log, Record, log_files, logs_in, read_records
from agora.logs.usage import Usage

__all__ = [
    "KINDS",
    "NAMES",
    "Bad",
    "Compaction",
    "Recording",
    "Tally",
    "Usage",
    "log_files",
    "read_logs",
    "read_one",
]


def read_logs(
    paths: Iterable[Path], tally: Tally, *, kind: str | None = None
) -> Iterator[Recording]:
    """Return the trajectories in log files, one at a time, in bounded memory.

    A folder stands for every log below it. The kind of each log is detected from
    its first records, or given as `kind`, one of `KINDS`. What cannot be read
    never raises: it is put down in `tally`, which is filled as the recordings
    are taken. A trajectory is looked for within one file, or within one folder
    where an agent writes a file for each message or event.

    Raises:
        UnknownFormatError: there is no such kind.
    """
    if kind is not None and kind not in KINDS:
        raise UnknownFormatError(f"there is no kind of log called {kind!r}", tuple(KINDS))
    return _read(paths, tally, kind)


def read_one(
    paths: Iterable[Path], tally: Tally, *, index: int | None = None, kind: str | None = None
) -> tuple[Recording | None, int]:
    """Return one trajectory out of logs, and how many there are.

    Without an `index`, which counts from 0, it is the only one; None if there are
    none, more than one, or none at this place.

    Raises:
        UnknownFormatError: there is no such kind.
    """
    found: Recording | None = None
    count = 0
    for recording in read_logs(paths, tally, kind=kind):
        if count == (index or 0):
            found = recording
        count += 1
    return (None if index is None and count > 1 else found), count


def _read(paths: Iterable[Path], tally: Tally, kind: str | None) -> Iterator[Recording]:
    def refuse(error: OSError) -> None:
        tally.refuse(str(error.filename), f"cannot be read: {error.strerror or error}")

    for path in paths:
        number = 0
        for log in logs_in(path, refuse):
            tally.files += len(log.files)
            try:
                for recording in _read_log(log, tally, kind):
                    tally.recordings += 1
                    yield replace(recording, path=str(path), number=number)
                    number += 1
            except OSError as error:
                where = error.filename or log.files[0]
                tally.refuse(str(where), f"cannot be read: {error.strerror or error}")


def _read_log(log: Log, tally: Tally, kind: str | None) -> Iterator[Recording]:
    records = chain.from_iterable(read_records(file, tally) for file in log.files)
    head: list[Record] = []
    while kind is None and len(head) < LOOKED_AT:
        first = next(records, None)
        if first is None:
            break
        head.append(first)
        kind = sniff([first.value])
    if kind is None:
        if head:
            tally.refuse(head[0].where, _unknown(head[0]))
        return
    yield from KINDS[kind].read(chain(head, records), log.name, tally)


def _unknown(record: Record) -> str:
    """Return what is said of a file that opens with this record and is of no known kind."""
    found = kind_of(record.value)
    if isinstance(record.value, dict):
        found += " with " + ", ".join(key[:40] for key in islice(record.value, 8))
    return f"is {found}: no kind of log that is known; the kinds are {', '.join(KINDS)}"
