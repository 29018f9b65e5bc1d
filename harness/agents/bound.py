"""What a session with a model that binds its thinking shows: refusals, and thinking that was lost.

Pure: computed from the requests at both ends, the gateway's log and when it was replaced. Thinking
is counted in the requests themselves, not taken from what the gateway says of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any

from agora.core.prices import sheet_for
from harness.agents.analysis import Pair
from harness.agents.cache import Usage
from harness.agents.record import Request
from harness.agents.wire import Json, Prompt, extends, history_of, prompt_of

BEFORE = "before"
"""What the gateway is called that is of the release before."""
_THINKING = ("thinking", "redacted_thinking")
_SMALL = 20
"""Fewer values have no percentiles worth the name."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A gateway that was replaced while the agent worked."""

    to: str
    at: float
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit as the provider got it: the first call whose prompt it changed."""

    call: int
    """Counted from 1."""
    blocks: int
    """Thinking blocks that this call lacks and the one before it still had, or was made of."""
    under: str
    """The gateway that made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The figures of one session."""

    calls: int
    """The agent's."""
    made: int
    """Requests that the provider answered: each is a step of its script."""
    lost: int
    """Calls without any answer: the agent sent them again."""
    refused: tuple[tuple[int, str, str], ...]
    """Calls that were refused in the end: number, gateway, the provider's words."""
    answered: tuple[tuple[int, str], ...]
    """Calls that were refused and then accepted without thinking: number and gateway."""
    dropped: tuple[tuple[int, str, int], ...]
    """Calls of which the provider dropped blocks without a word: number, gateway, blocks."""
    edits: tuple[Edit, ...]
    edited_calls: int
    blocks_sent: int
    """Thinking blocks in the last call, as the agent sent it."""
    blocks_arrived: int
    """In the same, as the provider got it."""
    tokens: int
    """Of prompts, by the provider's count."""
    dollars: float
    """For prompts, by the provider's count and the model's price list."""


def measure(exchanges: Sequence[Pair], replaced: Sequence[Replaced], began_as: str) -> Bound:
    """Return a session's figures."""
    refused, answered, dropped = [], [], []
    for number, exchange in enumerate(exchanges, 1):
        under = in_charge(exchange, replaced, began_as)
        last = exchange.billed
        if last is None:
            continue
        if last.verdict:
            refused.append((number, under, last.verdict))
        elif any(one.verdict for one in exchange.arrived):
            answered.append((number, under))
        if last.thinking.get("dropped"):
            dropped.append((number, under, int(last.thinking["dropped"])))
    reached = [e for e in exchanges if e.billed is not None]
    ends = (reached[-1].sent, reached[-1].billed) if reached else (None, None)
    arrived = [one for exchange in exchanges for one in exchange.arrived]
    return Bound(
        calls=len(exchanges),
        made=sum(one.status == 200 for one in arrived),
        lost=sum(e.sent.status == 0 for e in exchanges),
        refused=tuple(refused),
        answered=tuple(answered),
        dropped=tuple(dropped),
        edits=tuple(_edits(exchanges, replaced, began_as)),
        edited_calls=sum(_is_edited(e) for e in reached),
        blocks_sent=_blocks(ends[0]),
        blocks_arrived=_blocks(ends[1]),
        tokens=sum(Usage(**one.usage).tokens for one in arrived if one.usage),
        dollars=sum(
            Usage(**one.usage).dollars(sheet_for(one.model)) for one in arrived if one.usage
        ),
    )


def in_charge(exchange: Pair, replaced: Sequence[Replaced], began_as: str) -> str:
    """Return the gateway that an exchange went through, by the time at which it was sent on."""
    at = exchange.billed.at if exchange.billed is not None else exchange.sent.at
    names = [began_as, *(one.to for one in replaced if one.to != "killed" and one.at <= at)]
    return names[-1]


def _edits(
    exchanges: Sequence[Pair], replaced: Sequence[Replaced], began_as: str
) -> Iterable[Edit]:
    """Yield the calls at which an edit begins: edited, and no continuation of the call before.

    Thinking is left out of the comparison, since taking it out is no edit by itself.
    """
    before: Prompt = ()
    lacked = 0
    for number, exchange in enumerate(exchanges, 1):
        if exchange.billed is None:
            continue
        lacks = _blocks(exchange.sent) - _blocks(exchange.billed)
        bare = _bare(exchange.billed)
        if _is_edited(exchange) and not extends(bare, before):
            yield Edit(number, lacks - lacked, in_charge(exchange, replaced, began_as))
        before, lacked = bare, lacks


def _is_edited(exchange: Pair) -> bool:
    """Tell whether more than thinking was changed."""
    assert exchange.billed is not None
    sent, arrived = _bare(exchange.sent), _bare(exchange.billed)
    return [one.text for one in sent] != [one.text for one in arrived]


def _bare(request: Request) -> Prompt:
    body = request.json or {}
    messages = [_without_thinking(one) for one in history_of(request.route, body)]
    return prompt_of(request.route, {**body, "messages": messages})


def _without_thinking(message: Json) -> Json:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [b for b in content if b.get("type") not in _THINKING]}


def _blocks(request: Request | None) -> int:
    if request is None:
        return 0
    history = history_of(request.route, request.json or {})
    contents = [one.get("content") for one in history]
    return sum(
        block.get("type") in _THINKING
        for content in contents
        if isinstance(content, list)
        for block in content
    )


def held(log: str) -> dict[str, float]:
    """Return how long the gateway held the prompts in its log, in milliseconds.

    >>> held('{"message": "request", "route": "messages", "held_ms": 2.0}')
    {'calls': 1, 'mean': 2.0, 'median': 2.0, 'p95': 2.0, 'most': 2.0}
    """
    found = [float(line["held_ms"]) for line in lines_of(log) if "held_ms" in line]
    if not found:
        return {"calls": 0}
    high = quantiles(found, n=20)[-1] if len(found) >= _SMALL else max(found)
    figures = {"mean": fmean(found), "median": median(found), "p95": high, "most": max(found)}
    return {"calls": len(found), **{name: round(value, 2) for name, value in figures.items()}}


def lines_of(log: str) -> list[dict[str, Any]]:
    """Return the lines about prompts in a gateway's log."""
    found = []
    for text in log.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        prompt = isinstance(line, dict) and line.get("route") == "messages"
        if prompt and line.get("message") == "request":
            found.append(line)
    return found


def problems(
    bound: Bound, *, steps: int, finished: bool, switches: int, replaced: Sequence[Replaced]
) -> list[str]:
    """Return what a session through a gateway does not show though it has to, in words.

    A refusal that the gateway answered itself is allowed once for each time it was replaced. What
    the release before lets be refused is its own, and in `notes`.
    """
    found = []
    given_up = not finished and _ended_before(bound)
    if not finished and not given_up:
        found.append("the agent did not come to its end")
    if bound.made <= steps and not given_up:
        found.append(f"{bound.made} steps were made, of {steps + 1}")
    ours = [number for number, under, _ in bound.refused if under != BEFORE]
    if ours:
        found.append(f"requests were refused, at calls {', '.join(map(str, ours))}")
    if len(bound.answered) > switches:
        found.append(f"{len(bound.answered)} refusals were answered, with {switches} switches")
    if len(replaced) < switches and not given_up:
        found.append(f"the gateway was replaced {len(replaced)} times of {switches}")
    if not bound.edits:
        found.append("no edit was made")
    return found


def notes(bound: Bound, *, finished: bool) -> list[str]:
    """Return what became of a session while the release before was in charge."""
    found = [
        f"the release before let call {number} be refused"
        for number, under, _ in bound.refused
        if under == BEFORE
    ]
    if not finished and _ended_before(bound):
        found.append("with that the agent gave up")
    return found


def _ended_before(bound: Bound) -> bool:
    """Tell whether the last call was refused while the release before was in charge."""
    last = bound.refused[-1] if bound.refused else (0, "", "")
    return last[:2] == (bound.calls, BEFORE)


def saving(direct: Mapping[str, Any], through: Mapping[str, Any]) -> dict[str, float]:
    """Return what a session saved of the bill of one without a gateway.

    >>> saving({"tokens": 200, "dollars": 2.0}, {"tokens": 150, "dollars": 1.5})
    {'tokens': 50, 'dollars': 0.5, 'percent': 25.0}
    """
    less = direct["dollars"] - through["dollars"]
    percent = 100 * less / direct["dollars"] if direct["dollars"] else 0.0
    tokens = direct["tokens"] - through["tokens"]
    return {"tokens": tokens, "dollars": round(less, 6), "percent": round(percent, 2)}
