"""What a wrapped session came to, in one line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agora.gateway.watching.snapshot import Snapshot, read_metrics
from agora.wrapping.quota import Quota

_PROMPTS = ("chat", "responses", "messages", "generate", "converse")
_EDITED = ("compressed", "continued", "shortened_at_arrival", "thinking_refused", "shadow")
"""Of these the last is an edit that was only decided on."""
_WORDS = {
    "below_threshold": "too short",
    "own_summary": "the agent's own summary",
    "not_worth_it_yet": "not worth it yet",
    "deadline": "no time",
    "saturated": "no time",
    "breaker_open": "editing paused",
    "illegal_input": "not a legal history",
}
"""The gateway's reasons, where its own words would not do for people."""
_REPORTED = ("fresh", "read", "written", "output")
NO_STEPS = "no steps in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The figures of one session."""

    calls: int = 0
    tokens_in: int = 0
    """Of prompts, as the provider counted them."""
    tokens_cached: int = 0
    """Of these, read from the provider's cache."""
    tokens_out: int = 0
    tokens_elided: int = 0
    """By our own estimate."""
    tokens_arrived: int = 0
    """Of these, left out as soon as they arrived."""
    dollars: float | None = None
    """What the provider's list price is for it; None where no usage was reported."""
    dollars_saved: float = 0.0
    models: tuple[str, ...] = ()
    edited: int = 0
    shadow: bool = False
    """Whether edits were only decided on: then they and the dollars are what would have been."""
    left_alone: Mapping[str, int] = field(default_factory=dict)
    """Calls by why they were forwarded unchanged, in words."""
    errors: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    lost_blocks: int = 0
    """Thinking blocks no longer sent, where the model binds them to what stood before an edit."""
    quota: Quota | None = None
    """What of a subscription's quota was used, where the provider's answers tell."""

    def line(self) -> str:
        """Return it in one line.

        >>> Account().line()
        'agora: no calls'
        >>> Account(calls=2, tokens_in=9_000, tokens_out=50, dollars=0.03, models=("gpt-5",),
        ...     left_alone={"too short": 2}).line()
        'agora: 2 calls, 9,000 tokens in, 50 out, $0.0300 by gpt-5; 0 edited; left alone: 2 too short'
        """  # noqa: E501 - it is one line
        if not self.calls:
            return "agora: no calls" + self._troubles()
        said = [f"{self.calls:,} call{'s' if self.calls > 1 else ''}"]
        would = "would be " if self.shadow else ""
        early = f", {self.tokens_arrived:,} of them at arrival" if self.tokens_arrived else ""
        elided = f" ({self.tokens_elided:,} {would}elided{early})" if self.tokens_elided else ""
        if self.dollars is None:
            said.append(f"tokens and dollars not reported by the provider{elided}")
        else:
            said.append(f"{self.tokens_in:,} tokens in{elided}, {self.tokens_out:,} out")
            saved = ""
            if self.edited:
                less = "less" if self.dollars_saved >= 0 else "more"
                than = "with edits" if self.shadow else "than without"
                saved = f", {dollars(abs(self.dollars_saved))} {less} {than}"
            said.append(f"{dollars(self.dollars)} by {' and '.join(self.models)}{saved}")
        if self.quota is not None and (words := self.quota.words()):
            said.append(words)
        line = f"agora: {', '.join(said)}; {self.edited:,} {would}edited"
        if self.lost_blocks:
            blocks = f"{self.lost_blocks:,} thinking block{'s' if self.lost_blocks > 1 else ''}"
            line += f" ({blocks} no longer sent)"
        if self.left_alone:
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.left_alone.items())
            line += f"; left alone: {why}"
        return line + self._troubles()

    def _troubles(self) -> str:
        said = [f"{count:,} {error.replace('_', ' ')}" for error, count in self.errors.items()]
        line = f"; errors: {', '.join(said)}" if said else ""
        times = f"{self.restarts} time{'s' if self.restarts > 1 else ''}"
        return line + (f"; the gateway was restarted {times}" if self.restarts else "")


def read_account(folder: Path, restarts: int = 0) -> Account:
    """Return the account of what the gateway's processes counted in a folder."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    counted = read_metrics(generate_latest(registry).decode("utf-8"))
    return account_of(counted, restarts)


def account_of(counted: Snapshot, restarts: int = 0) -> Account:
    """Return the account of what was counted."""
    shadow = counted.total("agora_shadow_requests_total") > 0
    which = "agora_shadow_" if shadow else "agora_"
    reasons: dict[str, int] = {}
    for route in _PROMPTS:
        for reason, count in counted.by("agora_requests_total", "reason", route=route).items():
            reasons[reason] = reasons.get(reason, 0) + int(count)
    edited = sum(reasons.pop(reason, 0) for reason in _EDITED)
    left: dict[str, int] = {}
    for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1]):
        word = _WORDS.get(reason, reason.replace("_", " "))
        left[word] = left.get(word, 0) + count
    without = int(counted.total("agora_no_steps_total"))
    if without and "nothing to elide" in left:
        left[NO_STEPS] = min(without, left["nothing to elide"])
        left["nothing to elide"] -= left[NO_STEPS]
    tokens = _by_model(counted)
    # Dollars were counted call by call: a price may depend on the size of the prompt.
    spent = {
        (upstream, model): counted.total(
            "agora_model_dollars_total", upstream=upstream, model=model
        )
        for (upstream, model), kinds in tokens.items()
        if any(kinds.get(kind) for kind in _REPORTED)
    }
    order = sorted(spent, key=lambda key: -spent[key])
    return Account(
        calls=edited + sum(reasons.values()),
        tokens_in=sum(
            int(kinds.get(kind, 0))
            for kinds in tokens.values()
            for kind in ("fresh", "read", "written")
        ),
        tokens_cached=sum(int(kinds.get("read", 0)) for kinds in tokens.values()),
        tokens_out=sum(int(kinds.get("output", 0)) for kinds in tokens.values()),
        tokens_elided=int(counted.total(f"{which}tokens_removed_total")),
        tokens_arrived=int(counted.total("agora_tokens_left_out_at_arrival_total")),
        dollars=sum(spent.values()) if spent else None,
        dollars_saved=counted.total(f"{which}dollars_gained_total")
        - counted.total(f"{which}dollars_lost_total"),
        models=tuple(dict.fromkeys(model for _, model in order)),
        edited=edited,
        shadow=shadow,
        left_alone={word: count for word, count in left.items() if count},
        errors={
            error: int(count)
            for error, count in counted.by("agora_errors_total", "error").items()
            if count
        },
        restarts=restarts,
        lost_blocks=int(counted.total("agora_thinking_blocks_removed_total")),
    )


def _by_model(counted: Snapshot) -> dict[tuple[str, str], dict[str, float]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for upstream in counted.by("agora_model_tokens_total", "upstream"):
        models = counted.by("agora_model_tokens_total", "model", upstream=upstream)
        for model in models:
            found[upstream, model] = counted.by(
                "agora_model_tokens_total", "kind", upstream=upstream, model=model
            )
    return found


def dollars(amount: float) -> str:
    """Return an amount with as many digits as say something.

    >>> dollars(1.614), dollars(0.0312)
    ('$1.61', '$0.0312')
    """
    return f"${amount:.2f}" if amount >= 0.1 else f"${amount:.4f}"
