"""Asks a server and retries within a budget, independent of the HTTP client.

A flow yields what to do next, a call or a pause, and is sent the result. So the
rules are written once, and a blocking and an asynchronous client both follow
them.
"""

import json
import random
from collections.abc import Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from agora.errors import AgoraError

T = TypeVar("T")


class BackboneError(AgoraError):
    """A backbone gave no answer, or an unreadable one."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to keep asking a server that does not answer."""

    one_s: float = 600.0
    """The longest one try may take; a small machine takes minutes to read a long prompt."""
    all_s: float = 1800.0
    """The longest all tries and pauses may take together."""
    tries: int = 6
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0

    def pause_s(self, tries: int, asked_s: float | None) -> float:
        """Return how long to wait after a failed try: as the server asked, or exponentially longer.

        It is randomised, so that clients that failed together do not retry together.
        """
        if asked_s is not None:
            return asked_s
        longest = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (tries - 1))
        return longest * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Call:
    """Post these bytes to the URL, with a timeout."""

    url: str
    body: bytes
    timeout_s: float
    prompt_tokens: int = 0
    """Length of a prompt sent as tokens: servers report no usage for scoring."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A server's reply, whatever its status."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class NoReply:
    """No reply: refused, cut off or timed out."""

    problem: str


Flow: TypeAlias = Generator[Call | Pause, HttpReply | NoReply | None, T]

_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def ask(url: str, body: bytes, retry_policy: RetryPolicy, *, prompt_tokens: int = 0) -> Flow[Any]:
    """Return the server's answer, parsed as JSON.

    Raises:
        BackboneError: the server refused, or the budget ran out; the error includes
            the last problem.
    """
    began = monotonic()
    tries = 0
    while True:
        tries += 1
        left_s = retry_policy.all_s - (monotonic() - began)
        timeout_s = max(0.001, min(retry_policy.one_s, left_s))
        heard = yield Call(url, body, timeout_s, prompt_tokens)
        asked_s = None
        if isinstance(heard, HttpReply):
            if 200 <= heard.status < 300:
                return _read(url, heard.body)
            problem = f"status {heard.status}: {_message(heard.body)}"
            if heard.status not in _TRY_AGAIN:
                raise BackboneError(url, f"refused the request with {problem}")
            asked_s = _seconds(heard.retry_after)
        else:
            problem = heard.problem if heard else "nothing was tried"
        pause_s = retry_policy.pause_s(tries, asked_s)
        spent_s = monotonic() - began
        if tries >= retry_policy.tries or spent_s + pause_s >= retry_policy.all_s:
            raise BackboneError(
                url,
                f"gave no answer in {tries} {'try' if tries == 1 else 'tries'} and {spent_s:.1f} s"
                f" of {retry_policy.all_s:g}; last problem: {problem}",
            )
        yield Pause(pause_s)


def _read(url: str, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise BackboneError(url, f"did not answer with JSON: {body[:200]!r}") from error


def _message(body: bytes) -> str:
    """Return the message of an error, however it is wrapped."""
    try:
        found = json.loads(body)
    except ValueError:
        return repr(body[:300])
    error = found.get("error", found) if isinstance(found, dict) else found
    said = error.get("message", error) if isinstance(error, dict) else error
    return str(said)[:300]


def _seconds(header: str | None) -> float | None:
    """Return a wait in seconds; the date form is rare and not supported."""
    try:
        seconds = float(header) if header else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
