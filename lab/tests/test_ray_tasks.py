"""Tasks on a Ray cluster of two nodes: what they return, and what happens when processes die."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.tests.ray_functions import (
    dies,
    dies_once,
    fails_on_three,
    node_of,
    square,
    waits_for,
)
from ray.cluster_utils import Cluster

from agora_lab import on_ray


@pytest.fixture
def connected(cluster: Cluster) -> Iterator[None]:
    with on_ray.connect(cluster.address):
        yield


@pytest.mark.usefixtures("connected")
def test_every_task_has_one_outcome() -> None:
    outcomes = list(on_ray.run(square, range(20)))

    assert sorted((one.task, one.value) for one in outcomes) == [(n, n * n) for n in range(20)]


@pytest.mark.usefixtures("connected")
def test_tasks_are_taken_only_as_there_is_room() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    outcomes = on_ray.run(square, tasks(), in_flight=4)
    next(outcomes)
    assert len(taken) == 4
    outcomes.close()


@pytest.mark.usefixtures("connected")
def test_an_exception_is_an_outcome_and_the_rest_goes_on() -> None:
    outcomes = {one.task: one for one in on_ray.run(fails_on_three, range(6))}

    assert outcomes[3].error == "ValueError: three is not wanted"
    assert outcomes[3].value is None
    assert [outcomes[n].value for n in (0, 1, 2, 4, 5)] == [0, 1, 2, 4, 5]


@pytest.mark.usefixtures("connected")
def test_a_task_whose_process_dies_runs_again(tmp_path: Path) -> None:
    [outcome] = on_ray.run(dies_once, [str(tmp_path / "seen")])

    assert outcome.value == "second"


@pytest.mark.usefixtures("connected")
def test_a_task_that_kills_every_process_is_given_up() -> None:
    [outcome] = on_ray.run(dies, [0], attempts=2)

    assert outcome.error.startswith("its process was lost")


@pytest.mark.usefixtures("connected")
def test_a_tick_comes_while_tasks_run(tmp_path: Path) -> None:
    file = tmp_path / "go"
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 3:
            file.touch()

    [outcome] = on_ray.run(waits_for, [str(file)], tick=tick)
    assert outcome.value


def test_ray_address_names_the_cluster_and_both_nodes_work(cluster: Cluster) -> None:
    with on_ray.connect():
        nodes = {one.value for one in on_ray.run(node_of, range(6))}

    assert nodes == {node.node_id for node in (cluster.head_node, *cluster.worker_nodes)}
    assert len(nodes) == 2


def test_a_task_moves_when_its_node_dies(cluster: Cluster, tmp_path: Path) -> None:
    workers = {node.node_id: node for node in cluster.worker_nodes}
    files = [tmp_path / "0", tmp_path / "1"]
    gone = ""

    def tick() -> None:
        nonlocal gone
        places = [notes.read_text().split() for notes in tmp_path.glob("*.nodes")]
        if len(places) == 2 and not gone:
            gone = next(node for [node] in places if node in workers)
            cluster.remove_node(workers[gone], allow_graceful=False)
            # The task of the other node ends, so that its core is free for the one that is lost.
            next(file for file in files if gone not in Path(f"{file}.nodes").read_text()).touch()
        elif gone and any(len(nodes) == 2 for nodes in places):
            for file in files:
                file.touch()

    with on_ray.connect(cluster.address):
        outcomes = list(on_ray.run(waits_for, [str(file) for file in files], tick=tick))

    assert [one.error for one in outcomes] == ["", ""]
    assert gone
    assert gone not in {one.value for one in outcomes}


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")

    with pytest.raises(on_ray.ConnectionFailedError, match=r"at 127\.0\.0\.1:1:"), on_ray.connect():
        pass
