"""What a command reads: messages, a request body, a text, or one trajectory out of a log."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click

from agora.adapters.base import Observations
from agora.adapters.request import Request, read_request
from agora.adapters.rules.shape import kind_of
from agora.errors import AgoraError

_KEYS_SHOWN = 8
_SENT = frozenset(("role", "content", "tool_calls", "tool_call_id", "name"))
"""What of a message in an agent's log a provider would take."""
_OF_A_MESSAGE = frozenset(("role", "type", "content"))
"""What a message or an item has one of, and a request none."""


class Unreadable(click.ClickException):
    """What was given cannot be read; exit code 2."""

    exit_code = 2

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(printable(f"{name}: {problem}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A request as it was read, and how to give it back in the shape it had."""

    name: str
    request: Request
    own: bytes | None = None
    """The caller's own bytes, where all of them are this request."""
    is_text: bool = False
    """Whether it came as plain text and not as JSON."""
    observations: Observations | None = None
    """What the log says of user messages, where it is of a kind that tells."""
    place: str = ""
    """Which trajectory of a log this is, in words."""

    def written(self, messages: Any, *, indent: int | None = None) -> bytes:
        """Return the source with other messages in it, as bytes."""
        if self.is_text:
            return str(messages).encode("utf-8", "surrogatepass")
        value = self.request.with_messages(messages)
        text = json.dumps(value, ensure_ascii=False, indent=indent) + "\n"
        try:
            return text.encode()
        except UnicodeEncodeError:
            # A lone surrogate can only be written as the escape it came in as.
            return (json.dumps(value, indent=indent) + "\n").encode()


def read_source(path: str, *, format: str | None = None, log_index: int | None = None) -> Source:
    """Return the request in the file at `path`; `-` is standard input.

    Read are bare messages, a request body, a text, and logs: a JSON list or
    JSON lines of requests, of objects with their messages in `traj`, or of
    SWE-agent's with a `history`. Of a log with several, `log_index` picks one.

    Raises:
        Unreadable: nothing of this was found; the message says what was.

    """
    name = "standard input" if path == "-" else path
    data = _bytes(path, name)
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Unreadable(name, f"is not text: {error}") from error
    if not text.strip():
        raise Unreadable(name, "is empty; messages, a request body or a transcript is needed")
    picked = _pick(text, name, log_index)
    try:
        read = _read(picked.record, format)
    except AgoraError as error:
        where = f"{name}, {picked.place}" if picked.place else name
        failed = f"; as JSON it fails: {picked.not_json}" if picked.not_json else ""
        raise Unreadable(where, f"{error}{failed or _found(picked.record)}") from error
    return Source(
        name=name,
        request=read.request,
        own=data if read.whole and not picked.place else None,
        is_text=picked.is_text,
        observations=read.observations,
        place=picked.place,
    )


def printable(text: str) -> str:
    """Return `text` with a space for whatever would steer a terminal instead of showing."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


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
class _Picked:
    record: Any
    place: str = ""
    is_text: bool = False
    not_json: str = ""
    """Why what looks like JSON is none."""


def _pick(text: str, name: str, log_index: int | None) -> _Picked:
    """Return the one request in `text`, or the one that was asked for."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = _json_lines(text)
        if lines:
            at = _index(len(lines), name, log_index)
            return _Picked(_line(lines[at], name, at), _place(at, len(lines)))
        value, problem, is_text = text, str(error), True
    else:
        problem, is_text = "", False
        if _is_log(value):
            at = _index(len(value), name, log_index)
            return _Picked(value[at], _place(at, len(value)))
    if log_index is not None:
        raise Unreadable(name, "holds one request and not a log; leave --log-index out")
    looks_like_json = is_text and text.lstrip()[0] in '{["'
    return _Picked(value, is_text=is_text, not_json=problem if looks_like_json else "")


def _json_lines(text: str) -> list[str]:
    """Return the lines if the first one is a JSON object or list, otherwise none."""
    # Not `splitlines`: a JSON string may hold other line separators as they are.
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        return []
    return lines if isinstance(first, dict | list) else []


def _line(line: str, name: str, at: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(name, f"{_place(at)} is not JSON: {error}") from error


def _is_log(value: Any) -> bool:
    """Tell whether `value` is a list of requests rather than of messages."""
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    if isinstance(first, list):
        return True
    return isinstance(first, dict) and not first.keys() & _OF_A_MESSAGE


def _index(count: int, name: str, log_index: int | None) -> int:
    if log_index is None:
        if count == 1:
            return 0
        raise Unreadable(
            name, f"holds {count:,} trajectories; pick one with --log-index 0 to {count - 1}"
        )
    if log_index >= count:
        raise Unreadable(name, f"has no --log-index {log_index}; it holds 0 to {count - 1}")
    return log_index


def _place(at: int, count: int | None = None) -> str:
    return f"trajectory {at}" if count is None else f"trajectory {at} of {count:,}"


@dataclass(frozen=True, slots=True)
class _Read:
    request: Request
    observations: Observations | None = None
    whole: bool = True
    """Whether the record is the request, and not an agent's log of one."""


def _read(record: Any, format: str | None) -> _Read:
    if not isinstance(record, dict) or record.keys() & {"messages", "input"}:
        return _Read(read_request(record, format=format))
    if "contents" in record:
        return _Read(_gemini(record))
    if "traj" in record:
        return _Read(read_request(record["traj"], format=format), whole=False)
    if "history" in record:
        messages = _of_swe_agent(record["history"])
        observations: Observations | None = None if _has_calls(messages) else "user"
        return _Read(read_request(messages, format=format), observations, whole=False)
    return _Read(read_request(record, format=format))


def _gemini(body: dict[str, Any]) -> Request:
    return Request(
        format="gemini",
        messages=body["contents"],
        field="contents",
        body=body,
        system=body.get("systemInstruction"),
        tools=body.get("tools"),
    )


def _of_swe_agent(history: Any) -> Any:
    """Return the messages as they were sent, without the log's own fields."""
    if not isinstance(history, list):
        return history
    messages = []
    for entry in history:
        if not isinstance(entry, dict):
            return history
        message = {key: value for key, value in entry.items() if key in _SENT and value is not None}
        message.setdefault("content", entry.get("content"))
        listed = entry.get("tool_call_ids")
        ids = listed if isinstance(listed, list) else []
        if ids:
            message["tool_call_id"] = ids[0]
        messages.append(message)
        # One entry may answer several calls; a provider wants a message for each.
        messages += [{**message, "content": "", "tool_call_id": other} for other in ids[1:]]
    return messages


def _has_calls(messages: Any) -> bool:
    entries: Iterable[Any] = messages if isinstance(messages, list) else ()
    return any(isinstance(entry, dict) and "tool_calls" in entry for entry in entries)


def _found(record: Any) -> str:
    if not isinstance(record, dict):
        return f"; found was {kind_of(record)}"
    shown = ", ".join(str(key) for key in list(record)[:_KEYS_SHOWN])
    more = ", …" if len(record) > _KEYS_SHOWN else ""
    return f"; found was an object with {shown}{more}" if shown else "; found was an empty object"
