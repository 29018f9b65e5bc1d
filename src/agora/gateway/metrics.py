"""What a running gateway counts, as Prometheus reads it."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agora
from agora.core.memo import occupancy
from agora.errors import MissingExtraError
from agora.gateway.hindsight import Looked
from agora.gateway.logs import REDACTED

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        ProcessCollector,
        generate_latest,
    )
    from prometheus_client.metrics_core import Metric
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
"""The label of everything beyond the cap."""
_HELD = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_WAITED = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOOK = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)
_SLOWEST_SECONDS = 60.0
_MEMOS_EVERY = 256
"""Requests between two looks at the memos, for processes that nobody scrapes themselves."""
_SHARED = "PROMETHEUS_MULTIPROC_DIR"


class Meter:
    """Counts what the gateway does. One method per event; each takes microseconds.

    No label holds what a client wrote: routes and reasons are ours, tenants
    are hashed, and each label has a most it may hold. A tenant or a model gets
    a label of its own with the first answer that was not refused, so that keys
    and names made up by the thousand name nobody. Tenants and models are never
    labels of the same metric, since their product would have no useful bound.

    >>> meter = Meter()
    >>> meter.request("chat", "t-1", 0, "compressed", 0.004, tokens_in=9_000, tokens_out=3_000)
    >>> meter.snapshot().total("agora_tokens_removed_total")
    6000.0
    """

    def __init__(
        self,
        *,
        most_tenants: int = 200,
        most_models: int = 40,
        clock: Callable[[], float] = time.monotonic,
        memos: Callable[[], Mapping[str, Sequence[int]]] = occupancy,
    ) -> None:
        self._registry = CollectorRegistry()
        self._tenants = Names(most_tenants)
        self._routes = Names(32)
        # The words are ours, about thirty; the codes of rules have a counter of their own.
        self._reasons = Names(64)
        self._upstreams = Names(32)
        self._models = Names(most_models)
        self._errors = Names(32)
        self._rules = Names(100)
        self._memo_names = Names(32)
        self._look_at_memos = memos
        self._counted_memos: dict[tuple[str, str], int] = {}
        self._seen = 0
        self._clock = clock
        self._slowest: dict[str, _Slowest] = {}
        self._lock = threading.Lock()
        self._found: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._count_requests()
        self._count_shadow()
        self._count_models()
        self._count_state()
        _Processes(self._registry)

    def _count_requests(self) -> None:
        """Make the counters of requests and of what tenants were billed."""
        self._requests = self._counter(
            "requests", "Requests, by what became of them.", "route", "tenant", "rung", "reason"
        )
        self._tokens_in = self._counter(
            "tokens_in", "Prompt tokens received, by our estimate.", "route", "tenant"
        )
        self._removed = self._counter(
            "tokens_removed", "Prompt tokens elided, by our estimate.", "route", "tenant"
        )
        self._usage = self._counter(
            "usage_tokens",
            "Tokens as the provider reported them: fresh, read, written, output.",
            "route",
            "tenant",
            "kind",
        )
        self._gained = self._counter(
            "dollars_gained", "Dollars saved on calls that cost less.", "route", "tenant"
        )
        self._lost = self._counter(
            "dollars_lost",
            "Dollars lost on calls that cost more; the net is gained less lost.",
            "route",
            "tenant",
        )
        self._no_steps = self._counter(
            "no_steps",
            "Requests of ten or more turns in which no step was seen: the agent may act by text.",
            "route",
            "tenant",
        )
        self._stand_downs = self._counter(
            "stand_downs", "Times compressing stopped for a tenant it cost money.", "tenant"
        )

    def _count_shadow(self) -> None:
        """Make the counters of edits that were not made, and of what came after edits."""
        where = ("route", "tenant")
        self._shadow_requests = self._counter(
            "shadow_requests",
            "Requests in shadow mode, by what would have become of them.",
            *where,
            "rung",
            "reason",
        )
        self._shadow_in = self._counter(
            "shadow_tokens_in", "Prompt tokens received in shadow mode, by our estimate.", *where
        )
        self._shadow_removed = self._counter(
            "shadow_tokens_removed", "Prompt tokens that would have been elided.", *where
        )
        self._shadow_gained = self._counter(
            "shadow_dollars_gained", "Dollars that calls would have cost less.", *where
        )
        self._shadow_lost = self._counter(
            "shadow_dollars_lost", "Dollars that calls would have cost more.", *where
        )
        self._after_edit = self._counter(
            "steps_after_edit", "Steps that came after an edit of their history.", *where, "mode"
        )
        self._rereads = self._counter(
            "rereads",
            "Of these, steps that did again, word for word, what an elided step did.",
            *where,
            "mode",
        )
        self._used_elided = self._counter(
            "used_elided",
            "In shadow mode, steps that used a name which only steps to be elided have.",
            *where,
        )

    def _count_models(self) -> None:
        """Make the counters of upstreams and models, and of how long they took."""
        self._answers = self._counter(
            "upstream_answers",
            "Answers of upstreams, by status.",
            "route",
            "upstream",
            "model",
            "status",
        )
        self._errors_of = self._counter(
            "errors",
            "Requests that went wrong, by our word for it.",
            "route",
            "upstream",
            "error",
        )
        self._illegal = self._counter(
            "illegal_inputs",
            "Requests left alone because their own history breaks a rule, by its code.",
            "route",
            "rule",
        )
        self._model_tokens = self._counter(
            "model_tokens",
            "Tokens by model: came and removed by our estimate; fresh, read, written and output "
            "as the provider reported them.",
            "upstream",
            "model",
            "kind",
        )
        self._model_gained = self._counter(
            "model_dollars_gained", "Dollars saved on calls that cost less.", "upstream", "model"
        )
        self._model_lost = self._counter(
            "model_dollars_lost", "Dollars lost on calls that cost more.", "upstream", "model"
        )
        self._resent = self._counter(
            "resent",
            "Edited requests that were refused and sent again unedited, by whose fault it was.",
            "route",
            "upstream",
            "fault",
        )
        self._held = Histogram(
            "agora_held_seconds",
            "How long the gateway held a request before forwarding it.",
            ("route", "rung"),
            buckets=_HELD,
            registry=self._registry,
        )
        self._waited = Histogram(
            "agora_first_byte_seconds",
            "How long the upstream took to the first byte of its answer.",
            ("route", "upstream", "model"),
            buckets=_WAITED,
            registry=self._registry,
        )
        self._took = Histogram(
            "agora_request_seconds",
            "How long a request took from its first byte in to its last byte out.",
            ("route", "upstream", "model"),
            buckets=_TOOK,
            registry=self._registry,
        )

    def _count_state(self) -> None:
        """Make the gauges of how things stand, and the counters of reloads and memos."""
        self._slow = self._gauge(
            "slowest_seconds",
            "The longest a request was held in the last minute.",
            "livemax",
            "route",
        )
        self._open = self._gauge("open_requests", "Requests being served.", "livesum")
        self._resting = self._gauge("tenants_resting", "Tenants that stand down.", "livemax")
        self._breakers = self._gauge("breakers_open", "Breakers that are open.", "livesum")
        self._draining = self._gauge("draining", "1 while the gateway drains.", "livemax")
        self._gauge("info", "The version that runs.", "max", "version").labels(
            agora.__version__
        ).set(1)
        self._reloads = self._counter(
            "reloads", "Configuration reloads: done or failed.", "outcome"
        )
        self._stale = self._gauge(
            "config_stale", "1 while the file could not be taken over at SIGHUP.", "livemax"
        )
        self._memo_used = self._gauge(
            "memo_used", "Room that a memo uses, in its own unit.", "livesum", "memo"
        )
        self._memo_most = self._gauge(
            "memo_most", "Room that a memo may use, in its own unit.", "livesum", "memo"
        )
        self._memo_looks = self._counter(
            "memo_looks", "Looks into a memo: hit or miss.", "memo", "outcome"
        )
        self._memo_forgotten = self._counter("memo_forgotten", "Entries a memo forgot.", "memo")

    def request(
        self,
        route: str,
        tenant: str,
        rung: int,
        reason: str,
        seconds: float,
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        """Count a request when it is forwarded or refused.

        Args:
            route: which door it came through, in our own word for it.
            tenant: from `tenant_of`.
            rung: 0 scored, 1 by rule, 2 the client's own bytes.
            reason: why, in one of our own words.
            seconds: how long the gateway held it.
            tokens_in: tokens of the prompt as received, 0 if it was not counted.
            tokens_out: tokens of the prompt as forwarded.
        """
        route, name = self._routes.of(route), self._tenants.known(tenant)
        # What follows a colon says more than a label by tenant should; rules have their own metric.
        reason = self._reasons.of(str(reason).partition(":")[0])
        self._of(self._requests, route, name, str(int(rung)), reason).inc()
        self._of(self._held, route, str(int(rung))).observe(seconds)
        if tokens_in > 0:
            self._of(self._tokens_in, route, name).inc(tokens_in)
        if tokens_in > tokens_out > 0:
            self._of(self._removed, route, name).inc(tokens_in - tokens_out)
        with self._lock:
            slowest = self._slowest.setdefault(route, _Slowest())
            slowest.add(seconds, self._clock())
        self._seen += 1
        if self._seen % _MEMOS_EVERY == 0:
            self._count_memos()

    def shadow(
        self,
        route: str,
        tenant: str,
        rung: int,
        reason: str,
        tokens_in: int,
        tokens_out: int,
        dollars: float,
    ) -> None:
        """Count what would have become of a request, and what that would have saved."""
        route, name = self._routes.of(route), self._tenants.known(tenant)
        reason = self._reasons.of(str(reason).partition(":")[0])
        self._of(self._shadow_requests, route, name, str(int(rung)), reason).inc()
        if tokens_in > 0:
            self._of(self._shadow_in, route, name).inc(tokens_in)
        if tokens_in > tokens_out > 0:
            self._of(self._shadow_removed, route, name).inc(tokens_in - tokens_out)
        if dollars > 0:
            self._of(self._shadow_gained, route, name).inc(dollars)
        elif dollars < 0:
            self._of(self._shadow_lost, route, name).inc(-dollars)

    def hindsight(self, route: str, tenant: str, mode: str, looked: Looked) -> None:
        """Count what steps after an edit say about it."""
        route, name = self._routes.of(route), self._tenants.known(tenant)
        self._of(self._after_edit, route, name, mode).inc(looked.steps)
        self._of(self._rereads, route, name, mode).inc(looked.again)
        if mode == "shadow":
            self._of(self._used_elided, route, name).inc(looked.used)

    def no_steps(self, route: str, tenant: str) -> None:
        """Count a long conversation in which no step was seen."""
        self._of(self._no_steps, self._routes.of(route), self._tenants.known(tenant)).inc()

    def exchange(
        self,
        route: str,
        *,
        upstream: str = "",
        model: str = "",
        seconds: float,
        error: str = "",
        rule: str = "",
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        """Count a request when it is over.

        Args:
            route: which door it came through.
            upstream: where it went; empty if nowhere.
            model: from `model_name`.
            seconds: how long it took, with the whole answer.
            error: the kind of what went wrong, in one of our own words.
            rule: the code of the rule that its history breaks.
            tokens_in: tokens of the prompt as received, 0 if it was not counted.
            tokens_out: tokens of the prompt as forwarded.
        """
        route, upstream = self._routes.of(route), self._upstreams.of(upstream)
        name = self._model(model)
        self._of(self._took, route, upstream, name).observe(seconds)
        if error:
            self._of(self._errors_of, route, upstream, self._errors.of(error)).inc()
        if rule:
            self._of(self._illegal, route, self._rules.of(rule)).inc()
        if tokens_in > 0:
            self._of(self._model_tokens, upstream, name, "came").inc(tokens_in)
        if tokens_in > tokens_out > 0:
            removed = self._of(self._model_tokens, upstream, name, "removed")
            removed.inc(tokens_in - tokens_out)

    def upstream(
        self,
        route: str,
        status: int,
        *,
        upstream: str = "",
        model: str = "",
        tenant: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Count an answer: its status (0 where none came), and the seconds to its first byte."""
        route, upstream = self._routes.of(route), self._upstreams.of(upstream)
        accepted = 200 <= status < 300
        name = self._model(model, accepted=accepted)
        label = str(status) if 100 <= status < 600 else "none"
        self._of(self._answers, route, upstream, name, label).inc()
        if seconds is not None:
            self._of(self._waited, route, upstream, name).observe(seconds)
        if tenant is not None and accepted:
            self._tenants.of(tenant)

    def usage(
        self,
        route: str,
        tenant: str,
        fresh: int,
        read: int,
        written: int,
        output: int,
        dollars_saved: float = 0.0,
        *,
        upstream: str = "",
        model: str = "",
    ) -> None:
        """Count what the provider reported for a call, and what the call saved, net."""
        route, name = self._routes.of(route), self._tenants.of(tenant)
        upstream, model = self._upstreams.of(upstream), self._model(model)
        for kind, tokens in (
            ("fresh", fresh),
            ("read", read),
            ("written", written),
            ("output", output),
        ):
            if tokens > 0:
                self._of(self._usage, route, name, kind).inc(tokens)
                self._of(self._model_tokens, upstream, model, kind).inc(tokens)
        if dollars_saved > 0:
            self._of(self._gained, route, name).inc(dollars_saved)
            self._of(self._model_gained, upstream, model).inc(dollars_saved)
        elif dollars_saved < 0:
            self._of(self._lost, route, name).inc(-dollars_saved)
            self._of(self._model_lost, upstream, model).inc(-dollars_saved)

    def resent(self, route: str, upstream: str = "", fault: str = "edit") -> None:
        """Count an edited request that was refused and sent again unedited.

        `fault` says whose that was: of the `edit`, since the original was accepted; of the
        `history`, since the original was refused like it; or `unknown`.
        """
        self._of(self._resent, self._routes.of(route), self._upstreams.of(upstream), fault).inc()

    def reloaded(self, *, done: bool) -> None:
        """Count that the configuration was read again, and whether it was taken over."""
        self._of(self._reloads, "done" if done else "failed").inc()
        self._stale.set(0 if done else 1)

    def name_tenants(self, most: int) -> None:
        """Set how many tenants have a label of their own; those that have one keep it."""
        self._tenants.most = most

    def stand_down(self, tenant: str) -> None:
        """Count a tenant for whom compressing stops."""
        self._of(self._stand_downs, self._tenants.known(tenant)).inc()

    def opened(self) -> None:
        """Note that a request is being served."""
        self._open.inc()

    def closed(self) -> None:
        """Note that a request is no longer being served."""
        self._open.dec()

    def resting(self, tenants: int) -> None:
        """Note how many tenants stand down."""
        self._resting.set(tenants)

    def breakers(self, open_ones: int) -> None:
        """Note how many breakers are open."""
        self._breakers.set(open_ones)

    def draining(self) -> None:
        """Note that the gateway takes no more."""
        self._draining.set(1)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format, of all processes where there are more."""
        with self._lock:
            for route, slowest in self._slowest.items():
                self._slow.labels(route).set(slowest.seconds(self._clock()))
        self._count_memos()
        if os.environ.get(_SHARED):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            _Processes(registry)
            return generate_latest(registry)
        return generate_latest(self._registry)

    def snapshot(self) -> "Snapshot":
        """Return everything as values."""
        return read_metrics(self.render().decode("utf-8"))

    def watch(self, memos: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        """Ask these from now on how full what is remembered is."""
        self._look_at_memos = memos

    def _count_memos(self) -> None:
        """Take over what the memos say of themselves since the last look."""
        for memo, (used, most, hits, misses, forgotten) in self._look_at_memos().items():
            name = self._memo_names.of(memo)
            self._of(self._memo_used, name).set(used)
            self._of(self._memo_most, name).set(most)
            for kind, counter, now in (
                ("hit", self._of(self._memo_looks, name, "hit"), hits),
                ("miss", self._of(self._memo_looks, name, "miss"), misses),
                ("forgotten", self._of(self._memo_forgotten, name), forgotten),
            ):
                before = self._counted_memos.get((memo, kind), 0)
                # A memo that was recreated counts from zero.
                counter.inc(now - before if now >= before else now)
                self._counted_memos[memo, kind] = now

    def _model(self, model: str, *, accepted: bool = False) -> str:
        """Return the label of a model: its own once an upstream accepted a request for it."""
        if not model or model == REDACTED:
            return OTHER if model else ""
        return self._models.of(model) if accepted else self._models.known(model)

    def _of(self, metric: Any, *labels: str) -> Any:
        """Return the counter for some labels, found once: to look for it costs more than to count.

        Labels have few values, so that few are kept.
        """
        key = (metric, labels)
        try:
            return self._found[key]
        except KeyError:
            found = self._found[key] = metric.labels(*labels)
            return found

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"agora_{name}", words, labels, registry=self._registry)

    def _gauge(self, name: str, words: str, mode: str, *labels: str) -> Gauge:
        return Gauge(
            f"agora_{name}",
            words,
            labels,
            registry=self._registry,
            multiprocess_mode=mode,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The samples of one look at a gateway."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of that name that have these labels."""
        return sum(value for _, value in self._of(name, labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return the sums by the values of one label."""
        sums: dict[str, float] = {}
        for found, value in self._of(name, labels):
            key = found.get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def net_dollars(self, **labels: str) -> float:
        """Return what compressing saved, less what it cost."""
        return self.total("agora_dollars_gained_total", **labels) - self.total(
            "agora_dollars_lost_total", **labels
        )

    def quantile(self, name: str, share: float, **labels: str) -> float | None:
        """Return the bucket bound that `share` of a histogram's samples do not exceed, if any."""
        bounds = sorted(
            (float(le), n) for le, n in self.by(f"{name}_bucket", "le", **labels).items()
        )
        if not bounds or bounds[-1][1] <= 0:
            return None
        wanted = share * bounds[-1][1]
        return next(bound for bound, count in bounds if count >= wanted)

    def since(self, before: "Snapshot") -> "Snapshot":
        """Return what was added after `before`; a counter that fell was reset."""
        added = {}
        for key, value in self.samples.items():
            old = before.samples.get(key, 0.0)
            added[key] = value - old if value >= old else value
        return Snapshot(added)

    def _of(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
        wanted = labels.items()
        for (sample, found), value in self.samples.items():
            if sample == name and wanted <= found:
                yield dict(found), value


def read_metrics(text: str) -> Snapshot:
    """Return the samples in a text that Prometheus could read.

    Raises:
        ValueError: it is no such text.
    """
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples[sample.name, frozenset(sample.labels.items())] = sample.value
    return Snapshot(samples)


class Names:
    """The values a label may have: the first so many, and "other".

    >>> names = Names(1)
    >>> names.of("a"), names.of("b"), names.known("b")
    ('a', 'other', 'other')
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._names: set[str] = set()

    def of(self, name: str) -> str:
        """Return the name if there is room for it."""
        if name in self._names:
            return name
        if len(self._names) >= self.most:
            return OTHER
        self._names.add(name)
        return name

    def known(self, name: str) -> str:
        """Return the name if it has been given room before."""
        return name if name in self._names else OTHER


@dataclass(slots=True)
class _Slowest:
    """The largest value of this minute and of the one before it."""

    began: float = -1.0
    now: float = 0.0
    before: float = 0.0

    def add(self, seconds: float, at: float) -> None:
        self._turn(at)
        self.now = max(self.now, seconds)

    def seconds(self, at: float) -> float:
        self._turn(at)
        return max(self.now, self.before)

    def _turn(self, at: float) -> None:
        if self.began < 0:
            self.began = at
        passed = (at - self.began) / _SLOWEST_SECONDS
        if passed >= 1:
            self.before = self.now if passed < 2 else 0.0
            self.now = 0.0
            self.began = at


class _Processes:
    """What the system says of this process, or of all that share one port: CPU, memory, files.

    One process alone cannot be asked about the others through the files they count in, so the
    system is: `prometheus_client`'s collector reads one process, and here they are summed up.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return one metric per figure; none where the system has no /proc."""
        found: dict[str, Metric] = {}
        for pid in _pids():
            collector = ProcessCollector(
                registry=CollectorRegistry(),
                pid=lambda pid=pid: pid,  # type: ignore[misc]
            )
            for metric in collector.collect():
                if metric.name not in found:
                    found[metric.name] = metric
                    continue
                old, new = found[metric.name].samples[0], metric.samples[0]
                smallest = metric.name in ("process_start_time_seconds", "process_max_fds")
                value = min(old.value, new.value) if smallest else old.value + new.value
                found[metric.name].samples[0] = old._replace(value=value)
        return found.values()


def _pids() -> list[str]:
    """Return the processes to ask about: this one, or those that count in the shared folder."""
    folder = os.environ.get(_SHARED)
    if not folder:
        return ["self"]
    written = {path.stem.rpartition("_")[2] for path in Path(folder).glob("*_*.db")}
    return sorted(pid for pid in written if pid.isdigit() and Path("/proc", pid).exists())
