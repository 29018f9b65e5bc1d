"""What a recorded session shows: edits, breaks of the prefix, bills, and what was left alone.

Pure: computed from the requests at both ends and from the prompts that the library makes of the
same history without a deadline. A *break* is a call whose prompt, as the provider got it, does not
continue the prompt that it got for the call before. It is *wanted* where the library starts a new
epoch there and the provider got that very edit, at that call or a later one. Every other break is
unwanted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agora.adapters import validate
from agora.compressor import Compressor
from agora.core.prices import sheet_for
from harness.agents.cache import ExactCache, Usage
from harness.agents.record import Request, header
from harness.agents.rules import refusal
from harness.agents.wire import FORMATS, Json, Prompt, Route, extends, history_of, prompt_of

_SYSTEM = {
    "anthropic": "system",
    "responses": "instructions",
    "gemini": "systemInstruction",
}
"""Where each format has its system text, if not among the messages."""
PROMPTS: frozenset[Route] = frozenset({"chat", "responses", "messages", "gemini"})
MISSED = ("deadline", "saturated", "breaker_open")
"""How the reasons begin for which an edit came too late, or was not even tried."""
OWN_SUMMARY = "own_summary"
"""The gateway's reason for an agent's own compaction."""
_SAVED_WITHIN = 2.0
_CLAIMED_WITHIN = 3.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A call of the agent, and what of it reached the provider."""

    sent: Request
    arrived: tuple[Request, ...] = ()
    """More than one if an edit was refused and the request was sent again unedited."""

    @property
    def billed(self) -> Request | None:
        """The request that was answered in the end; None where none reached the provider."""
        return self.arrived[-1] if self.arrived else None

    @property
    def edited(self) -> bool:
        """Whether the provider got another prompt than the agent sent."""
        return self.billed is not None and _texts(self.billed.prompt) != _texts(self.sent.prompt)

    @property
    def reason(self) -> str:
        """Why the gateway left the request alone, in its own word."""
        return header(self.sent.answer_headers, "x-agora-untouched") or "(not said)"


@dataclass(frozen=True, slots=True)
class Breaks:
    """How often the provider's prefix broke, and by whom it was wanted."""

    wanted: int = 0
    unwanted: tuple[int, ...] = ()
    """The numbers of the calls at which it broke without need."""
    late: int = 0
    """Calls, over all wanted breaks, between the epoch and the edit."""
    never: int = 0
    """Epochs of the library that never reached the provider."""
    by_agent: int = 0
    """Calls at which the agent itself did not continue what it had sent before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One agent's line of the table."""

    calls: int
    models: Mapping[str, int]
    edited: int
    refused: Mapping[str, int]
    """What the provider refused of the agent's own requests, by its words."""
    refused_edits: Mapping[str, int]
    """What it refused of edited ones."""
    broken_by_edit: Mapping[str, int]
    """Rules of our own validator that an edited request breaks and the agent's own did not."""
    objections: Mapping[str, int]
    """Rules that our validator finds broken in what the agent itself sent."""
    breaks: Breaks
    dollars_direct: float
    dollars_through: float
    dollars_offline: float
    dollars_claimed: float
    missed: int
    left_alone: Mapping[str, int]
    statuses: Mapping[str, int]
    """Answers that the agent got, by status."""
    lost: int = 0
    """Calls that never reached the provider."""

    @property
    def legal(self) -> bool:
        """Whether no edit was refused, and none broke a rule."""
        return not self.refused_edits and not self.broken_by_edit

    @property
    def saved(self) -> float:
        """Per cent of the direct prompt bill."""
        return _share(self.dollars_direct, self.dollars_through)

    @property
    def saved_offline(self) -> float:
        """Per cent that the library saves without a deadline."""
        return _share(self.dollars_direct, self.dollars_offline)

    @property
    def claimed_off_by(self) -> float | None:
        """Per cent by which the gateway's claim differs from the true saving.

        None where nothing was saved and nothing claimed.
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
    """Return each of the agent's prompts with what reached the provider of it.

    Nothing in a request says which one it was, and nothing is added to it for that. An edit never
    changes the newest message, so a request belongs to the earliest one of the same route that is
    still open and ends alike; one that was refused may come once more.
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
        # One that got no answer, or a refusal, may have been sent again: the later one is meant.
        alike.sort(key=lambda n: (exchanges[n].sent.status == 0, bool(exchanges[n].arrived)))
        found = next(iter(alike), open_ones[0] if open_ones else None)
        if found is not None:
            exchange = exchanges[found]
            exchanges[found] = replace(exchange, arrived=(*exchange.arrived, request))
    return exchanges


def offline(exchanges: Sequence[Pair], compressor: Compressor) -> list[Prompt]:
    """Return the prompt that the library makes of each call, without a gateway and a deadline."""
    return [_offline(exchange.sent, compressor) for exchange in exchanges]


def parents(prompts: Sequence[Prompt]) -> list[int | None]:
    """Return for each prompt the latest one before it that it continues; None where it is new."""
    found: list[int | None] = []
    for n, prompt in enumerate(prompts):
        before = (m for m in range(n - 1, -1, -1) if prompts[m] and extends(prompt, prompts[m]))
        found.append(next(before, None))
    return found


def breaks(
    sent: Sequence[Prompt], arrived: Sequence[Prompt | None], wanted: Sequence[Prompt]
) -> Breaks:
    """Return where the prefix broke at the provider; `wanted` is what the library makes of it."""
    counted = Breaks()
    pending: dict[int, list[int]] = {}
    """Epochs that have not reached the provider, by the call whose conversation they are of."""
    for n, parent in enumerate(parents(sent)):
        if parent is None:
            follows_another = (
                n > 0 and bool(sent[n]) and any(_alike(sent[n], one) for one in sent[:n])
            )
            counted = replace(counted, by_agent=counted.by_agent + follows_another)
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
    ends = set(range(len(sent))) - {parent for parent in parents(sent) if parent is not None}
    return replace(counted, never=sum(len(pending[end]) for end in ends))


def bill(calls: Iterable[tuple[Request, Prompt]]) -> tuple[Usage, ...]:
    """Return what prompts cost that are sent at the times of these requests, to empty caches."""
    caches: dict[str, ExactCache] = {}
    return tuple(
        caches.setdefault(sheet_for(request.model).name, ExactCache(sheet_for(request.model))).send(
            prompt, request.at
        )
        for request, prompt in calls
    )


def dollars(calls: Sequence[tuple[Request, Prompt]]) -> float:
    """Return the prompt bill of these calls."""
    return sum(
        usage.dollars(sheet_for(request.model))
        for (request, _), usage in zip(calls, bill(calls), strict=True)
    )


def analyse(exchanges: Sequence[Pair], wanted: Sequence[Prompt], claimed: float) -> Row:
    """Return a session's line of the table."""
    prompts = [exchange.sent.prompt for exchange in exchanges]
    arrived = [None if e.billed is None else e.billed.prompt for e in exchanges]
    reached = [e for e in exchanges if e.billed is not None]
    refused: Counter[str] = Counter()
    refused_edits: Counter[str] = Counter()
    for sent, one in ((e.sent, one) for e in exchanges for one in e.arrived if one.verdict):
        edited = _texts(sent.prompt) != _texts(one.prompt)
        (refused_edits if edited else refused)[one.verdict] += 1
    mended: Counter[str] = Counter()
    objections: Counter[str] = Counter()
    for exchange in reached:
        own = _broken(exchange.sent)
        objections.update(own)
        for one in exchange.arrived:
            mended.update(_broken(one) - own)
    left = Counter(e.reason for e in exchanges if not e.edited)
    return Row(
        calls=len(exchanges),
        models=dict(Counter(e.sent.model for e in exchanges)),
        edited=sum(e.edited for e in exchanges),
        refused=dict(refused),
        refused_edits=dict(refused_edits),
        broken_by_edit=dict(mended),
        objections=dict(objections),
        breaks=breaks(prompts, arrived, wanted),
        dollars_direct=dollars(_taken(exchanges, prompts)),
        dollars_through=_spent(one for e in exchanges for one in e.arrived),
        dollars_offline=dollars(_taken(exchanges, wanted)),
        dollars_claimed=claimed,
        missed=sum(count for reason, count in left.items() if reason.startswith(MISSED)),
        left_alone=dict(left.most_common()),
        statuses=dict(Counter(str(e.sent.status) for e in exchanges)),
        lost=len(exchanges) - len(reached),
    )


def _taken(exchanges: Sequence[Pair], prompts: Sequence[Prompt]) -> list[tuple[Request, Prompt]]:
    """Return the calls that a provider would have billed: those it does not refuse unedited."""
    calls = zip(exchanges, prompts, strict=True)
    return [(e.sent, prompt) for e, prompt in calls if not _refused(e.sent)]


def _refused(request: Request) -> str:
    betas = header(request.headers, "anthropic-beta")
    return refusal(request.route, request.json or {}, betas)


def _spent(requests: Iterable[Request]) -> float:
    """Return the provider's bill for prompts, from the usage that it reported."""
    return sum(
        Usage(**request.usage).dollars(sheet_for(request.model))
        for request in requests
        if request.usage
    )


def _offline(request: Request, compressor: Compressor) -> Prompt:
    body, format = request.json, FORMATS.get(request.route)
    if body is None or format is None or not history_of(request.route, body):
        return request.prompt
    if body.get("previous_response_id") or body.get("conversation"):
        return request.prompt
    if header(request.answer_headers, "x-agora-untouched") == OWN_SUMMARY:
        # The agent goes on from the answer alone: the gateway sends all of it, on purpose.
        return request.prompt
    compression = compressor.compress(
        history_of(request.route, body), model=request.model, format=format, **_beside(body, format)
    )
    if not compression.changed:
        return request.prompt
    name = {"responses": "input", "gemini": "contents"}.get(format, "messages")
    return prompt_of(request.route, {**body, name: compression.messages})


def _beside(body: Json, format: str) -> Json:
    """Return what stands next to the messages, as the library takes it."""
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


def _alike(one: Prompt, other: Prompt) -> bool:
    """Tell whether two prompts are of one conversation: most of the shorter one is shared."""
    shared = sum(a.text == b.text for a, b in zip(one, other, strict=False))
    return 2 * shared > min(len(one), len(other)) and len(one) > 4 and len(other) > 4


def _share(direct: float, now: float) -> float:
    return 100 * (1 - now / direct) if direct else 0.0
