"""Logs in the shapes people have, read as recordings of trajectories."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from agora.adapters.rules.shape import kind_of
from agora.errors import UnknownFormatError
from agora.replay.logs.recording import Bad, Recording, Tally
from agora.replay.logs.sniff import KINDS, LOOKED_AT, sniff
from agora.replay.logs.source import Record, log_files, read_records

__all__ = ["KINDS", "Bad", "Recording", "Tally", "log_files", "read_logs"]


def read_logs(
    paths: Iterable[Path], tally: Tally, *, kind: str | None = None
) -> Iterator[Recording]:
    """Return the trajectories in log files, one at a time, in bounded memory.

    A folder stands for every log below it. The kind of each file is told by
    its first records, or given as `kind`, one of `KINDS`. What cannot be read
    never raises: it is put down in `tally`, which is filled as the recordings
    are taken. A trajectory is looked for within one file.

    Raises:
        UnknownFormatError: there is no such kind.
    """
    if kind is not None and kind not in KINDS:
        raise UnknownFormatError(f"there is no kind of log called {kind!r}", tuple(KINDS))
    return _read(paths, tally, kind)


def _read(paths: Iterable[Path], tally: Tally, kind: str | None) -> Iterator[Recording]:
    for path in chain.from_iterable(map(log_files, paths)):
        tally.files += 1
        try:
            for recording in _read_file(path, tally, kind):
                tally.recordings += 1
                yield recording
        except OSError as error:
            tally.refuse(str(path), f"cannot be read: {error.strerror or error}")


def _read_file(path: Path, tally: Tally, kind: str | None) -> Iterator[Recording]:
    records = read_records(path, tally)
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
    yield from KINDS[kind].read(chain(head, records), path.name, tally)


def _unknown(record: Record) -> str:
    """Return what is said of a file that opens with this record and is of no known kind."""
    found = kind_of(record.value)
    if isinstance(record.value, dict):
        found += " with " + ", ".join(key[:40] for key in islice(record.value, 8))
    return f"is {found}: no kind of log that is known; the kinds are {', '.join(KINDS)}"
