"""Analyse a recorded session: edits, breaks of the prefix, bills, unedited calls.

Pure: computed from the requests at both ends and from the prompts that the library makes of the
same history without a deadline. A *break* is a call whose prompt, as the provider got it, does not
continue the prompt of the call before. A break is *wanted* if the library makes a new edit there
and the provider got that edit, at that call or a later one. Every other break is unwanted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agora import Compressor, sheet_for
from agora.core.prefix_cache import PrefixCache
from agora.formats import validate
from harness.agents.record import Request, header
from harness.agents.rules import refusal
from harness.agents.wire import (
    FORMATS,
    Json,
    Prompt,
    Route,
    cache_for,
    extends,
    history_of,
    prompt_of,
    segments,
)

_SYSTEM = {
    "anthropic": "system",
    "responses": "instructions",
    "gemini": "systemInstruction",
}
"""Where each format has its system text, if not among the messages."""
PROMPTS: frozenset[Route] = frozenset({"chat", "responses", "messages", "gemini"})
OWN_SUMMARY = "own_summary"
"""The proxy's reason for an agent's own compaction."""
_SAVED_WITHIN = 2.0
_CLAIMED_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A call of the agent, and the requests in which it reached the provider."""

    sent: Request
    arrived: tuple[Request, ...] = ()
    """More than one if an edit was refused and the request was sent again unedited."""

    @property
    def billed(self) -> Request | None:
        """The request that got the final answer; None if none reached the provider."""
        return self.arrived[-1] if self.arrived else None

    @property
    def edited(self) -> bool:
        """True if the provider got another prompt than the agent sent."""
        return self.billed is not None and _texts(self.billed.prompt) != _texts(self.sent.prompt)

    @property
    def reason(self) -> str:
        """The proxy's reason code for an unedited request."""
        return header(self.sent.answer_headers, "x-agora-untouched") or "(not said)"


@dataclass(frozen=True, slots=True)
class Breaks:
    """Breaks of the provider's prefix, wanted and unwanted."""

    wanted: int = 0
    unwanted: tuple[int, ...] = ()
    """The numbers of the calls with an unwanted break."""
    late: int = 0
    """Calls between the due edit and the edit, summed over all wanted breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One agent's line of the table."""

    calls: int
    model: str
    """The model of most calls."""
    edited: int
    refused_edits: Mapping[str, int]
    """The provider's refusals of edited requests, by message."""
    broken_by_edit: Mapping[str, int]
    """Rules of our own validator that an edited request breaks and the agent's own did not."""
    breaks: Breaks
    dollars_direct: float
    dollars_through: float
    dollars_offline: float
    dollars_claimed: float
    left_alone: Mapping[str, int]
    """The proxy's reasons for requests that it did not edit, and how often it had each."""
    lost: int = 0
    """Calls that never reached the provider."""

    @property
    def legal(self) -> bool:
        """True if no edit was refused and none broke a rule."""
        return not self.refused_edits and not self.broken_by_edit

    @property
    def saved(self) -> float:
        """The prompt bill in per cent of the direct one."""
        return _share(self.dollars_direct, self.dollars_through)

    @property
    def saved_offline(self) -> float:
        """Per cent that the library saves without a deadline."""
        return _share(self.dollars_direct, self.dollars_offline)

    @property
    def claimed_off_by(self) -> float | None:
        """Per cent by which the claim differs from the true saving.

        None if nothing was saved and nothing claimed.
        """
        true = self.dollars_direct - self.dollars_through
        if abs(true) < 1e-9:
            return None if abs(self.dollars_claimed) < 1e-9 else float("inf")
        return 100 * (self.dollars_claimed - true) / abs(true)

    def problems(self) -> tuple[str, ...]:
        """Return which goals are missed, each with its figure."""
        found = []
        if not self.legal:
            found.append("illegal requests")
        if self.lost:
            found.append(f"{self.lost} calls lost")
        if self.breaks.unwanted:
            found.append(f"{len(self.breaks.unwanted)} unwanted breaks")
        if self.saved < self.saved_offline - _SAVED_WITHIN:
            found.append(f"saved {self.saved:.1f} %, offline {self.saved_offline:.1f} %")
        off = self.claimed_off_by
        if off is not None and abs(off) > _CLAIMED_WITHIN:
            found.append(f"claimed off by {off:+.0f} %")
        return tuple(found)


def pair(sent: Iterable[Request], arrived: Iterable[Request]) -> list[Pair]:
    """Match each of the agent's prompts with the requests that reached the provider.

    Requests carry no id. An edit never changes the newest message, so a request belongs to the
    earliest open prompt of the same route with the same end. A refused request may come again.
    """
    exchanges = [Pair(request) for request in sent if request.route in PROMPTS]
    for request in arrived:
        if request.route not in PROMPTS:
            continue
        open_ones = [
            n
            for n, exchange in enumerate(exchanges)
            if exchange.sent.at <= request.at
            and exchange.sent.route == request.route
            and (exchange.billed is None or exchange.billed.verdict)
        ]
        alike = [n for n in open_ones if _end(exchanges[n].sent) == _end(request)]
        # An unanswered or refused request may have been sent again: take the later one.
        alike.sort(key=lambda n: (exchanges[n].sent.status == 0, bool(exchanges[n].arrived)))
        found = next(iter(alike), open_ones[0] if open_ones else None)
        if found is not None:
            exchange = exchanges[found]
            exchanges[found] = replace(exchange, arrived=(*exchange.arrived, request))
    return exchanges


def offline(exchanges: Sequence[Pair], compressor: Compressor) -> list[Prompt]:
    """Return the prompt that the library makes of each call, without a proxy and a deadline."""
    return [_offline(exchange.sent, compressor) for exchange in exchanges]


def parents(prompts: Sequence[Prompt]) -> list[int | None]:
    """Return for each prompt the latest earlier prompt that it continues, or None."""
    found: list[int | None] = []
    for n, prompt in enumerate(prompts):
        before = (m for m in range(n - 1, -1, -1) if prompts[m] and extends(prompt, prompts[m]))
        found.append(next(before, None))
    return found


def breaks(
    sent: Sequence[Prompt], arrived: Sequence[Prompt | None], wanted: Sequence[Prompt]
) -> Breaks:
    """Return the breaks of the prefix at the provider; `wanted` has the library's own prompts."""
    counted = Breaks()
    pending: dict[int, list[int]] = {}
    """Epochs that have not reached the provider, by the call whose conversation they are of."""
    for n, parent in enumerate(parents(sent)):
        if parent is None:
            pending[n] = [] if _texts(wanted[n]) == _texts(sent[n]) else [n]
            continue
        due = list(pending.get(parent, ()))
        if not extends(wanted[n], wanted[parent]):
            due.append(n)
        got, before = arrived[n], arrived[parent]
        if got is not None and before is not None and not extends(got, before):
            served = [epoch for epoch in due if extends(got, wanted[epoch])]
            if served:
                counted = replace(
                    counted, wanted=counted.wanted + 1, late=counted.late + n - served[-1]
                )
                due = [epoch for epoch in due if epoch > served[-1]]
            else:
                counted = replace(counted, unwanted=(*counted.unwanted, n + 1))
        pending[n] = due
    return counted


def dollars(calls: Iterable[tuple[Request, Prompt]]) -> float:
    """Return the bill for prompts sent at the times of these requests, to empty caches."""
    caches: dict[str, PrefixCache] = {}
    total = 0.0
    for request, prompt in calls:
        cache = caches.setdefault(sheet_for(request.model).name, cache_for(request.model))
        total += cache.send(segments(prompt), request.at).dollars
    return total


def analyse(exchanges: Sequence[Pair], wanted: Sequence[Prompt], claimed: float) -> Row:
    """Return a session's line of the table."""
    prompts = [exchange.sent.prompt for exchange in exchanges]
    arrived = [None if e.billed is None else e.billed.prompt for e in exchanges]
    reached = [e for e in exchanges if e.billed is not None]
    refused_edits: Counter[str] = Counter()
    for sent, one in ((e.sent, one) for e in exchanges for one in e.arrived if one.verdict):
        refused_edits[one.verdict] += _texts(sent.prompt) != _texts(one.prompt)
    broken: Counter[str] = Counter()
    for exchange in reached:
        before = _broken(exchange.sent)
        for one in exchange.arrived:
            broken.update(_broken(one) - before)
    models = Counter(e.sent.model for e in exchanges)
    return Row(
        calls=len(exchanges),
        model=max(models, key=models.__getitem__, default=""),
        edited=sum(e.edited for e in exchanges),
        refused_edits=+refused_edits,
        broken_by_edit=broken,
        breaks=breaks(prompts, arrived, wanted),
        dollars_direct=dollars(_taken(exchanges, prompts)),
        dollars_through=spent(one for e in exchanges for one in e.arrived),
        dollars_offline=dollars(_taken(exchanges, wanted)),
        dollars_claimed=claimed,
        left_alone=dict(Counter(e.reason for e in exchanges if not e.edited).most_common()),
        lost=len(exchanges) - len(reached),
    )


def _taken(exchanges: Sequence[Pair], prompts: Sequence[Prompt]) -> list[tuple[Request, Prompt]]:
    """Return the calls that a provider would have billed: those it does not refuse unedited."""
    calls = zip(exchanges, prompts, strict=True)
    return [(e.sent, prompt) for e, prompt in calls if not _refused(e.sent)]


def _refused(request: Request) -> str:
    betas = header(request.headers, "anthropic-beta")
    return refusal(request.route, request.json or {}, betas)


def spent(requests: Iterable[Request]) -> float:
    """Return the provider's bill for prompts, from the usage that it reported."""
    return sum(
        sheet_for(request.model).dollars(**request.usage) for request in requests if request.usage
    )


def _offline(request: Request, compressor: Compressor) -> Prompt:
    body, format = request.json, FORMATS.get(request.route)
    if body is None or format is None or not history_of(request.route, body):
        return request.prompt
    if body.get("previous_response_id") or body.get("conversation"):
        return request.prompt
    if header(request.answer_headers, "x-agora-untouched") == OWN_SUMMARY:
        # The agent goes on from the answer alone: the proxy sends all of it, on purpose.
        return request.prompt
    compression = compressor.compress(
        history_of(request.route, body), model=request.model, format=format, **_beside(body, format)
    )
    if not compression.changed:
        return request.prompt
    name = {"responses": "input", "gemini": "contents"}.get(format, "messages")
    return prompt_of(request.route, {**body, name: compression.messages})


def _beside(body: Json, format: str) -> Json:
    """Return the fields beside the messages, under the library's names."""
    thinking = body.get("thinking") if format == "anthropic" else None
    return {
        "system": body.get(_SYSTEM.get(format, "")),
        "tools": body.get("tools"),
        "thinking": thinking.get("type") != "disabled" if isinstance(thinking, dict) else None,
    }


def _broken(request: Request) -> set[str]:
    body, format = request.json, FORMATS.get(request.route)
    if body is None or format is None or not history_of(request.route, body):
        return set()
    found = validate(
        history_of(request.route, body),
        format=format,
        model=request.model,
        **_beside(body, format),
    )
    return {broken.code for broken in found}


def _texts(prompt: Prompt) -> list[str]:
    return [block.text for block in prompt]


def _end(request: Request) -> str:
    prompt = request.prompt
    return prompt[-1].text if prompt else ""


def _share(direct: float, now: float) -> float:
    return 100 * (1 - now / direct) if direct else 0.0
