"""Counterfactual labels (Eq. 4) from scripted agents, on training tasks, in this process.

A scripted agent answers the same prompt with the same action, so all `K` answers of a side are
equal and a label is 0 or 1. It acts only on what the prompt says: an action that changes when a
step is left out needed that step.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agora_lab.agents.scripted import claims, reader
from agora_lab.envs import World, world
from agora_lab.episodes.episode import Cell
from agora_lab.evaluate.episode_player import Player
from agora_lab.label.cases import Case, from_episode
from agora_lab.labels import Label, Writer
from agora_lab.methods import method

__all__ = ["Count", "Settings", "label_scripted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How many labels to make, and of which tasks."""

    pairs: int = 700
    """Labels per environment."""
    pairs_per_trajectory: int = 24
    """At most; which of them is drawn by the seed."""
    k_recent: int = 2
    seed: int = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What was made of one environment."""

    trajectories: int
    pairs: int
    critical: int


def label_scripted(
    names: tuple[str, ...],
    out: Path,
    settings: Settings | None = None,
    *,
    progress: Callable[[str, Count], None] = lambda *_: None,
) -> dict[str, Count]:
    """Write labels of the environments' training tasks to `out`; return their counts.

    `progress` is called after each trajectory with the environment and what there is so far.
    """
    settings = settings or Settings()
    counts: dict[str, Count] = {}
    with Writer(out) as writer:
        for name in names:
            made = Count(trajectories=0, pairs=0, critical=0)
            for case in _cases(name, settings.seed):
                labels = list(_labels(case, settings))[: settings.pairs - made.pairs]
                if labels:
                    writer.add(case.whole, labels)
                    made = Count(
                        trajectories=made.trajectories + 1,
                        pairs=made.pairs + len(labels),
                        critical=made.critical + sum(label.label >= 0.5 for label in labels),
                    )
                    progress(name, made)
                if made.pairs >= settings.pairs:
                    break
            counts[name] = made
    return counts


def _cases(name: str, seed: int) -> Iterator[Case]:
    """Play training tasks without compression, in an order that the seed says."""
    place: World = world(name)
    tasks = [task for task in place.splits()["train"] if claims(name, task)]
    random.Random(seed).shuffle(tasks)
    environment = place.make()
    try:
        player = Player(
            cell=Cell(environment=name, backbone="scripted", method="none"),
            world=place,
            environment=environment,
            backbone=reader(name),
            method=method("none"),
        )
        for task in tasks:
            case = from_episode(player.play(task)[0])
            if case is not None:
                yield case
    finally:
        environment.close()


def _labels(case: Case, settings: Settings) -> Iterator[Label]:
    chance = random.Random(f"{settings.seed} {case.task}")
    anchors = range(1, len(case.steps) + 1)
    pairs = [(a, c) for a in anchors for c in case.candidates(a, k_recent=settings.k_recent)]
    chosen = sorted(chance.sample(pairs, min(len(pairs), settings.pairs_per_trajectory)))
    answer = reader(case.world).answer
    canonical = world(case.world).canonical
    extract = world(case.world).extract

    def action(anchor: int, candidate: int = 0) -> str:
        return canonical(extract(answer(case.prompt(anchor, candidate)).text))

    whole = {anchor: action(anchor) for anchor, _ in chosen}
    for anchor, candidate in chosen:
        yield Label(
            trajectory=case.trajectory,
            data=case.data,
            source=case.source,
            task=case.task,
            anchor=anchor,
            candidate=candidate,
            label=float(action(anchor, candidate) != whole[anchor]),
            kind="counterfactual",
        )
