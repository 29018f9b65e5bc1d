"""Analyse a session with a model that binds thinking: refusals, and lost thinking.

Pure: computed from the requests at both ends. Thinking is counted in the requests themselves, not
taken from what the gateway says of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.agents.analysis import Pair, spent
from harness.agents.record import Request
from harness.agents.wire import Json, Prompt, extends, history_of, prompt_of

_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit as the provider got it: the first call whose prompt it changed."""

    call: int
    """Counted from 1."""
    blocks: int
    """Thinking blocks of the call before, or of its answer, that this call lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The figures of one session."""

    calls: int
    """The agent's."""
    answered: int
    """Requests that the provider answered, each a step of its script."""
    refused: tuple[tuple[int, str], ...]
    """Calls that were refused in the end: number, and the provider's words."""
    rescued: int
    """Calls that were refused and then accepted, sent again without thinking."""
    dropped: tuple[tuple[int, int], ...]
    """Calls of which the provider dropped blocks silently: number, and blocks."""
    edits: tuple[Edit, ...]
    dollars: float
    """For prompts, by the provider's count and the model's price list."""


def measure(exchanges: Sequence[Pair]) -> Bound:
    """Return a session's figures."""
    numbered = [(n, e.billed, e) for n, e in enumerate(exchanges, 1) if e.billed is not None]
    arrived = [request for exchange in exchanges for request in exchange.arrived]
    return Bound(
        calls=len(exchanges),
        answered=sum(request.status == 200 for request in arrived),
        refused=tuple((n, last.verdict) for n, last, _ in numbered if last.verdict),
        rescued=sum(
            not last.verdict and any(request.verdict for request in exchange.arrived)
            for _, last, exchange in numbered
        ),
        dropped=tuple(
            (n, int(last.thinking["dropped"]))
            for n, last, _ in numbered
            if last.thinking.get("dropped")
        ),
        edits=tuple(_edits(exchanges)),
        dollars=spent(arrived),
    )


def _edits(exchanges: Sequence[Pair]) -> Iterable[Edit]:
    """Yield the calls at which an edit begins: edited, and no continuation of the call before.

    Thinking is left out of the comparison, since taking it out is no edit by itself.
    """
    before: Prompt = ()
    lacked = 0
    for number, exchange in enumerate(exchanges, 1):
        if exchange.billed is None:
            continue
        lacks = _blocks(exchange.sent) - _blocks(exchange.billed)
        sent, arrived = _without_thinking(exchange.sent), _without_thinking(exchange.billed)
        edited = [block.text for block in sent] != [block.text for block in arrived]
        if edited and not extends(arrived, before):
            yield Edit(number, lacks - lacked)
        before, lacked = arrived, lacks


def _without_thinking(request: Request) -> Prompt:
    def rest(message: Json) -> Json:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        return {**message, "content": [b for b in content if b.get("type") not in _THINKING]}

    body = request.json or {}
    messages = [rest(message) for message in history_of(request.route, body)]
    return prompt_of(request.route, {**body, "messages": messages})


def _blocks(request: Request) -> int:
    contents = [m.get("content") for m in history_of(request.route, request.json or {})]
    return sum(
        block.get("type") in _THINKING
        for content in contents
        if isinstance(content, list)
        for block in content
    )


def problems(bound: Bound, *, steps: int, restarts: int) -> list[str]:
    """Return a sentence for each requirement that a session fails.

    One refusal that the gateway answers itself is allowed for each time it was restarted.
    """
    found = []
    if bound.answered <= steps:
        found.append(f"{bound.answered} steps were made, of {steps + 1}")
    if bound.refused:
        numbers = ", ".join(str(number) for number, _ in bound.refused)
        found.append(f"requests were refused, at calls {numbers}")
    if bound.rescued > restarts:
        found.append(f"{bound.rescued} refusals were answered, with {restarts} restarts")
    if not bound.edits:
        found.append("no edit was made")
    return found
