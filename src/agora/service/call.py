"""The three values on the path of a request: `Call`, as it came; `Edited`; `Outcome`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agora import Compression
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
    """What all calls of its conversation share; empty if that is not known."""
    model: str = ""
    arm: Arm | None = None
    """Its arm, while an experiment runs."""
    untouched: str = ""
    """Why it goes out as it came, if that is known before it is read."""

    @property
    def binds_thinking(self) -> bool:
        """Whether its model takes thinking only behind the prefix that it was made behind."""
        return _binds_thinking(self.route.format, self.model)


@lru_cache(maxsize=1_024)
def _binds_thinking(format: str, model: str) -> bool:
    return make_request([], format=format, model=model).is_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What goes out for a call."""

    body: bytes
    """What to send: the body of the call itself where nothing was changed."""
    reason: str
    """Why it turned out so: one of `agora.Reason`, or a word of the service such as `late`."""
    changed: bool = False
    """Whether the body is not the client's own."""
    tokens_before: int = 0
    """The prompt by our own count; 0 where nobody counted it."""
    tokens_after: int = 0
    thinking_blocks: int = 0
    """How many thinking blocks it goes without, of those that the client sent."""
    detail: str = ""
    compression: Compression | None = None
    """What the session knows it by; None where it has not been looked at."""
    last: Paid | None = None
    """The sizes of the call that it continues, as they were billed."""
    retried: bool = False
    """Whether it is the second attempt, after a refusal."""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that tell the client what was done."""
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
    """What became of a call, for metrics, account and log."""

    status: int = 0
    """The status of the answer; 0 if there was none."""
    usage: Usage | None = None
    answer: Sequence[str] = ()
    """What the answer is known by: the ids of its calls, its text."""
    error: str = ""
    """What went wrong, in a word of ours: `client_left`, `truncated`, `upstream`."""
    detail: str = ""
    """The same in a sentence for the owner, with the address; no label and no log has it."""
    held_seconds: float = 0.0
    """How long the request waited for its edit."""
    first_byte_seconds: float = 0.0
    dollars: float | None = None
    """The price of the call by its usage; None where the provider reported none."""
    saved: float = 0.0
    """Estimate: the dollars that it cost less than without edits; negative if it cost more."""
