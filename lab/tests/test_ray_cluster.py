"""Tasks on a Ray cluster of two nodes, one of which dies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.tests.ray_functions import node_of, waits_for
from ray.cluster_utils import Cluster

from agora_lab import on_ray

SMALL_STORE: dict[str, Any] = {"object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    two = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
        },
    )
    two.add_node(num_cpus=1, **SMALL_STORE)
    yield two
    two.shutdown()  # type: ignore[no-untyped-call]


def test_ray_address_names_the_cluster_and_both_nodes_work(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)

    with on_ray.connect():
        nodes = {one.value for one in on_ray.run(node_of, range(6))}
        assert {node.node_id for node in (cluster.head_node, *cluster.worker_nodes)} == nodes
        assert len(nodes) == 2


def test_a_task_moves_when_its_node_dies(cluster: Cluster, tmp_path: Path) -> None:
    workers = {
        node.node_id: node
        for node in (*cluster.worker_nodes, cluster.add_node(num_cpus=1, **SMALL_STORE))
    }
    files = [tmp_path / "0", tmp_path / "1"]
    gone = ""

    def tick() -> None:
        nonlocal gone
        places = [notes.read_text().split() for notes in tmp_path.glob("*.nodes")]
        if gone and any(len(nodes) == 2 for nodes in places):
            for file in files:
                file.touch()
        elif len(places) == 2 and not gone:
            gone = next(node for [node] in places if node in workers)
            cluster.remove_node(workers[gone], allow_graceful=False)

    with on_ray.connect(cluster.address):
        outcomes = list(on_ray.run(waits_for, [str(file) for file in files], tick=tick))

    assert [one.error for one in outcomes] == ["", ""]
    assert gone
    assert gone not in {one.value for one in outcomes}


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")

    with pytest.raises(on_ray.ConnectionFailedError, match=r"at 127\.0\.0\.1:1:"), on_ray.connect():
        pass
