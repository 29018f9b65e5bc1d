"""The JSON records of a file, one at a time, however large the file is.

A file may hold one value per line, one array of values, values one after the
other over many lines, or be an archive of JSON files; it may be compressed.
None of this is told by its name. Agents that write a file for each event or
message, or into a database, are read as if they wrote lines. What cannot be
parsed is put down in the tally and reading goes on behind it.
"""

import codecs
import gzip
import io
import json
import lzma
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agora.logs.recording import Tally

MAX_RECORD_BYTES = 64 << 20
"""A record larger than this is bad: records are what has to fit into memory."""
_CHUNK_BYTES = 1 << 20
_HOPELESS = 1_000
"""After so many lines without one that is JSON, the rest of the file is not tried."""
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".traj", ".eval", ".log"})
NAMES = (*(f"*{suffix}" for suffix in sorted(_SUFFIXES)), "opencode*.db")
"""What files that may be logs are called; any of them may be compressed, .gz or .xz."""
_GAP = re.compile(r"[ \t\r\n]*")
_PARTS = ("samples/", "header.json")
_EVENT = re.compile(r"event-\d{1,12}-[0-9A-Fa-f-]+\.json")
_STATE = "base_state.json"
_DATABASE = re.compile(r"opencode.*\.db")


@dataclass(slots=True)
class Record:
    """One JSON value, where it stood, and how many bytes it took."""

    value: Any
    where: str
    size: int


@dataclass(frozen=True, slots=True)
class Log:
    """The files that are read as one log, most often one file."""

    name: str
    files: tuple[Path, ...]


def logs_in(path: Path, refuse: Callable[[OSError], None] = lambda _: None) -> Iterator[Log]:
    """Return the file at `path` as a log, or in a folder every log below it.

    By their names are known: files that may be logs, and the folders in which
    OpenHands and opencode write a file for each event, message or part. What may
    not be looked at below a folder is reported to `refuse`, and passed over.
    """
    if not path.is_dir():
        yield Log(path.name, (path,))
        return
    seen: set[Path] = set()
    for found in _named_like_logs(path, refuse):
        folder = found.parent
        if _EVENT.fullmatch(found.name):
            if folder not in seen:
                seen.add(folder)
                yield _events(folder)
        elif folder.parent.name == "message" and found.name.startswith("msg_"):
            if folder not in seen:
                seen.add(folder)
                yield _session(folder)
        elif not _belongs_to_another(found):
            yield Log(found.name, (found,))


def _named_like_logs(path: Path, refuse: Callable[[OSError], None]) -> Iterator[Path]:
    """Return the files below a folder that by their names may be of a log, in order."""
    named = [
        Path(folder, name)
        for folder, _, names in os.walk(path, onerror=refuse)
        for name in names
        if _may_be_log(name)
    ]
    for found in sorted(named):
        try:
            if found.is_file():
                yield found
        except OSError as error:
            refuse(error)


def log_files(path: Path) -> Iterator[Path]:
    """Return `path`, or in a folder every file below it that by its name may be of a log."""
    for log in logs_in(path):
        yield from log.files


def _may_be_log(name: str) -> bool:
    suffixes = Path(name).suffixes[-2:]
    if suffixes and suffixes[-1] in (".gz", ".xz"):
        suffixes.pop()
    if not suffixes:
        return False
    return suffixes[-1] in _SUFFIXES or _DATABASE.fullmatch(name) is not None


def _belongs_to_another(found: Path) -> bool:
    """Tell whether a file is read with the log of another: a part, or the state of events."""
    folder = found.parent
    if found.name == _STATE:
        return (folder / "events").is_dir()
    # opencode's session/<project>/ses_….json holds nothing that was sent.
    below = {"part": "prt_", "session": "ses_"}.get(folder.parent.name, "/")
    return found.name.startswith(below) and (folder.parent.parent / "message").is_dir()


def _events(folder: Path) -> Log:
    """Return OpenHands' events, the state of the conversation before them."""
    state = folder.parent / _STATE
    events = [file for file in folder.iterdir() if _EVENT.fullmatch(file.name)]
    events.sort(key=lambda file: int(file.name.split("-")[1]))
    before = (state,) if state.is_file() else ()
    return Log(folder.parent.name if before else folder.name, (*before, *events))


def _session(folder: Path) -> Log:
    """Return one of opencode's sessions: its messages, each with its parts."""
    files: list[Path] = []
    for message in sorted(folder.glob("msg_*.json")):
        files.append(message)
        files += sorted((folder.parent.parent / "part" / message.stem).glob("prt_*.json"))
    return Log(folder.name, tuple(files))


def read_records(path: Path, tally: Tally) -> Iterator[Record]:
    """Return the records of a file, in order.

    Raises:
        OSError: the file cannot be opened or read.
    """
    with io.BufferedReader(io.FileIO(path), _CHUNK_BYTES) as file:
        head = file.peek(16)[:16]
        if head.startswith(b"SQLite format 3"):
            yield from _database(path, tally)
        elif head.startswith(b"PK\x03\x04"):
            yield from _archive(path, tally)
        elif head.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=file) as packed:
                try:
                    yield from _values(io.BufferedReader(packed, _CHUNK_BYTES), path.name, tally)
                except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                    tally.refuse(path.name, f"the compressed file is damaged or cut off: {error}")
        elif head.startswith(b"\xfd7zX"):
            with lzma.LZMAFile(file) as packed_xz:
                try:
                    yield from _values(io.BufferedReader(packed_xz, _CHUNK_BYTES), path.name, tally)
                except (EOFError, lzma.LZMAError) as error:
                    tally.refuse(path.name, f"the compressed file is damaged or cut off: {error}")
        else:
            yield from _values(file, path.name, tally)


def _values(file: "io.BufferedReader[Any]", name: str, tally: Tally) -> Iterator[Record]:
    head = file.peek(_CHUNK_BYTES)
    if head.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
        head = head[len(codecs.BOM_UTF8) :]
    if _is_stream(head.lstrip()):
        return _Stream(file, name, tally).records()
    return _lines(file, name, tally)


def _is_stream(head: bytes) -> bool:
    """Tell whether the values are not one per line: an array of them, or each over many lines."""
    line, newline, rest = head.partition(b"\n")
    if not line.startswith((b"[", b"{")):
        return False
    text = line.decode("utf-8", "replace").rstrip()
    whole = cut = False
    try:
        json.loads(text)
        whole = True
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text)
    except (ValueError, RecursionError):
        pass
    if line.startswith(b"["):
        # Lines may be arrays themselves, if there are more of them.
        return not (whole and rest.strip())
    return bool(newline) and cut


def _lines(file: BinaryIO, name: str, tally: Tally) -> Iterator[Record]:
    number = 0
    hopeful = False
    while line := file.readline(MAX_RECORD_BYTES):
        number += 1
        size = len(line)
        tally.bytes_read += size
        if size == MAX_RECORD_BYTES and not line.endswith(b"\n"):
            del line
            while (rest := file.readline(_CHUNK_BYTES)) and not rest.endswith(b"\n"):
                tally.bytes_read += len(rest)
            tally.bytes_read += len(rest)
            tally.refuse(f"{name}:{number}", _too_large())
            continue
        if line.isspace():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            tally.refuse(f"{name}:{number}", _told(error))
            if not hopeful and number >= _HOPELESS:
                tally.refuse(name, f"none of the first {number} lines is JSON; the rest is left")
                return
            continue
        hopeful = True
        tally.records += 1
        yield Record(value, f"{name}:{number}", size)


class _Stream:
    """JSON values in a text that is read as far as the next one needs."""

    def __init__(self, file: BinaryIO, name: str, tally: Tally) -> None:
        self._file = file
        self._name = name
        self._tally = tally
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._buffer = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def records(self) -> Iterator[Record]:
        raw_decode = json.JSONDecoder().raw_decode
        inside = False
        indent = ""
        while char := self._next_char():
            if char == "[" and not inside:
                inside = True
                self._move(self._at + 1)
                continue
            if inside and char in ",]":
                inside = char == ","
                self._move(self._at + 1)
                continue
            indent = self._indent()
            start = self._at
            try:
                value, end = raw_decode(self._buffer, start)
            except json.JSONDecodeError as error:
                if self._may_be_cut(error):
                    if len(self._buffer) - start < MAX_RECORD_BYTES:
                        self._more()
                        continue
                    self._refuse(_too_large())
                else:
                    self._refuse(_told(error))
                self._skip_to(f"\n{indent}{{")
                continue
            except (ValueError, RecursionError) as error:
                self._refuse(_told(error))
                self._skip_to(f"\n{indent}{{")
                continue
            where = f"{self._name}:{self._line}"
            self._move(end)
            self._tally.records += 1
            yield Record(value, where, end - start)

    def _next_char(self) -> str:
        """Return the next character that is no white space, or nothing at the end."""
        while True:
            gap = _GAP.match(self._buffer, self._at)
            self._move(gap.end() if gap else self._at)
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        """Tell whether the text could be right and just not all here yet."""
        return not self._ended and (
            error.pos >= len(self._buffer) - 16 or error.msg.startswith("Unterminated string")
        )

    def _more(self) -> bool:
        """Read on. What is held doubles, so that a long value is not tried too often."""
        if self._ended:
            return False
        data = self._file.read(max(_CHUNK_BYTES, len(self._buffer) - self._at))
        self._tally.bytes_read += len(data)
        self._ended = not data
        self._buffer = self._buffer[self._at :] + self._decode(data, final=self._ended)
        self._at = 0
        return not self._ended or bool(self._buffer)

    def _move(self, to: int) -> None:
        self._line += self._buffer.count("\n", self._at, to)
        self._at = to

    def _indent(self) -> str:
        """Return the white space before the value, if nothing else stands in its line."""
        line_start = self._buffer.rfind("\n", 0, self._at) + 1
        before = self._buffer[line_start : self._at]
        return before if before.isspace() else ""

    def _skip_to(self, mark: str) -> None:
        """Move to the next line that opens as records do here, or to the end."""
        start = self._at
        while (found := self._buffer.find(mark, start)) < 0:
            start = 0
            self._move(max(self._at, len(self._buffer) - len(mark)))
            if not self._more():
                self._move(len(self._buffer))
                return
        self._move(found + 1)

    def _refuse(self, problem: str) -> None:
        self._tally.refuse(f"{self._name}:{self._line}", problem)


def _archive(path: Path, tally: Tally) -> Iterator[Record]:
    """Return the header and the samples of an archive, each a JSON file of its own."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [
                part
                for part in archive.infolist()
                if part.filename.startswith(_PARTS) and part.filename.endswith(".json")
            ]
            if not parts:
                tally.refuse(path.name, "the archive holds no samples/…json: not an Inspect log")
            for part in sorted(parts, key=lambda part: part.filename != "header.json"):
                where = f"{path.name}/{part.filename}"
                if part.file_size > MAX_RECORD_BYTES:
                    tally.refuse(where, _too_large())
                    continue
                try:
                    data = archive.read(part)
                    value = json.loads(data)
                except NotImplementedError:
                    tally.refuse(where, _ZSTD if part.compress_type == 93 else _PACKED)
                except (ValueError, RecursionError) as error:
                    tally.refuse(where, _told(error))
                except (RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                    tally.refuse(where, f"cannot be unpacked: {error}")
                else:
                    tally.bytes_read += len(data)
                    tally.records += 1
                    yield Record(value, where, len(data))
    except zipfile.BadZipFile as error:
        tally.refuse(path.name, f"the archive is damaged: {error}")


def _database(path: Path, tally: Tally) -> Iterator[Record]:
    """Return opencode's messages and parts, session by session, as its files would hold them."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            for query in (_MESSAGES, _PARTS_OF_MESSAGES):
                connection.execute(f"{query} LIMIT 0", ("",))
            sessions = [row[0] for row in connection.execute(_SESSIONS)]
            for session in sessions:
                for query in (_MESSAGES, _PARTS_OF_MESSAGES):
                    for own, inside, data in connection.execute(query, (session,)):
                        yield from _row(path, tally, own, inside, session, data)
        finally:
            connection.close()
    except sqlite3.Error as error:
        tally.refuse(path.name, f"is a database, but none of opencode that can be read: {error}")


_SESSIONS = "SELECT id FROM session ORDER BY id"
_MESSAGES = "SELECT id, NULL, data FROM message WHERE session_id = ?"
_PARTS_OF_MESSAGES = "SELECT id, message_id, data FROM part WHERE session_id = ?"


def _row(
    path: Path, tally: Tally, own: Any, inside: Any, session: Any, data: Any
) -> Iterator[Record]:
    where = f"{path.name}/{own}"
    try:
        value = json.loads(data)
    except (ValueError, TypeError, RecursionError) as error:
        tally.refuse(where, _told(error))
        return
    if not isinstance(value, dict):
        tally.refuse(where, "is not an object")
        return
    value |= {"id": own, "sessionID": session}
    if inside is not None:
        value["messageID"] = inside
    tally.bytes_read += len(data)
    tally.records += 1
    yield Record(value, where, len(data))


_ZSTD = (
    "is packed with zstd, which zipfile reads from Python 3.14 on; "
    "use that, or `inspect log convert LOG --to json --output-dir FOLDER`"
)
_PACKED = "is packed in a way that zipfile cannot read; pack it with deflate"


def _too_large() -> str:
    return (
        f"is one JSON value of more than {MAX_RECORD_BYTES >> 20} MB; "
        "logs of this size have to be an array or lines of smaller values"
    )


def _told(error: Exception) -> str:
    """Return what is wrong with a text that is not JSON, without the text."""
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON: {error}"
