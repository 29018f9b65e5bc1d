import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from agora.gateway.metrics import OTHER, Meter, Snapshot, read_metrics

FEW = settings(deadline=None, max_examples=30)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def named(meter: Meter, *tenants: str) -> Meter:
    """Give tenants a label of their own, as the first accepted answer does."""
    for tenant in tenants:
        meter.upstream("chat", 200, tenant=tenant)
    return meter


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["chat", "messages"]),
        st.sampled_from(["t-1", "t-2"]),
        st.integers(0, 2),
        st.sampled_from(["compressed", "bypass"]),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
        st.floats(-2, 2),
    ),
    max_size=30,
)


@FEW
@given(EVENTS)
def test_sums_over_any_label_are_the_sums_of_what_was_counted(
    events: list[tuple[str, str, int, str, int, int, float]],
) -> None:
    meter = named(Meter(), "t-1", "t-2")
    for route, tenant, rung, reason, came, went, saved in events:
        meter.request(route, tenant, rung, reason, 0.01, came, went)
        meter.usage(route, tenant, came, went, 3, 4, saved)
    now = meter.snapshot()

    assert now.total("agora_requests_total") == len(events)
    for route in ("chat", "messages"):
        mine = [event for event in events if event[0] == route]
        assert now.total("agora_requests_total", route=route) == len(mine)
        assert now.net_dollars(route=route) == pytest.approx(sum(event[6] for event in mine))
    removed = sum(came - went for *_, came, went, _ in events if came > went > 0)
    assert now.total("agora_tokens_removed_total") == removed
    usage = now.by("agora_usage_tokens_total", "kind")
    assert usage.get("read", 0) == sum(event[5] for event in events)
    assert usage.get("fresh", 0) == sum(event[4] for event in events)


@FEW
@given(st.lists(st.text(min_size=1, max_size=8), max_size=60))
def test_there_are_never_more_tenants_than_the_cap(names: list[str]) -> None:
    meter = named(Meter(most_tenants=5), *names)
    for name in names:
        meter.request("chat", name, 2, "bypass", 0.0, 1, 1)
        meter.usage("chat", name, 1, 0, 0, 0)
    tenants = meter.snapshot().by("agora_requests_total", "tenant")

    assert len(set(tenants) - {OTHER}) <= 5
    assert sum(tenants.values()) == len(names)


def test_keys_that_no_upstream_accepted_get_no_label() -> None:
    meter = Meter()
    for number in range(1_000):
        meter.request("chat", f"t-{number}", 2, "bypass", 0.0)
        meter.upstream("chat", 401, tenant=f"t-{number}")

    assert set(meter.snapshot().by("agora_requests_total", "tenant")) == {OTHER}


def test_routes_reasons_and_statuses_are_capped_too() -> None:
    meter = Meter()
    for number in range(500):
        meter.request(f"route-{number}", "t", 2, f"reason-{number}", 0.0)
        meter.upstream("chat", number * 10)
    now = meter.snapshot()

    assert len(now.by("agora_requests_total", "route")) <= 33
    assert len(now.by("agora_requests_total", "reason")) <= 65
    assert all(
        status == "none" or 100 <= int(status) < 600
        for status in now.by("agora_upstream_answers_total", "status")
    )


def test_losses_and_gains_are_counted_apart_since_a_counter_only_grows() -> None:
    meter = named(Meter(), "t-1")
    for saved in (2.0, -0.5, 0.0, -0.25):
        meter.usage("chat", "t-1", 1, 0, 0, 0, saved)
    now = meter.snapshot()

    assert now.total("agora_dollars_gained_total") == 2.0
    assert now.total("agora_dollars_lost_total") == 0.75
    assert now.net_dollars(tenant="t-1") == 1.25


def test_the_slowest_request_is_that_of_the_last_minute_or_two() -> None:
    clock = Clock()
    meter = Meter(clock=clock)

    def slowest() -> float:
        return meter.snapshot().total("agora_slowest_seconds", route="chat")

    meter.request("chat", "t", 0, "compressed", 0.9)
    assert slowest() == 0.9
    clock.now = 61.0
    meter.request("chat", "t", 0, "compressed", 0.2)
    assert slowest() == 0.9
    clock.now = 122.0
    assert slowest() == 0.2
    clock.now = 400.0
    assert slowest() == 0.0


def test_gauges_say_how_things_stand() -> None:
    meter = Meter()
    meter.opened()
    meter.opened()
    meter.closed()
    meter.resting(3)
    meter.breakers(2)
    meter.draining()
    meter.resent("chat")
    meter.stand_down("t-1")
    now = meter.snapshot()

    assert now.total("agora_open_requests") == 1
    assert now.total("agora_tenants_resting") == 3
    assert now.total("agora_breakers_open") == 2
    assert now.total("agora_draining") == 1
    assert now.total("agora_resent_total", route="chat") == 1
    assert now.total("agora_stand_downs_total") == 1
    assert now.total("agora_info") == 1


@FEW
@given(st.lists(st.floats(0, 3), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_bounds_its_share_of_the_samples(seconds: list[float], share: float) -> None:
    meter = Meter()
    for value in seconds:
        meter.request("chat", "t", 0, "compressed", value)
    bound = meter.snapshot().quantile("agora_held_seconds", share)

    assert bound is not None
    assert sum(value <= bound for value in seconds) >= share * len(seconds) - 1e-9


def test_a_quantile_of_nothing_is_nothing() -> None:
    assert Meter().snapshot().quantile("agora_held_seconds", 0.5) is None


def test_what_was_added_since_is_the_difference_and_a_restart_starts_anew() -> None:
    meter = Meter()
    meter.request("chat", "t", 0, "compressed", 0.1)
    before = meter.snapshot()
    meter.request("chat", "t", 0, "compressed", 0.1)

    assert meter.snapshot().since(before).total("agora_requests_total") == 1
    assert before.since(meter.snapshot()).total("agora_requests_total") == 1
    assert Snapshot().since(before).samples == {}


def test_a_text_that_is_no_metrics_is_an_error_that_can_be_caught() -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_metrics("agora_requests_total{route= 3")


def test_any_process_of_several_tells_the_counts_of_all(tmp_path: Path) -> None:
    script = (
        "from agora.gateway.metrics import Meter\n"
        "meter = Meter()\n"
        "meter.request('chat', 't', 0, 'compressed', 0.1, 100, 40)\n"
        "meter.opened()\n"
        "print(meter.snapshot().total('agora_requests_total'),\n"
        "      meter.snapshot().total('agora_tokens_removed_total'))\n"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(3)
    ]

    assert told == [["1.0", "60.0"], ["2.0", "120.0"], ["3.0", "180.0"]]
