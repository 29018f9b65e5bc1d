"""Metrics for Prometheus. No label holds a client's text: models are named by their price sheet."""

from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from agora.service.call import Call, Edited, Outcome

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_MAX_OWNERS = 200
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The families of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"agora_{name}", text, labels, registry=registry)

        self._requests = counter("requests", "Prompts, by what became of them.", "route", "reason")
        self._answers = counter("answers", "Answers of providers.", "route", "status")
        self._errors = counter("errors", "Calls that went wrong.", "route", "error")
        self._resent = counter("resent", "Refused edits that were sent once more.", "route")
        self._tokens = counter("prompt_tokens", "Prompts by our count.", "stage")
        self._usage = counter("usage_tokens", "Tokens that providers reported.", "model", "kind")
        self._dollars = counter("dollars", "Dollars by reported usage.", "model")
        self._saved = counter("saved_dollars", "Estimated dollars that edits saved.", "model")
        self._lost = counter("lost_dollars", "Estimated dollars that edits cost.", "model")
        self._owners = counter("owner_dollars", "Dollars by owner.", "owner", "kind")
        self._thinking = counter("thinking_blocks", "Thinking blocks that were taken out.")
        self._again = counter("asked_again", "Calls repeated after they were shortened.")
        self._expected = counter("expected_again", "So many of these are repeated anyway.")
        self._arms = counter("arm_calls", "Calls in an experiment.", "arm")
        self._arm_errors = counter("arm_errors", "Calls in an experiment that went wrong.", "arm")
        self._arm_dollars = counter("arm_dollars", "Dollars in an experiment.", "arm")
        self._held = Histogram(
            "agora_held_seconds",
            "Time until a prompt was sent.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._state = Gauge("agora_state", "Sizes of this process.", ["what"], registry=registry)
        self._named: set[str] = set()
        # Looking up a child by its labels costs more than counting.
        self._child = lru_cache(maxsize=4_096)(lambda family, *labels: family.labels(*labels))

    def record(self, call: Call, edited: Edited, outcome: Outcome, model: str) -> None:
        """Count a finished call; `model` is the name of its price sheet."""
        route, reason = call.route.name, edited.reason
        self._child(self._requests, route, reason).inc()
        self._child(self._answers, route, str(outcome.status or "none")).inc()
        self._child(self._held, route).observe(outcome.held_seconds)
        if outcome.error:
            self._child(self._errors, route, outcome.error).inc()
        if edited.retried:
            self._child(self._resent, route).inc()
        if edited.tokens_before:
            self._child(self._tokens, "before").inc(edited.tokens_before)
            after = edited.tokens_after if edited.changed else edited.tokens_before
            self._child(self._tokens, "after").inc(after)
        if edited.changed and edited.thinking_blocks:
            self._thinking.inc(edited.thinking_blocks)
        again, expected = edited.repeats_of(outcome)
        self._again.inc(again)
        self._expected.inc(expected)
        if call.arm is not None:
            self._child(self._arms, str(call.arm)).inc()
            failed = bool(outcome.error) or not 200 <= outcome.status < 300
            self._child(self._arm_errors, str(call.arm)).inc(failed)
            self._child(self._arm_dollars, str(call.arm)).inc(outcome.dollars or 0.0)
        if outcome.usage is not None and outcome.dollars is not None:
            for kind in ("uncached", "read", "written", "output"):
                self._child(self._usage, model, kind).inc(getattr(outcome.usage, kind))
            owner = self._owner(call.owner)
            self._child(self._dollars, model).inc(outcome.dollars)
            self._child(self._owners, owner, "spent").inc(outcome.dollars)
            kind, family = ("saved", self._saved) if outcome.saved >= 0 else ("lost", self._lost)
            self._child(family, model).inc(abs(outcome.saved))
            self._child(self._owners, owner, kind).inc(abs(outcome.saved))

    def text(self, **state: float) -> bytes:
        """Return all metrics in Prometheus' format, with these sizes of the process."""
        for what, value in state.items():
            self._state.labels(what).set(value)
        return generate_latest(self._registry)

    def _owner(self, name: str) -> str:
        if name not in self._named:
            if len(self._named) >= _MAX_OWNERS:
                return OTHER
            self._named.add(name)
        return name
