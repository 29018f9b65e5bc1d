from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 << 20}


@pytest.fixture(scope="session")
def nodes() -> Iterator[Cluster]:
    """Start a head node once: it takes seconds."""
    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def cluster(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster of two nodes, each with a core, that this process is not connected to."""
    ray.shutdown()
    if not nodes.worker_nodes:
        nodes.add_node(**NODE)
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    return nodes
