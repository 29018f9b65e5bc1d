import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from agora.core.compression import Rung
from agora.gateway.editing.job import Edited
from agora.gateway.watching.labels import OTHER
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.snapshot import Snapshot, read_metrics

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
    assert len(now.by("agora_requests_total", "reason")) <= 129
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
        "from agora.gateway.watching.metrics import Meter\n"
        "meter = Meter()\n"
        "meter.request('chat', 't', 0, 'compressed', 0.1, 100, 40)\n"
        "meter.opened()\n"
        "print(meter.snapshot().total('agora_requests_total'),\n"
        "      meter.snapshot().total('agora_tokens_removed_total'))\n"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(3)
    ]

    assert said == [["1.0", "60.0"], ["2.0", "120.0"], ["3.0", "180.0"]]


def test_models_get_a_label_with_the_first_accepted_answer_and_only_so_many_do() -> None:
    meter = Meter(most_models=5)
    for number in range(50):
        meter.upstream("chat", 404, upstream="u", model=f"made-up-{number}", seconds=0.1)
        meter.exchange("chat", upstream="u", model=f"made-up-{number}", seconds=1.0)
    for number in range(50):
        meter.upstream("chat", 200, upstream="u", model=f"model-{number}", seconds=0.1)
        meter.exchange("chat", upstream="u", model=f"model-{number}", seconds=1.0, tokens_in=7)
        meter.usage("chat", "t", 1, 0, 0, 0, 0.5, upstream="u", model=f"model-{number}")
    now = meter.snapshot()

    named = {f"model-{number}" for number in range(5)} | {OTHER}
    for metric in (
        "agora_upstream_answers_total",
        "agora_first_byte_seconds_count",
        "agora_request_seconds_count",
    ):
        assert set(now.by(metric, "model")) == named
        assert now.total(metric, upstream="u") == 100
    for metric in ("agora_model_tokens_total", "agora_model_dollars_gained_total"):
        assert set(now.by(metric, "model")) == named
    assert now.total("agora_model_tokens_total", kind="came") == 350
    assert now.total("agora_model_dollars_gained_total") == 25.0


def test_a_model_that_does_not_read_as_one_is_counted_with_the_others() -> None:
    meter = Meter()
    meter.upstream("chat", 200, upstream="u", model="[redacted]")
    meter.upstream("other", 200, upstream="u")

    answers = meter.snapshot().by("agora_upstream_answers_total", "model")
    assert answers == {OTHER: 1.0, "": 1.0}


def test_errors_and_rules_are_counted_by_our_words_for_them() -> None:
    meter = Meter()
    meter.exchange("chat", upstream="u", seconds=1.0, error="truncated")
    meter.exchange("messages", seconds=1.0, rule="S3")
    now = meter.snapshot()

    assert now.by("agora_errors_total", "error") == {"truncated": 1.0}
    assert now.by("agora_illegal_inputs_total", "rule") == {"S3": 1.0}


def test_a_history_that_breaks_a_rule_is_counted_under_its_code() -> None:
    edited = Edited(
        body=b"", reason="illegal_input", rung=Rung.UNTOUCHED, detail="S3 at message 1: x"
    )

    assert edited.rule == "S3"
    assert replace(edited, reason="illegal_input:A7", detail="").rule == "A7"
    assert replace(edited, detail="somebody's own words").rule == "other"
    assert replace(edited, reason="bypass").rule == ""


@FEW
@given(st.lists(st.tuples(*[st.integers(0, 100)] * 5), min_size=1, max_size=6))
def test_what_memos_say_is_told_and_their_counts_only_grow(
    looks: list[tuple[int, int, int, int, int]],
) -> None:
    now = {"texts": looks[0]}
    meter = Meter(memos=lambda: now)
    hits, before = 0, 0
    for look in looks:
        now["texts"] = look
        # A count that fell is that of a recreated memo.
        hits += look[2] - before if look[2] >= before else look[2]
        before = look[2]
        said = meter.snapshot()
        assert said.total("agora_memo_used", memo="texts") == look[0]
        assert said.total("agora_memo_most", memo="texts") == look[1]
        assert said.total("agora_memo_looks_total", outcome="hit") == hits


def test_memos_are_looked_at_now_and_then_where_nobody_asks() -> None:
    asked = []
    meter = Meter(memos=lambda: asked.append(1) or {})  # type: ignore[func-returns-value]
    for _ in range(600):
        meter.request("chat", "t", 2, "bypass", 0.0)

    assert len(asked) == 2


def test_a_reload_that_failed_shows_until_one_is_done() -> None:
    meter = Meter()
    meter.reloaded(done=False)
    assert meter.snapshot().total("agora_config_stale") == 1
    meter.reloaded(done=True)

    now = meter.snapshot()
    assert now.total("agora_config_stale") == 0
    assert now.by("agora_reloads_total", "outcome") == {"failed": 1.0, "done": 1.0}


PROCESS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_the_process_tells_its_cpu_memory_and_files() -> None:
    now = Meter().snapshot()

    assert all(now.total(name) > 0 for name in PROCESS)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_processes_that_count_together_tell_the_sum_of_theirs(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from agora.gateway.watching.metrics import Meter\n"
        "meter = Meter()\n"
        "meter.request('chat', 't', 0, 'compressed', 0.1)\n"
        "print('counts', flush=True)\n"
        "sys.stdin.readline()\n"
        "now = meter.snapshot()\n"
        "print(now.total('process_resident_memory_bytes'), now.total('process_open_fds'))\n"
    )
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "counts\n"
    # The first is asked while the second runs, the second when it is alone.
    both, alone = (
        [float(word) for word in process.communicate("\n", timeout=60)[0].split()]
        for process in processes
    )

    assert both[0] > 1.5 * alone[0]
    assert both[1] > alone[1]
