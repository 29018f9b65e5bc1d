"""What a running gateway counts, as Prometheus reads it."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import agora
from agora.errors import MissingExtraError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
"""The label of everything beyond the cap."""
_HELD = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_WAITED = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SLOWEST_SECONDS = 60.0


class Meter:
    """Counts what the gateway does. One method per event; each takes microseconds.

    No label holds what a client wrote: routes and reasons are ours, tenants
    are hashed, and each label has a most it may hold. A tenant gets a label of
    its own with the first answer that was not refused, so that keys made up by
    the thousand name nobody.

    >>> meter = Meter()
    >>> meter.request("chat", "t-1", 0, "compressed", 0.004, tokens_in=9_000, tokens_out=3_000)
    >>> meter.snapshot().total("agora_tokens_removed_total")
    6000.0
    """

    def __init__(
        self, *, most_tenants: int = 200, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = CollectorRegistry()
        self._tenants = _Names(most_tenants)
        self._routes = _Names(32)
        self._reasons = _Names(64)
        self._clock = clock
        self._slowest: dict[str, _Slowest] = {}
        self._lock = threading.Lock()
        self._found: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._requests = self._counter(
            "requests", "Requests, by what became of them.", "route", "tenant", "rung", "reason"
        )
        self._tokens_in = self._counter(
            "tokens_in", "Prompt tokens as they came, by our estimate.", "route", "tenant"
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
        self._answers = self._counter(
            "upstream_answers", "Answers of upstreams, by status.", "route", "status"
        )
        self._resent = self._counter(
            "resent", "Edited requests that were refused and sent again as they came.", "route"
        )
        self._stand_downs = self._counter(
            "stand_downs", "Times compressing stopped for a tenant it cost money.", "tenant"
        )
        self._held = Histogram(
            "agora_held_seconds",
            "How long the gateway held a request before it went on.",
            ("route", "rung"),
            buckets=_HELD,
            registry=self._registry,
        )
        self._waited = Histogram(
            "agora_first_byte_seconds",
            "How long the upstream took to the first byte of its answer.",
            ("route",),
            buckets=_WAITED,
            registry=self._registry,
        )
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
        """Count a request when it goes on, or is refused.

        Args:
            route: which door it came through, in our own word for it.
            tenant: from `tenant_of`.
            rung: 0 scored, 1 by rule, 2 the client's own bytes.
            reason: why, in one of our own words.
            seconds: how long the gateway held it.
            tokens_in: tokens of the prompt as it came, 0 where nobody counted.
            tokens_out: tokens of the prompt as it went on.
        """
        route, name = self._routes.of(route), self._tenants.known(tenant)
        self._of(self._requests, route, name, str(int(rung)), self._reasons.of(str(reason))).inc()
        self._of(self._held, route, str(int(rung))).observe(seconds)
        if tokens_in > 0:
            self._of(self._tokens_in, route, name).inc(tokens_in)
        if tokens_in > tokens_out > 0:
            self._of(self._removed, route, name).inc(tokens_in - tokens_out)
        with self._lock:
            slowest = self._slowest.setdefault(route, _Slowest())
            slowest.add(seconds, self._clock())

    def upstream(
        self, route: str, status: int, *, tenant: str | None = None, seconds: float | None = None
    ) -> None:
        """Count an answer: its status (0 where none came), and the seconds to its first byte."""
        route = self._routes.of(route)
        self._of(self._answers, route, str(status) if 100 <= status < 600 else "none").inc()
        if seconds is not None:
            self._of(self._waited, route).observe(seconds)
        if tenant is not None and 200 <= status < 300:
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
    ) -> None:
        """Count what the provider reported for a call, and what the call saved, net."""
        route, name = self._routes.of(route), self._tenants.of(tenant)
        for kind, tokens in (
            ("fresh", fresh),
            ("read", read),
            ("written", written),
            ("output", output),
        ):
            if tokens > 0:
                self._of(self._usage, route, name, kind).inc(tokens)
        if dollars_saved > 0:
            self._of(self._gained, route, name).inc(dollars_saved)
        elif dollars_saved < 0:
            self._of(self._lost, route, name).inc(-dollars_saved)

    def resent(self, route: str) -> None:
        """Count an edited request that was refused and went again as it came."""
        self._of(self._resent, self._routes.of(route)).inc()

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
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry)
        return generate_latest(self._registry)

    def snapshot(self) -> "Snapshot":
        """Return everything as values."""
        return read_metrics(self.render().decode("utf-8"))

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
        """Return what was added after `before`; a counter that fell started anew."""
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


class _Names:
    """The values a label may have: the first so many, and "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()

    def of(self, name: str) -> str:
        """Return the name if there is room for it."""
        if name in self._names:
            return name
        if len(self._names) >= self._most:
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
