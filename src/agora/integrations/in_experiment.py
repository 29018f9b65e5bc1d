"""Calls of a wrapped client in an experiment: where each sits, and what it came to."""

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agora.experiment.assignment import Seat
from agora.experiment.library import CONVERSATION_HEADER, Experiment, Usage
from agora.experiment.openings import is_first_call, opening
from agora.integrations.compress_chat import FailOpen

_BYTES_PER_TOKEN = 4


@dataclass(slots=True)
class OpenCall:
    """A call that is under way, of a conversation in one of the arms."""

    experiment: Experiment
    seat: Seat
    model: str
    affected: bool
    began: float = field(default_factory=time.monotonic)
    waited_ms: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def answered(self, answer: Any) -> None:
        """Count the call now, or at the end of the stream that the answer is."""
        self.waited_ms = (time.monotonic() - self.began) * 1e3
        events: Any = getattr(answer, "_iterator", None)
        if hasattr(events, "__anext__"):
            answer._iterator = self._atapped(events)
        elif hasattr(events, "__next__"):
            answer._iterator = self._tapped(events)
        else:
            self._see(answer)
            self.over()

    def over(self, error: str = "") -> None:
        """Count it."""
        self.experiment.count(
            self.seat,
            model=self.model,
            usage=self.usage,
            waited_ms=self.waited_ms,
            error=error,
            affected=self.affected,
        )

    def failed(self, error: BaseException) -> None:
        """Count it by what went wrong: a status, or the kind of the exception."""
        self.over(str(getattr(error, "status_code", "") or type(error).__name__))

    def _tapped(self, events: Iterator[Any]) -> Iterator[Any]:
        try:
            for event in events:
                self._see(event)
                yield event
        finally:
            self.over()

    async def _atapped(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            async for event in events:
                self._see(event)
                yield event
        finally:
            self.over()

    def _see(self, told: Any) -> None:
        """Take in the usage of an answer or of an event, if it has any."""
        for at in (told, _in(told, "message"), _in(told, "response"), _raw(told)):
            said = _in(at, "usage")
            if said is not None:
                self.usage = Usage(*map(max, self.usage, usage_of(said)))


class ExperimentCalls:
    """The calls of one client."""

    def __init__(self, experiment: Experiment, min_tokens: int) -> None:
        self._experiment = experiment
        self._least = min_tokens * _BYTES_PER_TOKEN
        self._open = FailOpen(logging.getLogger(__name__))

    def begin(self, client: Any, options: Any, field: str) -> OpenCall | None:
        """Return the call that is about to be sent; None where it is in no arm."""
        return self._open(lambda: self._begun(client, options, field), None)

    def over(self, call: OpenCall | None, answer: Any) -> Any:
        """Return the answer to a call, which is counted."""
        if call is not None:
            self._open(lambda: call.answered(answer), None)
        return answer

    def _begun(self, client: Any, options: Any, field: str) -> OpenCall | None:
        body = {**options.json_data, **(getattr(options, "extra_json", None) or {})}
        written = json.dumps(body, default=str).encode("utf-8", "surrogatepass")
        told = _header(options.headers) or _header(getattr(client, "default_headers", None))
        seat = self._experiment.seat(
            told.encode() or opening(written, field),
            first=is_first_call(written, field),
            tenant=self._experiment.tenant_of(str(getattr(client, "api_key", None) or "")),
        )
        if seat is None:
            return None
        long_enough = len(written) >= self._least
        return OpenCall(self._experiment, seat, str(body.get("model", "")), long_enough)


def without_header(options: Any) -> None:
    """Take the name of the conversation out of what is sent: it is ours, not the provider's."""
    if _header(options.headers):
        options.headers = {
            name: value
            for name, value in options.headers.items()
            if name.lower() != CONVERSATION_HEADER
        }


def usage_of(said: Any) -> Usage:
    """Return what an answer's usage bills, in the words of either provider.

    >>> usage_of({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    Usage(fresh=5, read=4, written=0, output=0)
    """
    output = _count(said, "completion_tokens") or _count(said, "output_tokens")
    for whole, details in (
        ("prompt_tokens", "prompt_tokens_details"),
        ("input_tokens", "input_tokens_details"),
    ):
        told = _in(said, details)
        if told is not None or (whole == "prompt_tokens" and _count(said, whole)):
            read = _count(told, "cached_tokens")
            return Usage(max(0, _count(said, whole) - read), read, 0, output)
    return Usage(
        _count(said, "input_tokens"),
        _count(said, "cache_read_input_tokens"),
        _count(said, "cache_creation_input_tokens"),
        output,
    )


def _raw(told: Any) -> Any:
    """Return what a raw answer says, if it has been read."""
    with suppress(Exception):
        return json.loads(told.http_response.content)
    return None


def _in(told: Any, name: str) -> Any:
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)


def _count(told: Any, name: str) -> int:
    found = _in(told, name)
    return found if isinstance(found, int) and found > 0 else 0


def _header(headers: Any) -> str:
    if not isinstance(headers, Mapping):
        return ""
    return next((str(headers[name]) for name in headers if name.lower() == CONVERSATION_HEADER), "")
