"""What a running gateway counts, as Prometheus reads it."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.core.memo import occupancy
from agora.errors import MissingExtraError
from agora.gateway.watching.counters import Counters
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.labels import OTHER, Names
from agora.gateway.watching.processes import SHARED, Processes
from agora.gateway.watching.redaction import REDACTED, model_name
from agora.gateway.watching.snapshot import Snapshot, read_metrics

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SLOWEST_SECONDS = 60.0
_MEMOS_EVERY = 256
"""Requests between two looks at the memos, for processes that nobody scrapes themselves."""


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
        self._all = Counters()
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

    def record(self, exchange: Exchange) -> None:
        """Count one request that is over, by everything that is known of it."""
        route, tenant = exchange.route, exchange.tenant
        tokens_in, tokens_out = exchange.tokens_in, exchange.tokens_out
        seconds = exchange.held_ms / 1e3
        self.request(route, tenant, exchange.rung, exchange.reason, seconds, tokens_in, tokens_out)
        if exchange.no_steps:
            self.no_steps(route, tenant)
        model = model_name(exchange.model)
        self.exchange(
            route,
            upstream=exchange.upstream,
            model=model,
            seconds=(exchange.ended_ns - exchange.started_ns) / 1e9 if exchange.whole else None,
            error=exchange.error,
            rule=exchange.rule,
            tokens_in=0 if exchange.shadow else tokens_in,
            tokens_out=0 if exchange.shadow else tokens_out,
        )
        if exchange.would_reason:
            self.shadow(
                route,
                tenant,
                exchange.would_rung,
                exchange.would_reason,
                tokens_in,
                tokens_in - exchange.would_remove,
                exchange.would_save,
            )
        if exchange.arrived:
            arrived = self._routes.of(route), self._tenants.known(tenant)
            self._of(self._all.tokens_arrived, *arrived).inc(exchange.arrived)
        self._after_edit(exchange)
        if exchange.billed:
            self.usage(
                route,
                tenant,
                exchange.fresh,
                exchange.read,
                exchange.written,
                exchange.output,
                exchange.dollars_saved,
                dollars=exchange.dollars,
                upstream=exchange.upstream,
                model=model,
            )

    def _after_edit(self, exchange: Exchange) -> None:
        """Count thinking that is no longer sent, and what steps after an edit say about it."""
        route, name = self._routes.of(exchange.route), self._tenants.known(exchange.tenant)
        if exchange.lost_blocks:
            self._of(self._all.thinking_removed, route, name).inc(exchange.lost_blocks)
        if exchange.after_edit:
            mode = "shadow" if exchange.shadow else "edit"
            self._of(self._all.steps_after_edit, route, name, mode).inc(exchange.after_edit)
            self._of(self._all.rereads, route, name, mode).inc(exchange.rereads)
            if exchange.shadow:
                self._of(self._all.used_elided, route, name).inc(exchange.used_elided)

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
            route: which kind of request it was, in our own word for it.
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
        self._of(self._all.requests, route, name, str(int(rung)), reason).inc()
        self._of(self._all.held_seconds, route, str(int(rung))).observe(seconds)
        if tokens_in > 0:
            self._of(self._all.tokens_in, route, name).inc(tokens_in)
        if tokens_in > tokens_out > 0:
            self._of(self._all.tokens_removed, route, name).inc(tokens_in - tokens_out)
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
        self._of(self._all.shadow_requests, route, name, str(int(rung)), reason).inc()
        if tokens_in > 0:
            self._of(self._all.shadow_tokens_in, route, name).inc(tokens_in)
        if tokens_in > tokens_out > 0:
            self._of(self._all.shadow_tokens_removed, route, name).inc(tokens_in - tokens_out)
        if dollars > 0:
            self._of(self._all.shadow_gained, route, name).inc(dollars)
        elif dollars < 0:
            self._of(self._all.shadow_lost, route, name).inc(-dollars)

    def experiment_call(self, arm: str) -> None:
        """Count a call of an experiment for its arm."""
        self._of(self._all.experiment_calls, arm).inc()

    def experiment_stopped(self, stopped: bool) -> None:
        """Note whether an experiment is stopped."""
        self._all.experiment_stopped.set(int(stopped))

    def no_steps(self, route: str, tenant: str) -> None:
        """Count a long conversation in which no step was seen."""
        self._of(self._all.no_steps, self._routes.of(route), self._tenants.known(tenant)).inc()

    def exchange(
        self,
        route: str,
        *,
        upstream: str = "",
        model: str = "",
        seconds: float | None,
        error: str = "",
        rule: str = "",
        tokens_in: int = 0,
        tokens_out: int = 0,
    ) -> None:
        """Count a request when it is over.

        Args:
            route: which kind of request it was.
            upstream: where it went; empty if nowhere.
            model: from `model_name`.
            seconds: how long it took, with the whole answer; None if its end was not seen.
            error: the kind of what went wrong, in one of our own words.
            rule: the code of the rule that its history breaks.
            tokens_in: tokens of the prompt as received, 0 if it was not counted.
            tokens_out: tokens of the prompt as forwarded.
        """
        route, upstream = self._routes.of(route), self._upstreams.of(upstream)
        name = self._model(model)
        if seconds is not None:
            self._of(self._all.request_seconds, route, upstream, name).observe(seconds)
        if error:
            self._of(self._all.errors, route, upstream, self._errors.of(error)).inc()
        if rule:
            self._of(self._all.illegal_inputs, route, self._rules.of(rule)).inc()
        if tokens_in > 0:
            self._of(self._all.model_tokens, upstream, name, "came").inc(tokens_in)
        if tokens_in > tokens_out > 0:
            removed = self._of(self._all.model_tokens, upstream, name, "removed")
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
        self._of(self._all.answers, route, upstream, name, label).inc()
        if seconds is not None:
            self._of(self._all.first_byte_seconds, route, upstream, name).observe(seconds)
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
        dollars: float = 0.0,
        upstream: str = "",
        model: str = "",
    ) -> None:
        """Count what the provider reported for a call, its price, and what it saved, net."""
        route, name = self._routes.of(route), self._tenants.of(tenant)
        upstream, model = self._upstreams.of(upstream), self._model(model)
        for kind, tokens in (
            ("fresh", fresh),
            ("read", read),
            ("written", written),
            ("output", output),
        ):
            if tokens > 0:
                self._of(self._all.usage_tokens, route, name, kind).inc(tokens)
                self._of(self._all.model_tokens, upstream, model, kind).inc(tokens)
        if dollars > 0:
            self._of(self._all.model_dollars, upstream, model).inc(dollars)
        if dollars_saved > 0:
            self._of(self._all.gained, route, name).inc(dollars_saved)
            self._of(self._all.model_gained, upstream, model).inc(dollars_saved)
        elif dollars_saved < 0:
            self._of(self._all.lost, route, name).inc(-dollars_saved)
            self._of(self._all.model_lost, upstream, model).inc(-dollars_saved)

    def resent(self, route: str, upstream: str = "", fault: str = "edit") -> None:
        """Count an edited request that was refused and sent again unedited.

        `fault` says whose that was: of the `edit`, since the original was accepted; of the
        `history`, since the original was refused like it; of `thinking` that no longer held, where
        the same edit was sent again without it; or `unknown`.
        """
        self._of(
            self._all.resent, self._routes.of(route), self._upstreams.of(upstream), fault
        ).inc()

    def reloaded(self, *, done: bool) -> None:
        """Count that the configuration was read again, and whether it was taken over."""
        self._of(self._all.reloads, "done" if done else "failed").inc()
        self._all.config_stale.set(0 if done else 1)

    def journal_lost(self, why: str) -> None:
        """Count a prompt that is missing from the journal; `why` is one of our own words."""
        self._of(self._all.journal_lost, why).inc()

    def name_tenants(self, most: int) -> None:
        """Set how many tenants have a label of their own; those that have one keep it."""
        self._tenants.most = most

    def stand_down(self, tenant: str) -> None:
        """Count a tenant for whom compressing stops."""
        self._of(self._all.stand_downs, self._tenants.known(tenant)).inc()

    def opened(self) -> None:
        """Note that a request is being served."""
        self._all.open_requests.inc()

    def closed(self) -> None:
        """Note that a request is no longer being served."""
        self._all.open_requests.dec()

    def resting(self, tenants: int) -> None:
        """Note how many tenants stand down."""
        self._all.resting.set(tenants)

    def breakers(self, open_ones: int) -> None:
        """Note how many breakers are open."""
        self._all.breakers_open.set(open_ones)

    def draining(self) -> None:
        """Note that the gateway takes no more."""
        self._all.draining.set(1)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format, of all processes where there are more."""
        with self._lock:
            for route, slowest in self._slowest.items():
                self._all.slowest_seconds.labels(route).set(slowest.seconds(self._clock()))
        self._count_memos()
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            Processes(registry)
            return generate_latest(registry)
        return generate_latest(self._all.registry)

    def snapshot(self) -> Snapshot:
        """Return everything as values."""
        return read_metrics(self.render().decode("utf-8"))

    def watch(self, memos: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        """Ask these from now on how full what is remembered is."""
        self._look_at_memos = memos

    def _count_memos(self) -> None:
        """Take over what the memos say of themselves since the last look."""
        for memo, (used, most, hits, misses, forgotten) in self._look_at_memos().items():
            name = self._memo_names.of(memo)
            self._of(self._all.memo_used, name).set(used)
            self._of(self._all.memo_most, name).set(most)
            for kind, counter, now in (
                ("hit", self._of(self._all.memo_looks, name, "hit"), hits),
                ("miss", self._of(self._all.memo_looks, name, "miss"), misses),
                ("forgotten", self._of(self._all.memo_forgotten, name), forgotten),
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
