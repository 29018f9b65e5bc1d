"""Answers are neither lost nor asked for twice, whatever dies."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.harness.labelling import fail_next, steady, tally, toy_plan
from lab.tests.label.making import plain_case
from ray.cluster_utils import Cluster

from agora_lab import on_ray
from agora_lab.agents.purse import Prices
from agora_lab.label.answers import Connection, Work, answer_shard, answers_file, read_answers
from agora_lab.label.plan import Plan, PlanSettings, Shard, write_plan
from agora_lab.label.run import run_plan


@pytest.fixture
def server() -> Iterator[str]:
    with steady(1) as address:
        yield address


def work(plan: Plan, shard: Shard, folder: Path, address: str, **connection: Any) -> Work:
    folder.mkdir(exist_ok=True)
    return Work(
        shard,
        plan.settings,
        folder,
        Connection(base_url=f"{address}/v1", max_retries=0, **connection),
    )


def test_a_shard_that_is_answered_again_asks_only_what_is_missing(
    tmp_path: Path, server: str
) -> None:
    plan = toy_plan(tmp_path / "plan", 6, steps=6)
    [shard] = plan.shards()
    job = work(plan, shard, tmp_path / "answers", server)

    assert answer_shard(job).answered == 12
    file = answers_file(tmp_path / "answers", shard)
    lines = file.read_bytes().splitlines(keepends=True)
    # As a kill leaves it: two answers were not yet asked for, one was half written.
    file.write_bytes(b"".join(lines[:9]) + lines[9][:40])

    assert answer_shard(job).answered == 3
    assert tally(server) == {**tally(server), "calls": 15, "distinct": 12}
    assert read_answers(file).keys() == {ask.key for ask in shard.asks(plan.settings)}
    assert answer_shard(job).answered == 0


def test_a_wider_plan_reuses_the_answers_of_a_narrow_one(tmp_path: Path, server: str) -> None:
    narrow = toy_plan(tmp_path / "narrow", 6, steps=6, pairs=3)
    wide = toy_plan(tmp_path / "wide", 6, steps=6)

    for plan in (narrow, wide):
        [shard] = plan.shards()
        answer_shard(work(plan, shard, tmp_path / "answers", server))

    assert tally(server)["calls"] == 12


def test_a_question_that_fails_is_asked_next_time(tmp_path: Path, server: str) -> None:
    plan = toy_plan(tmp_path / "plan", 6, steps=6)
    [shard] = plan.shards()
    fail_next(server, 3)

    first = answer_shard(work(plan, shard, tmp_path / "answers", server, concurrency=1))

    assert (first.answered, len(first.failures), first.stop) == (9, 3, "")
    second = answer_shard(work(plan, shard, tmp_path / "answers", server))
    assert (second.answered, second.failures) == (3, [])


def test_a_backbone_that_is_gone_stops_the_run(tmp_path: Path, server: str) -> None:
    plan = toy_plan(tmp_path / "plan", 6, steps=6)
    [shard] = plan.shards()
    fail_next(server, 100)
    job = work(plan, shard, tmp_path / "answers", server, concurrency=1, failures_in_a_row=4)

    done = answer_shard(job)

    assert "4 questions in a row got no answer" in done.stop
    assert (done.answered, len(done.failures)) == (0, 4)


def test_no_more_is_spent_than_the_cap_and_the_rest_is_told(tmp_path: Path, server: str) -> None:
    plan = toy_plan(tmp_path / "plan", 6, steps=6)
    [shard] = plan.shards()
    prices = Prices(10.0, 10.0)
    job = work(plan, shard, tmp_path / "answers", server, max_dollars=0.05, prices=prices)

    done = answer_shard(job)

    assert "cap of $0.05" in done.stop
    assert 0 < done.answered < 12
    assert not done.failures


def test_a_scripted_agent_answers_too_and_then_soft_labels_are_hard(tmp_path: Path) -> None:
    case = plain_case(["search[red shoes]"] * 5, ["page"] * 5)
    settings = PlanSettings(backbone="lab.tests.label.making:echo")
    plan = write_plan(tmp_path / "plan", [case], settings)
    [shard] = plan.shards()
    (tmp_path / "answers").mkdir()

    assert answer_shard(Work(shard, settings, tmp_path / "answers", Connection())).answered > 0
    answers = read_answers(answers_file(tmp_path / "answers", shard)).values()
    assert {len(one.texts) for one in answers} == {4}
    assert all(len(set(one.texts)) == 1 for one in answers)


def test_a_node_that_does_not_share_the_folder_is_told(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path / "plan", 6, steps=6)
    [shard] = plan.shards()

    with pytest.raises(FileNotFoundError, match="must share it"):
        answer_shard(Work(shard, plan.settings, tmp_path / "absent", Connection()))


DRIVER = "from agora_lab.cli.label import label; label()"


def driver(folder: Path, address: str) -> "subprocess.Popen[str]":
    """Resume `agora label` in a process of its own, on the cluster at RAY_ADDRESS."""
    arguments = ["--out", str(folder), "--concurrency", "4"]
    environment = {**os.environ, "OPENAI_BASE_URL": f"{address}/v1"}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(condition: Callable[[], bool], what: str, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} took more than {seconds} s"
        time.sleep(0.05)


def count(folder: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("pairs", "steps", "latency_ms"),
    [(60, 6, 100), pytest.param(2_000, 12, 20, marks=pytest.mark.long)],
)
def test_a_killed_node_and_a_killed_driver_cost_only_what_was_in_flight(
    cluster: Cluster, tmp_path: Path, pairs: int, steps: int, latency_ms: float
) -> None:
    plan = toy_plan(tmp_path / "plan", pairs, steps=steps)
    answers = tmp_path / "plan" / "answers"
    planned = plan.summary.asks
    [node] = cluster.worker_nodes
    with steady(latency_ms) as address:
        process = driver(tmp_path / "plan", address)
        try:
            until(lambda: count(answers) > planned // 4, "a quarter of the answers")
            cluster.remove_node(node, allow_graceful=False)
            until(lambda: count(answers) > planned // 2, "half of the answers")
            process.kill()
            process.wait()
            kept = count(answers)
            assert kept < planned

            process = driver(tmp_path / "plan", address)
            _, told = process.communicate(timeout=400)
            assert process.returncode == 0, told
            counts = tally(address)
        finally:
            process.kill()

    found: list[str] = []
    for shard in plan.shards():
        lines = answers_file(answers, shard).read_text().splitlines()
        found += [json.loads(line)["key"] for line in lines]
        assert {ask.key for ask in shard.asks(plan.settings)} <= set(found)
    assert len(found) == len(set(found)) == planned
    # The node's shard and the driver's had four requests in flight each.
    assert counts["distinct"] == planned
    sys.stdout.write(f"{planned:,} questions, {counts['again']} of them asked again\n")
    assert counts["again"] <= 4 * 2
    assert "left" in told


def test_a_run_stops_when_the_backbone_is_gone_and_the_next_asks_the_rest(
    cluster: Cluster, tmp_path: Path, server: str
) -> None:
    plan = toy_plan(tmp_path / "plan", 18, steps=6)
    connection = Connection(base_url=f"{server}/v1", failures_in_a_row=3, max_retries=0)
    seen: list[tuple[int, int]] = []

    with on_ray.connect(cluster.address):
        fail_next(server, 1_000)
        stopped = run_plan(plan, tmp_path / "answers", connection)
        fail_next(server, 0)
        whole = run_plan(plan, tmp_path / "answers", connection, report=lambda *at: seen.append(at))
    again = run_plan(plan, tmp_path / "answers", connection)

    assert not stopped.complete
    assert "in a row got no answer" in str(stopped)
    assert "run the same command again" in str(stopped)
    assert whole.complete
    assert (whole.answered, again.answered, again.present) == (36, 0, 36)
    assert seen[-1] == (36, 36)
