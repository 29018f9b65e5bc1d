"""A body to be edited, and what is sent instead of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agora.adapters.rules import CATALOGUE
from agora.adapters.spoken import ACTS_BY_TEXT
from agora.core.compression import NO_THINKING, Reason, Rung, Thinking
from agora.core.prices import PriceSheet
from agora.gateway.editing.conversation import ConversationState
from agora.gateway.editing.hindsight import ranges
from agora.gateway.routing.routes import Route

TOO_DEEP = "too_deep"
"""The reason of a body that is refused."""
UNREAD = "unread"
"""The reason of a body in which the messages were not found, or not beyond doubt."""
CONTINUED = "continued"
"""The reason of a body sent with its last edit because there was no time for a new one."""
AHEAD = "ahead"
"""The reason of a job that is about no body at all."""
NOT_ADMITTED = "not_admitted"
"""The reason of a body whose conversation found no room when its first edit was due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A body, and what is known of its request."""

    body: bytes
    route: Route
    sheet_of: Callable[[str | None], PriceSheet]
    """The prices for the model that the body names."""
    model: str | None = None
    """The model that the path names, where it is not in the body."""
    tenant: str = ""
    agent: str = ""
    """What the client calls itself: its User-Agent."""
    until: float = float("inf")
    """When the caller stops waiting, by `time.monotonic`."""
    gone: Callable[[], bool] = bool
    """Tells that nobody waits any more."""
    pause: Callable[[], object] | None = None
    """Where the work is long and nobody waits for it: called between its parts."""
    away: Callable[[Any, Callable[[], bool]], Any] | None = None
    """Where the work is long: has a task (`in_full.Task`) done elsewhere, if that can be."""
    ahead: ConversationState | None = None
    """A conversation whose newest steps are to be read, so that its next edit takes less time;
    then nothing else is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What is sent instead of the client's body, and how it came about."""

    body: bytes
    reason: str
    rung: Rung
    model: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    newest_tokens: int = 0
    """What the newest step and all after it cost: what a warm cache would not have known yet."""
    at_epoch: bool = False
    """Whether the prompt was edited at this very call, so that the cache could not know it."""
    stream: bool = False
    detail: str = ""
    epoch: int = 0
    """How many steps came before the edit that it has; 0 for the client's own body."""
    conversation: ConversationState | None = None
    """Its conversation, where that is remembered."""
    thinking: Thinking = NO_THINKING
    """What it lacks of the model's own thinking."""
    arrived: int = 0
    """How many tokens of its results were left out as they arrived, at this call or before."""
    asks: bool = False
    """Whether it asks the provider to drop thinking that does not hold, which takes a header."""

    @property
    def changed(self) -> bool:
        """Whether it is not the client's own body."""
        return self.rung is not Rung.UNTOUCHED

    @property
    def key(self) -> tuple[int, int] | None:
        """What tells its edit from others of the same conversation; None if it has none."""
        return (self.epoch, int(self.rung)) if self.changed else None

    @property
    def hint(self) -> str:
        """What the client may want to change, in words for a header; empty most of the time."""
        return self.detail if self.detail == ACTS_BY_TEXT else ""

    @property
    def newly_elided(self) -> str:
        """The numbers of the steps that an edit at this very call elides."""
        if not self.at_epoch or self.conversation is None:
            return ""
        last = self.conversation.hindsight
        return ranges(last.elided) if last is not None else ""

    @property
    def rule(self) -> str:
        """The code of the rule that the client's history breaks, where that is the reason."""
        reason, _, code = self.reason.partition(":")
        if reason != Reason.ILLEGAL_INPUT:
            return ""
        code = code or self.detail.partition(" ")[0]
        return code if code in CATALOGUE else "other"


class Look(NamedTuple):
    """What the event loop itself can say of a body."""

    edited: Edited | None = None
    """What becomes of it, if nothing is due."""
    conversation: ConversationState | None = None
    """Its conversation: there is an edit to continue with when time runs out."""
    begins: bool = False
    """Whether it has no more steps than are always kept: nothing of it was edited elsewhere."""
