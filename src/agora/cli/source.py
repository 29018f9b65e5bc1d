"""The input of a command: messages, a request body, a text, or one trajectory of a log."""

import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from agora.core.action_lines import printable
from agora.core.request import Request
from agora.errors import AgoraError
from agora.formats import BodyFields, format_named, read_request
from agora.formats.base import kind_of
from agora.logs import Recording, Tally, detect_kind, read_one

_KEYS_SHOWN = 8
_OF_A_MESSAGE = frozenset(("role", "type", "content", "parts"))
"""Fields of which a message or an item has one, and a request none."""
_PACKED = (b"\x1f\x8b", b"\xfd7zX")
"""The first bytes of packed files, which may be logs."""
_PLACED = re.compile(r"(.+)#(\d{1,9})")
"""A log's path, and which of its trajectories."""


class Unreadable(click.ClickException):
    """The input cannot be read; exit code 2."""

    exit_code = 2

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(printable(f"{name}: {problem}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A request, and the function that returns its messages in the original shape."""

    name: str
    request: Request
    own: bytes | None = None
    """The caller's own bytes, where all of them are this request."""
    is_text: bool = False
    """True if it is plain text and not JSON."""
    place: str = ""
    """Which trajectory of a log this is, in words."""
    notes: tuple[str, ...] = ()
    """Notes for the caller, such as unreadable records."""
    recording: Recording | None = None
    """The trajectory of a log that the request is from."""

    def written(self, messages: Any, *, indent: int | None = None) -> bytes:
        """Return the source with other messages in it, as bytes."""
        if self.is_text:
            return str(messages).encode("utf-8", "surrogatepass")
        value = self.request.with_messages(messages)
        text = json.dumps(value, ensure_ascii=False, indent=indent) + "\n"
        try:
            return text.encode()
        except UnicodeEncodeError:
            # A lone surrogate can only be written as an escape.
            return (json.dumps(value, indent=indent) + "\n").encode()


def read_source(path: str) -> Source:
    """Return the request in the file at `path`; `-` is standard input.

    Read are bare messages, a request body, a text, and every log that `agora.logs` reads. Of a log
    with several trajectories the path picks one: `log.jsonl#3`.

    Raises:
        Unreadable: Nothing of this was found; the message says what was.
    """
    placed = _PLACED.fullmatch(path)
    log_index = None
    if placed and not os.path.exists(path):
        path, log_index = placed[1], int(placed[2])
    name = "standard input" if path == "-" else path
    if path != "-" and os.path.isdir(path):
        return _of_log(Path(path), name, log_index)
    data = _bytes(path, name)
    if data.startswith(_PACKED):
        return _of_log_bytes(path, data, name, log_index)
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Unreadable(name, f"is not text: {error}") from error
    if not text.strip():
        raise Unreadable(
            name, "is empty; messages, a request body, a transcript or a log is needed"
        )
    one = _one_request(text)
    if one is None:
        return _of_log_bytes(path, data, name, log_index)
    if log_index is not None:
        raise Unreadable(name, f"holds one request and not a log; leave #{log_index} out")
    try:
        request = read_request(one.value)
    except AgoraError as error:
        failed = f"; as JSON it fails: {one.not_json}" if one.not_json else ""
        raise Unreadable(name, f"{error}{failed or _found(one.value)}") from error
    return Source(name=name, request=request, own=data, is_text=one.is_text)


def _bytes(path: str, name: str) -> bytes:
    if path == "-" and sys.stdin.isatty():
        raise click.UsageError("Give a file, or pipe the messages in.")
    try:
        with click.open_file(path, "rb") as stream:
            data: bytes = stream.read()
            return data
    except OSError as error:
        raise Unreadable(name, f"cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class _One:
    """The fields that are read as one request."""

    value: Any
    is_text: bool = False
    not_json: str = ""
    """The reason why a text that looks like JSON is not JSON."""


def _one_request(text: str) -> _One | None:
    """Return the one request in `text`, or None if it is a log."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _opens_with_json(text):
            return None
        looks_like_json = text.lstrip()[0] in '{["'
        return _One(text, is_text=True, not_json=str(error) if looks_like_json else "")
    return None if _is_log(value) else _One(value)


def _opens_with_json(text: str) -> bool:
    """Return True if the first line is a JSON object or list, as in JSON Lines."""
    # Not `splitlines`: a JSON string may hold other line separators as they are.
    first = text.lstrip().partition("\n")[0]
    try:
        return isinstance(json.loads(first), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_log(value: Any) -> bool:
    """Return True if `value` is a log rather than messages or the body of a request."""
    if isinstance(value, list) and value:
        first = value[0]
        if isinstance(first, list):
            return True
        plain = not isinstance(first, dict) or bool(first.keys() & _OF_A_MESSAGE)
        kind = detect_kind(first)
        return kind not in (None, "requests") if plain else True
    if not isinstance(value, dict):
        return False
    body = value.keys() & {"messages", "input", "contents"}
    kind = detect_kind(value)
    return kind is not None and not (kind == "requests" and body)


def _of_log_bytes(path: str, data: bytes, name: str, log_index: int | None) -> Source:
    """Read a log; one that was piped in goes through a temporary file."""
    if path != "-":
        return _of_log(Path(path), name, log_index)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stdin"
        file.write_bytes(data)
        return _of_log(file, name, log_index)


def _of_log(path: Path, name: str, log_index: int | None) -> Source:
    """Return the only trajectory of a log, or the one with the requested number."""
    tally = Tally()
    recording, count = read_one([path], tally, index=log_index)
    if recording is None:
        raise Unreadable(name, _not_there(name, tally, count, log_index))
    notes = []
    if tally.bad:
        first = tally.examples[0]
        many = "1 record" if tally.bad == 1 else f"{tally.bad:,} records"
        notes.append(printable(f"{many} could not be read: {first.where} {first.problem}"))
    return Source(
        name=name,
        request=_request_of(recording),
        place=f"trajectory #{log_index or 0} of {count:,}",
        notes=tuple(notes),
        recording=recording,
    )


def _not_there(name: str, tally: Tally, count: int, log_index: int | None) -> str:
    """Return the reason why there is no trajectory, and the command to type instead."""
    if count and log_index is None:
        return f"holds {count:,} trajectories; pick one, from {name}#0 to #{count - 1}"
    if count:
        held = "only 0" if count == 1 else f"0 to {count - 1}"
        return f"has no trajectory {log_index}; it holds {held}"
    if tally.examples:
        first = tally.examples[0]
        more = f" ({tally.bad - 1:,} more)" if tally.bad > 1 else ""
        return f"holds no trajectory that can be read: {first.where} {first.problem}{more}"
    reasons = ", ".join(f"{reason} ({many:,})" for reason, many in tally.skipped.most_common(3))
    return f"holds no trajectory: {reasons or 'no call of a model is in it'}"


def _request_of(recording: Recording) -> Request:
    """Return a recording as a request, in a body if it has more than messages."""
    request = recording.request()
    if request.system is None and not request.tools:
        return request
    fields = format_named(request.format).fields or BodyFields(messages="messages")
    beside = {
        fields.model: request.model,
        next(iter(fields.system), "system"): request.system,
        next(iter(fields.tools), "tools"): request.tools or None,
    }
    body = {key: value for key, value in beside.items() if value is not None}
    field = fields.messages
    return replace(request, field=field, body={**body, field: request.messages})


def _found(record: Any) -> str:
    if not isinstance(record, dict):
        return f"; found {kind_of(record)}"
    shown = ", ".join(str(key) for key in list(record)[:_KEYS_SHOWN])
    more = ", …" if len(record) > _KEYS_SHOWN else ""
    return f"; found an object with {shown}{more}" if shown else "; found an empty object"
