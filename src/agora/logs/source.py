"""The JSON records of log files: JSON Lines, or one JSON document, plain or packed (.gz, .xz)."""

import codecs
import gzip
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from agora.logs.recording import Tally

MAX_RECORD_BYTES = 256 << 20
"""A line or a document larger than this is refused: it has to fit into memory."""
_CHUNK_BYTES = 1 << 20
_LINES_WITHOUT_JSON = 1_000
"""After that many lines without JSON, the rest of the file is skipped."""
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".traj", ".log"})
NAMES = tuple(f"*{suffix}" for suffix in sorted(_SUFFIXES))
"""The names of files that may be logs; any of them may be packed."""
_TOO_LARGE = (
    f"is one JSON value of more than {MAX_RECORD_BYTES >> 20} MB; "
    "a log of this size has to be JSON Lines, one smaller value a line"
)
_PACKED = ((b"\x1f\x8b", gzip.open), (b"\xfd7zX", lzma.open))
"""How packed files begin, and what unpacks them."""


@dataclass(slots=True)
class Record:
    """One JSON value, its file and place there, and its size in bytes."""

    value: Any
    where: str
    size: int


def log_files(path: Path, report: Callable[[OSError], None] = lambda _: None) -> Iterator[Path]:
    """Yield `path` if it is a file, or every file below it that is named like a log, in order.

    Folders and files that cannot be read are passed to `report`.
    """
    if not path.is_dir():
        yield path
        return
    named = [
        Path(folder, name)
        for folder, _, names in os.walk(path, onerror=report)
        for name in names
        if Path(name.removesuffix(".gz").removesuffix(".xz")).suffix in _SUFFIXES
    ]
    for file in sorted(named):
        try:
            if file.is_file():
                yield file
        except OSError as error:
            report(error)


def read_records(path: Path, tally: Tally) -> Iterator[Record]:
    """Yield the records of a file: its lines, or the items of the list that it holds.

    A file whose first line is a whole JSON value is read line by line, so a bad line costs only
    itself. Any other file that begins like JSON is parsed as one document.

    Raises:
        OSError: The file cannot be opened or read.
    """
    with path.open("rb") as plain:
        start = plain.read(4)
    unpack = next((opener for magic, opener in _PACKED if start.startswith(magic)), None)
    if unpack is None:
        with path.open("rb") as plain:
            yield from _read(plain, path.name, tally)
        return
    try:
        with unpack(path) as unpacked:
            yield from _read(io.BufferedReader(unpacked, _CHUNK_BYTES), path.name, tally)
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        tally.refuse(path.name, f"the compressed file is damaged or cut off: {error}")


def _read(file: BinaryIO, name: str, tally: Tally) -> Iterator[Record]:
    lines = iter(lambda: file.readline(MAX_RECORD_BYTES + 1), b"")
    first = next(lines, b"").removeprefix(codecs.BOM_UTF8)
    second = next(lines, b"")
    if _is_document(first, more=bool(second.strip())):
        return _document(first + second + file.read(MAX_RECORD_BYTES), name, tally)
    return _lines(chain(filter(None, (first, second)), lines), name, tally)


def _is_document(first: bytes, *, more: bool) -> bool:
    """Return True if the first line is a list, or JSON that the next lines continue."""
    opening = first.lstrip()[:1]
    if opening not in (b"[", b"{"):
        return False
    try:
        json.loads(first)
    except json.JSONDecodeError as error:
        # An error before the end of the line is a damaged line of JSON Lines.
        return more and error.pos >= len(error.doc.rstrip())
    except (ValueError, RecursionError):
        return False
    return opening == b"[" and not more


def _document(data: bytes, name: str, tally: Tally) -> Iterator[Record]:
    tally.bytes_read += len(data)
    if len(data) > MAX_RECORD_BYTES:
        tally.refuse(name, _TOO_LARGE)
        return
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        tally.refuse(name, _problem(error))
        return
    items = value if isinstance(value, list) else [value]
    for number, item in enumerate(items, 1):
        tally.records += 1
        yield Record(item, f"{name}:{number}", len(data) // len(items))


def _lines(lines: Iterator[bytes], name: str, tally: Tally) -> Iterator[Record]:
    found_json = False
    for number, line in enumerate(lines, 1):
        tally.bytes_read += len(line)
        if line.isspace():
            continue
        if len(line) > MAX_RECORD_BYTES:
            tally.refuse(f"{name}:{number}", f"{_TOO_LARGE}; the rest of the file is skipped")
            return
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            tally.refuse(f"{name}:{number}", _problem(error))
            if not found_json and number >= _LINES_WITHOUT_JSON:
                tally.refuse(name, f"none of the first {number} lines is JSON; the rest is skipped")
                return
            continue
        found_json = True
        tally.records += 1
        yield Record(value, f"{name}:{number}", len(line))


def _problem(error: Exception) -> str:
    """Describe why a text is not JSON, without quoting it."""
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON: {error}"
