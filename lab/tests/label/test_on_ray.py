import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import ray
from lab.harness.labelling import answers_hash
from lab.tests.label.serving import backbone, fail_next, made_plan, serving, tally

from agora_lab.label.answers import read_answers
from agora_lab.label.on_ray import RunSummary, run_plan
from agora_lab.label.outputs import OutputError
from agora_lab.label.plan import Plan


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Start Ray once: it takes longer than all the rest."""
    ray.init(
        address="local",
        num_cpus=3,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    yield
    ray.shutdown()


@pytest.fixture
def server() -> Iterator[str]:
    with serving(latency_ms=2) as address:
        yield address


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return made_plan(tmp_path_factory.mktemp("on_ray") / "plan", pairs=90, both=True)


def run(plan: Plan, out: Path, address: str, **given: int) -> RunSummary:
    return run_plan(
        plan.folder,
        out,
        backbone(address),
        concurrency=given.get("concurrency", 8),
        block_asks=given.get("block_asks", 50),
        failures_in_a_row=given.get("failures_in_a_row", 20),
        spare_mib=0,
    )


@pytest.mark.usefixtures("cluster")
def test_every_ask_has_its_answer_and_the_second_run_asks_nothing(
    plan: Plan, server: str, tmp_path: Path
) -> None:
    outcome = run(plan, tmp_path / "out", server)

    planned = [ask.key for ask in plan.asks()]
    assert outcome.complete
    assert outcome.progress.counts.answered == len(planned)
    assert {found.key for found in read_answers([tmp_path / "out" / "answers"])} == set(planned)
    assert answers_hash(tmp_path / "out")[:2] == (len(planned), len(planned))
    asked = tally(server)
    assert asked["again"] == 0
    assert asked["most_at_once"] <= 8

    assert run(plan, tmp_path / "out", server).complete
    assert tally(server) == asked


@pytest.mark.usefixtures("cluster")
def test_what_failed_is_listed_and_asked_again_by_the_next_run(
    plan: Plan, server: str, tmp_path: Path
) -> None:
    # Every ask is tried three times.
    fail_next(server, 6)
    outcome = run(plan, tmp_path / "out", server, concurrency=1)

    assert not outcome.complete
    assert outcome.progress.counts.failed == len(outcome.failures) == 2
    assert "503" in str(outcome)
    assert "run the same command again" in str(outcome)
    assert len((tmp_path / "out" / "failures.jsonl").read_text().splitlines()) == 2

    assert run(plan, tmp_path / "out", server).complete
    assert not (tmp_path / "out" / "failures.jsonl").read_text()


@pytest.mark.usefixtures("cluster")
def test_a_server_that_is_gone_ends_the_run(plan: Plan, server: str, tmp_path: Path) -> None:
    fail_next(server, 10**9)
    outcome = run(plan, tmp_path / "out", server, failures_in_a_row=5)

    assert "did not answer 5 asks in a row" in outcome.stopped
    assert outcome.progress.counts.failed < 40


@pytest.mark.usefixtures("cluster")
def test_another_plan_does_not_go_into_the_same_folder(
    plan: Plan, server: str, tmp_path: Path
) -> None:
    run(plan, tmp_path / "out", server)
    other = made_plan(tmp_path / "other", pairs=45)

    with pytest.raises(OutputError, match=r"plan\.kinds: \['counterfactual', 'likelihood'\] then"):
        run(other, tmp_path / "out", server)


@pytest.mark.usefixtures("cluster")
def test_the_asks_of_a_trajectory_come_in_the_plans_order(
    plan: Plan, server: str, tmp_path: Path
) -> None:
    run(plan, tmp_path / "out", server, concurrency=1)

    files = sorted((tmp_path / "out" / "answers").glob("*.parquet"))
    orders = [order for file in files for order in pq.read_table(file)["order"].to_pylist()]
    assert orders == list(range(len(orders)))
