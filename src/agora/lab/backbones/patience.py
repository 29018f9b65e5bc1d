"""Ask a server, and ask again within a budget, without saying how bytes are moved.

A flow yields what is to be done, a call or a pause, and is told what came of
it. So the rules stand here once, and a blocking and an asynchronous client
carry them out alike.
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
    """A backbone gave no answer, or none that can be read."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to go on asking a server that does not answer."""

    one_s: float = 600.0
    """The longest that one try may take; a small machine reads a long prompt for minutes."""
    all_s: float = 1800.0
    """The longest that all tries and the pauses between them may take together."""
    tries: int = 6
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0

    def pause_s(self, tries: int, told_s: float | None) -> float:
        """Return how long to wait after so many tries: what the server said, or twice as long.

        Some of it is left to chance, so that clients that failed together do
        not come back together.
        """
        if told_s is not None:
            return told_s
        longest = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (tries - 1))
        return longest * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Call:
    """Post these bytes there, and give up after so many seconds."""

    url: str
    body: bytes
    timeout_s: float
    prompt_tokens: int = 0
    """How long the prompt is, where it is sent as tokens: no server bills those that it scores."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Heard:
    """What a server answered, whatever it is."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer: refused, cut off or too late."""

    problem: str


Flow: TypeAlias = Generator[Call | Pause, Heard | Silence | None, T]

_TRY_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def ask(url: str, body: bytes, patience: Patience, *, prompt_tokens: int = 0) -> Flow[Any]:
    """Return what the server answered, read as JSON.

    Raises:
        BackboneError: the server refused, or the budget ran out; the error says
            what was heard last.
    """
    began = monotonic()
    tries = 0
    while True:
        tries += 1
        left_s = patience.all_s - (monotonic() - began)
        timeout_s = max(0.001, min(patience.one_s, left_s))
        heard = yield Call(url, body, timeout_s, prompt_tokens)
        told_s = None
        if isinstance(heard, Heard):
            if 200 <= heard.status < 300:
                return _read(url, heard.body)
            problem = f"status {heard.status}: {_message(heard.body)}"
            if heard.status not in _TRY_AGAIN:
                raise BackboneError(url, f"refused the request with {problem}")
            told_s = _seconds(heard.retry_after)
        else:
            problem = heard.problem if heard else "nothing was tried"
        pause_s = patience.pause_s(tries, told_s)
        spent_s = monotonic() - began
        if tries >= patience.tries or spent_s + pause_s >= patience.all_s:
            raise BackboneError(
                url,
                f"gave no answer in {tries} {'try' if tries == 1 else 'tries'} and {spent_s:.1f} s"
                f" of {patience.all_s:g}; the last: {problem}",
            )
        yield Pause(pause_s)


def _read(url: str, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise BackboneError(url, f"answered with no JSON: {body[:200]!r}") from error


def _message(body: bytes) -> str:
    """Return what an error says for itself, however it is wrapped."""
    try:
        found = json.loads(body)
    except ValueError:
        return repr(body[:300])
    error = found.get("error", found) if isinstance(found, dict) else found
    said = error.get("message", error) if isinstance(error, dict) else error
    return str(said)[:300]


def _seconds(header: str | None) -> float | None:
    """Return a wait in seconds; the form with a date is rare and not worth a clock."""
    try:
        told = float(header) if header else -1.0
    except ValueError:
        return None
    return told if 0 <= told < float("inf") else None
