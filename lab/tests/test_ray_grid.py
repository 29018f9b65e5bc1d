"""A grid of episodes on a cluster of two nodes, one of which dies."""

from collections import Counter
from pathlib import Path

import ray
from lab.tests.evaluate.remembering import TASKS
from ray.cluster_utils import Cluster

from agora_lab.episodes import read_episodes
from agora_lab.evaluate.experiment import Experiment, Run

HERE = "lab.tests.evaluate.remembering"


def test_a_grid_plays_every_episode_once_though_a_node_dies(
    cluster: Cluster, tmp_path: Path
) -> None:
    experiment = Experiment(
        environments=(f"{HERE}:WORLD",),
        backbones=(f"{HERE}:rememberer",),
        methods=("none", "floor"),
        tasks=8,
    )
    [node] = cluster.worker_nodes
    nodes = set()

    # The fixture names the cluster in RAY_ADDRESS, as every job of a cluster has it.
    for played, step in enumerate(Run(experiment, tmp_path).play(), start=1):
        assert not step.error
        nodes |= {one["NodeID"] for one in ray.nodes()}  # type: ignore[no-untyped-call]
        if played == 4:
            cluster.remove_node(node, allow_graceful=False)

    assert node.node_id in nodes
    assert len(nodes) == 2
    episodes = Counter((one.cell.method, one.task) for one in read_episodes(tmp_path))
    assert episodes == {(name, task): 1 for name in experiment.methods for task in TASKS[:8]}
