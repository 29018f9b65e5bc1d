"""The three values on the path of a request: `Call`, `Edited` and `Outcome`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agora import Compression
from agora.core.repeats import NO_REPEATS, Repeats
from agora.experiment.assignment import Arm
from agora.formats import make_request
from agora.formats.usage import Usage
from agora.savings import Paid
from agora.service.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that holds a prompt, as the client sent it."""

    route: Route
    body: bytes
    """Its JSON, inflated."""
    owner: str = ""
    """The tenant, by a name that does not reveal its key."""
    conversation: str = ""
    """A key that all calls of its conversation share; empty if it is not known."""
    model: str = ""
    arm: Arm | None = None
    """Its arm, while an experiment runs."""
    untouched: str = ""
    """The reason to send it unchanged, if that is known before it is read."""

    @property
    def binds_thinking(self) -> bool:
        """True if its model binds thinking to the prefix."""
        return _binds_thinking(self.route.format, self.model)


@lru_cache(maxsize=1_024)
def _binds_thinking(format: str, model: str) -> bool:
    return make_request([], format=format, model=model).is_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The request to send for a call."""

    body: bytes
    """The body to send: the call's own object if nothing was changed."""
    reason: str
    """The reason code: one of `agora.Reason`, or a word of the service such as `late`."""
    changed: bool = False
    """True if the body is not the client's own."""
    tokens_before: int = 0
    """The prompt by AGORA's count; 0 if it was not counted."""
    tokens_after: int = 0
    thinking_blocks: int = 0
    """How many of the client's thinking blocks were removed."""
    detail: str = ""
    compression: Compression | None = None
    """The session's compression; None if the session was not asked."""
    last: Paid | None = None
    """The billed sizes of the call that it continues."""
    retried: bool = False
    """True for the second attempt, after a refusal."""

    def repeats_of(self, outcome: "Outcome") -> Repeats:
        """Return what the agent asked for again since the call before, if this one succeeded."""
        if self.compression is None or not 200 <= outcome.status < 300:
            return NO_REPEATS
        return self.compression.repeats

    def without_bodies(self) -> "Edited":
        """Return the value without any message: an answer can take minutes."""
        compression = self.compression
        if compression is not None:
            compression = replace(compression, messages=None, request=None, parse=None)
        return replace(self, body=b"", compression=compression)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that report the edit to the client."""
        if not self.changed:
            return {"x-agora-untouched": self.reason}
        if not self.tokens_before:
            return {"x-agora-edited": self.reason}
        return {
            "x-agora-edited": self.reason,
            "x-agora-tokens-before": str(self.tokens_before),
            "x-agora-tokens-after": str(self.tokens_after),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a call, for metrics, account and log."""

    status: int = 0
    """The status of the answer; 0 if there was none."""
    usage: Usage | None = None
    answer: Sequence[str] = ()
    """Words that identify the answer: the ids of its calls, its text."""
    error: str = ""
    """An error code: `client_left`, `truncated`, `upstream`."""
    detail: str = ""
    """The same in a sentence for the owner, with the address; no label and no log has it."""
    held_seconds: float = 0.0
    """How long the request waited for its edit."""
    first_byte_seconds: float = 0.0
    dollars: float | None = None
    """The price of the call by its usage; None if the provider reported none."""
    saved: float = 0.0
    """Estimated dollars saved against sending everything; negative if it cost more."""
