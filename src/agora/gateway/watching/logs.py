"""One line per event on standard error, with nothing in it that a client wrote in confidence.

What may be written is listed; everything else is left out. Bodies, paths,
queries and the words of exceptions never are. What is written is looked over
once more at the sink for anything that has the shape of a key.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from pathlib import PurePath
from typing import Any, TextIO

from agora.gateway.body import encode
from agora.gateway.config import Log
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.redaction import REDACTED, redacted, without_keys

_requests = logging.getLogger("agora.gateway.requests")
AUDIT = logging.getLogger("agora.gateway.audit")
"""What an auditor asks for: which settings are in force since when. Written at every level."""
_ID_HEADERS = frozenset({"x-request-id", "request-id"})
_LIFECYCLE = frozenset({"uvicorn.error"})
"""Foreign loggers whose message, without its arguments, says something to an operator."""


class ToldError(Exception):
    """What the line of its own exchange tells; the server's report of it is left out."""


def log_exchange(exchange: Exchange, settings: Log) -> None:
    """Write one line about a request, at INFO.

    At WARNING if it got no answer, a 5xx, or an answer that broke off.
    """
    if not settings.requests:
        return
    failed = exchange.status == 0 or exchange.status >= 500 or exchange.error == "truncated"
    level = logging.WARNING if failed else logging.INFO
    if _requests.isEnabledFor(level):
        # Made here: a logger would look through the stack for who calls, at the price of the rest.
        record = logging.LogRecord(_requests.name, level, "", 0, "request", None, None)
        if exchange.ended_ns:
            record.created, record.msecs = (
                exchange.ended_ns / 1e9,
                exchange.ended_ns // 10**6 % 1000,
            )
        record.fields = _fields(exchange, settings)
        _requests.handle(record)


def told_headers(headers: Iterable[tuple[str, str]], settings: Log) -> dict[str, str]:
    """Return the headers that may be written, each looked over.

    >>> told_headers([("Authorization", "Bearer sk-12345678901"), ("User-Agent", "a/1")], Log())
    {'user-agent': 'a/1'}
    """
    fields: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower not in settings.headers:
            continue
        if lower in _ID_HEADERS:
            plain = len(value) <= 128 and all(
                c.isascii() and (c.isalnum() or c in "._:-") for c in value
            )
            fields[lower] = without_keys(value) if plain else REDACTED
        else:
            fields[lower] = _looked_over(value[:256])
    return fields


@lru_cache(maxsize=256)
def _looked_over(value: str) -> str:
    # Agents and types are the same in request after request.
    return redacted(value)


_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
"""Made once: `json.dumps` makes one at every call that has settings."""


def _json(line: dict[str, Any]) -> str:
    """Return a line as JSON in ASCII; nearly all are, and are written the quick way."""
    try:
        quick = encode(line)
    except (TypeError, ValueError):
        return _encode(line)
    return quick.decode("ascii") if quick.isascii() else _encode(line)


class Formatter(logging.Formatter):
    """Writes a record as one line, JSON or plain.

    Of records that are not ours it gives the place and the kind of the
    error, and not the words: other packages put addresses and headers into them.
    """

    def __init__(self, settings: Log) -> None:
        super().__init__()
        self._json = settings.format == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = _line(record)
        if self._json:
            return _json(line)
        rest = " ".join(
            f"{key}={_word(value)}"
            for key, value in line.items()
            if key not in ("time", "level", "message")
        )
        head = f"{line['time']} {line['level']:<7} {line.get('message', '')}"
        return f"{head} {rest}".replace("\n", " ").rstrip()


class _OursOrGrave(logging.Filter):
    """Lets through what this package says, and of others what is a warning or worse."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], ToldError):
            return False
        ours = record.name == "agora" or record.name.startswith("agora.")
        lifecycle = record.name in _LIFECYCLE and record.levelno >= logging.INFO
        return ours or lifecycle or record.levelno >= logging.WARNING


def configure(settings: Log, stream: TextIO) -> logging.Handler:
    """Send all logs of this process to `stream`, and return the handler that does it.

    For the command that starts a gateway; a library never calls it.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Formatter(settings))
    handler.addFilter(_OursOrGrave())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    AUDIT.setLevel(logging.INFO)
    # Nobody reads these, and to find them out takes a third of the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # The access log of the server has paths and queries in it; ours has routes.
    logging.getLogger("uvicorn.access").handlers.clear()
    logging.getLogger("uvicorn.access").propagate = False
    return handler


_NOT_LOGGED = {
    *("headers", "traceparent", "started_ns", "ended_ns", "model", "family"),
    *(
        "first_chunk_ms",
        "after_edit",
        "asked_again",
        "elided_kinds",
        "server",
        "port",
        "shadow",
        "whole",
    ),
    *("billed", "dollars", "would_rung", "would_reason", "no_steps"),
}
_DOLLARS = frozenset({"dollars_saved", "would_save"})
_LOGGED = tuple(name for name in Exchange._fields if name not in _NOT_LOGGED)
_logged_values = attrgetter(*_LOGGED)


def _fields(exchange: Exchange, settings: Log) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: value for name, value in zip(_LOGGED, _logged_values(exchange), strict=True) if value
    }
    fields["rung"] = exchange.rung
    fields["status"] = exchange.status
    if exchange.logged_model:
        fields["model"] = exchange.logged_model
    if exchange.ended_ns > exchange.started_ns > 0:
        fields["total_ms"] = (exchange.ended_ns - exchange.started_ns) / 1e6
    for key, value in fields.items():
        if isinstance(value, float):
            fields[key] = round(value, 6 if key in _DOLLARS else 3)
    headers = told_headers(exchange.headers, settings)
    if headers:
        fields["headers"] = headers
    return fields


def _line(record: logging.LogRecord) -> dict[str, Any]:
    ours = record.name == "agora" or record.name.startswith("agora.")
    line: dict[str, Any] = {
        "time": f"{_second(int(record.created))}.{int(record.msecs):03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name,
    }
    if ours:
        line["message"] = redacted(record.getMessage()) if record.args else _said(str(record.msg))
    elif record.name in _LIFECYCLE and isinstance(record.msg, str):
        line["message"] = redacted(_numbers_only(record))
    if not ours:
        line["where"] = f"{PurePath(record.pathname).name}:{record.lineno}"
    if record.exc_info and record.exc_info[0] is not None:
        line["error"] = record.exc_info[0].__name__
        line["at"] = _frames(record.exc_info[2])
    fields = getattr(record, "fields", None)
    if ours and isinstance(fields, Mapping):
        line.update(fields)
    return line


def _numbers_only(record: logging.LogRecord) -> str:
    """Return a message with the numbers filled in; what may be text is left out."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    shown = (value if type(value) in (int, float) else _Ellipsis() for value in arguments)
    try:
        said = str(record.msg) % tuple(shown) if arguments else str(record.msg)
    except (TypeError, ValueError):
        said = str(record.msg).partition("%")[0]
    return said.strip()


class _Ellipsis:
    """Stands where a text would be filled in."""

    def __str__(self) -> str:
        return "..."

    __repr__ = __str__


@lru_cache(maxsize=2)
def _second(since_1970: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_1970))


_said = lru_cache(maxsize=64)(redacted)
"""Our own sentences without anything filled in: a few, again and again."""


def _frames(traceback: Any) -> list[str]:
    """Return the innermost places an exception passed through; no source, no values."""
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{PurePath(code.co_filename).name}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return places[-8:]


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return json.dumps(text) if any(c in text for c in ' "=\n') else text
