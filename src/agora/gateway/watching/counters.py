"""Every metric of the gateway: its name, its labels, and the sentence that Prometheus shows."""

import agora
from agora.errors import MissingExtraError
from agora.gateway.watching.processes import Processes

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

_HELD = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_WAITED = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOOK = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)


class Counters:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._count_requests()
        self._count_shadow()
        self._count_models()
        self._count_times()
        self._count_state()
        Processes(self.registry)

    def _count_requests(self) -> None:
        """Make the counters of requests and of what tenants were billed."""
        self.requests = self._counter(
            "requests", "Requests, by what became of them.", "route", "tenant", "rung", "reason"
        )
        self.tokens_in = self._counter(
            "tokens_in", "Prompt tokens received, by our estimate.", "route", "tenant"
        )
        self.tokens_removed = self._counter(
            "tokens_removed", "Prompt tokens elided, by our estimate.", "route", "tenant"
        )
        self.tokens_arrived = self._counter(
            "tokens_left_out_at_arrival",
            "Those of the removed tokens that were left out as soon as they arrived.",
            "route",
            "tenant",
        )
        self.usage_tokens = self._counter(
            "usage_tokens",
            "Tokens as the provider reported them: fresh, read, written, output.",
            "route",
            "tenant",
            "kind",
        )
        self.gained = self._counter(
            "dollars_gained", "Dollars saved on calls that cost less.", "route", "tenant"
        )
        self.lost = self._counter(
            "dollars_lost",
            "Dollars lost on calls that cost more; the net is gained less lost.",
            "route",
            "tenant",
        )
        self.no_steps = self._counter(
            "no_steps",
            "Requests of ten or more turns in which no step was seen: the agent may act by text.",
            "route",
            "tenant",
        )
        self.thinking_removed = self._counter(
            "thinking_blocks_removed",
            "Thinking blocks no longer sent, since the model binds them to what preceded an edit.",
            "route",
            "tenant",
        )
        self.stand_downs = self._counter(
            "stand_downs", "Times compressing stopped for a tenant it cost money.", "tenant"
        )

    def _count_shadow(self) -> None:
        """Make the counters of edits that were not made, and of what came after edits."""
        where = ("route", "tenant")
        self.shadow_requests = self._counter(
            "shadow_requests",
            "Requests in shadow mode, by what would have become of them.",
            *where,
            "rung",
            "reason",
        )
        self.shadow_tokens_in = self._counter(
            "shadow_tokens_in", "Prompt tokens received in shadow mode, by our estimate.", *where
        )
        self.shadow_tokens_removed = self._counter(
            "shadow_tokens_removed", "Prompt tokens that would have been elided.", *where
        )
        self.shadow_gained = self._counter(
            "shadow_dollars_gained", "Dollars that calls would have cost less.", *where
        )
        self.shadow_lost = self._counter(
            "shadow_dollars_lost", "Dollars that calls would have cost more.", *where
        )
        self.steps_after_edit = self._counter(
            "steps_after_edit", "Steps that came after an edit of their history.", *where, "mode"
        )
        self.rereads = self._counter(
            "rereads",
            "Of these, steps that did again, word for word, what an elided step did.",
            *where,
            "mode",
        )
        self.used_elided = self._counter(
            "used_elided",
            "In shadow mode, steps that used a name which only steps to be elided have.",
            *where,
        )

        self.experiment_calls = self._counter(
            "experiment_calls", "Calls of an experiment, by the arm of their conversation.", "arm"
        )

    def _count_models(self) -> None:
        """Make the counters of upstreams and models."""
        self.answers = self._counter(
            "upstream_answers",
            "Answers of upstreams, by status.",
            "route",
            "upstream",
            "model",
            "status",
        )
        self.errors = self._counter(
            "errors",
            "Requests that went wrong, by our word for it.",
            "route",
            "upstream",
            "error",
        )
        self.illegal_inputs = self._counter(
            "illegal_inputs",
            "Requests left alone because their own history breaks a rule, by its code.",
            "route",
            "rule",
        )
        self.model_tokens = self._counter(
            "model_tokens",
            "Tokens by model: came and removed by our estimate; fresh, read, written and output "
            "as the provider reported them.",
            "upstream",
            "model",
            "kind",
        )
        self.model_dollars = self._counter(
            "model_dollars",
            "Dollars by the price sheet for what the provider reported, call by call.",
            "upstream",
            "model",
        )
        self.model_gained = self._counter(
            "model_dollars_gained", "Dollars saved on calls that cost less.", "upstream", "model"
        )
        self.model_lost = self._counter(
            "model_dollars_lost", "Dollars lost on calls that cost more.", "upstream", "model"
        )
        self.resent = self._counter(
            "resent",
            "Edited requests that were refused and sent again unedited, by whose fault it was.",
            "route",
            "upstream",
            "fault",
        )

    def _count_times(self) -> None:
        """Make the histograms of how long requests were held, and how long they took."""
        self.held_seconds = Histogram(
            "agora_held_seconds",
            "How long the gateway held a request before forwarding it.",
            ("route", "rung"),
            buckets=_HELD,
            registry=self.registry,
        )
        self.first_byte_seconds = Histogram(
            "agora_first_byte_seconds",
            "How long the upstream took to the first byte of its answer.",
            ("route", "upstream", "model"),
            buckets=_WAITED,
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "agora_request_seconds",
            "How long a request took from its first byte in to its last byte out.",
            ("route", "upstream", "model"),
            buckets=_TOOK,
            registry=self.registry,
        )

    def _count_state(self) -> None:
        """Make the gauges of how things stand, and the counters of reloads and memos."""
        self.slowest_seconds = self._gauge(
            "slowest_seconds",
            "The longest a request was held in the last minute.",
            "livemax",
            "route",
        )
        self.open_requests = self._gauge("open_requests", "Requests being served.", "livesum")
        self.resting = self._gauge("tenants_resting", "Tenants that stand down.", "livemax")
        self.breakers_open = self._gauge("breakers_open", "Breakers that are open.", "livesum")
        self.experiment_stopped = self._gauge(
            "experiment_stopped",
            "1 while an experiment is stopped and nothing is edited.",
            "livemax",
        )
        self.draining = self._gauge("draining", "1 while the gateway drains.", "livemax")
        self._gauge("info", "The version that runs.", "max", "version").labels(
            agora.__version__
        ).set(1)
        self.reloads = self._counter("reloads", "Configuration reloads: done or failed.", "outcome")
        self.journal_lost = self._counter(
            "journal_lost", "Prompts that could not be written to the journal.", "why"
        )
        self.config_stale = self._gauge(
            "config_stale", "1 while the file could not be taken over at SIGHUP.", "livemax"
        )
        self.memo_used = self._gauge(
            "memo_used", "Room that a memo uses, in its own unit.", "livesum", "memo"
        )
        self.memo_most = self._gauge(
            "memo_most", "Room that a memo may use, in its own unit.", "livesum", "memo"
        )
        self.memo_looks = self._counter(
            "memo_looks", "Looks into a memo: hit or miss.", "memo", "outcome"
        )
        self.memo_forgotten = self._counter("memo_forgotten", "Entries a memo forgot.", "memo")

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"agora_{name}", words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, mode: str, *labels: str) -> Gauge:
        return Gauge(
            f"agora_{name}",
            words,
            labels,
            registry=self.registry,
            multiprocess_mode=mode,  # type: ignore[arg-type]
        )
