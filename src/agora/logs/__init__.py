"""Logs in the shapes people have, read as recordings of trajectories."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from agora.errors import UnknownFormatError
from agora.formats.base import kind_of
from agora.formats.usage import Usage
from agora.logs.answers import read_answer
from agora.logs.kinds import KINDS, Reader, detect_kind
from agora.logs.moments import Moment, moments_of
from agora.logs.recording import Bad, Recording, Tally
from agora.logs.source import NAMES, Record, log_files, read_records

__all__ = [
    "KINDS",
    "NAMES",
    "Bad",
    "Moment",
    "Reader",
    "Recording",
    "Tally",
    "Usage",
    "detect_kind",
    "log_files",
    "moments_of",
    "read_answer",
    "read_logs",
    "read_one",
]

_LOOKED_AT = 64
"""Records of a file that are looked at before it is refused: logs may begin with events."""


def read_logs(
    paths: Iterable[Path],
    tally: Tally,
    *,
    kind: str | None = None,
    kinds: Mapping[str, Reader] = KINDS,
) -> Iterator[Recording]:
    """Yield the trajectories in log files one at a time, in bounded memory.

    A folder stands for every log below it. Each file's kind is detected from its first records
    unless `kind` names one. Records that cannot be read never raise: they are counted in `tally`,
    which is filled while the recordings are taken.

    Raises:
        UnknownFormatError: There is no such kind.
    """
    if kind is not None and kind not in kinds:
        raise UnknownFormatError(f"there is no kind of log called {kind!r}", tuple(kinds))
    return _read(paths, tally, kind, kinds)


def read_one(
    paths: Iterable[Path], tally: Tally, *, index: int | None = None
) -> tuple[Recording | None, int]:
    """Return one trajectory out of logs, and how many trajectories there are.

    `index` counts from 0 and may be left out if there is only one. The recording is None if there
    are none, or none at this index, or several and no index.
    """
    found: Recording | None = None
    count = 0
    for recording in read_logs(paths, tally):
        if count == (index or 0):
            found = recording
        count += 1
    return (None if index is None and count > 1 else found), count


def _read(
    paths: Iterable[Path], tally: Tally, kind: str | None, kinds: Mapping[str, Reader]
) -> Iterator[Recording]:
    def report(error: OSError) -> None:
        tally.refuse(str(error.filename), f"cannot be read: {error.strerror or error}")

    for path in paths:
        number = 0
        for file in log_files(path, report):
            tally.files += 1
            try:
                for recording in _read_file(file, tally, kind, kinds):
                    tally.recordings += 1
                    yield replace(recording, path=str(path), number=number)
                    number += 1
            except OSError as error:
                where = error.filename or file
                tally.refuse(str(where), f"cannot be read: {error.strerror or error}")


def _read_file(
    file: Path, tally: Tally, kind: str | None, kinds: Mapping[str, Reader]
) -> Iterator[Recording]:
    records = read_records(file, tally)
    head: list[Record] = []
    while kind is None and len(head) < _LOOKED_AT:
        first = next(records, None)
        if first is None:
            break
        head.append(first)
        kind = detect_kind(first.value, kinds)
    if kind is not None:
        yield from kinds[kind].read(chain(head, records), file.name, tally)
    elif head:
        tally.refuse(head[0].where, _unknown(head[0].value, kinds))


def _unknown(value: object, kinds: Iterable[str]) -> str:
    """Return the reason to refuse a file with a first record of no known kind."""
    shape = kind_of(value)
    if isinstance(value, dict):
        shape += " with " + ", ".join(str(key)[:40] for key in islice(value, 8))
    return f"is {shape}: not a kind of log that is known; the kinds are {', '.join(kinds)}"
