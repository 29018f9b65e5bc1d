"""Counterfactual labels (Eq. 4) from scripted agents, on training tasks, in this process.

A scripted agent answers the same prompt with the same action, so a label is 0 or 1. It acts only
on what the prompt says: an action that changes when a step is left out needed that step.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agora import parse
from agora_lab.agents.scripted import claims, reader
from agora_lab.envs import Environment, World, world
from agora_lab.label.answers import Answered
from agora_lab.label.cases import Case, from_trajectory
from agora_lab.label.forms import Tally, labels_of
from agora_lab.label.plan import PlanSettings, Shard
from agora_lab.labels import Label, Writer

__all__ = ["ENVIRONMENTS", "Count", "Settings", "label_scripted"]

ENVIRONMENTS = ("alfworld", "scienceworld", "webshop")
"""The paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How many labels to make, and of which tasks."""

    pairs: int = 700
    """Labels per environment."""
    pairs_per_trajectory: int = 24
    """At most; which of them is drawn by the seed."""
    samples: int = 8
    """The paper's K: half of them with the whole prompt, half without the step."""
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
    """Play training tasks without compression, in an order that the seed gives."""
    place = world(name)
    tasks = [task for task in place.splits()["train"] if claims(name, task)]
    random.Random(seed).shuffle(tasks)
    environment = place.make()
    try:
        for task in tasks:
            case = _played(place, environment, task)
            if case is not None:
                yield case
    finally:
        environment.close()


def _played(place: World, environment: Environment, task: str) -> Case | None:
    answer = reader(place.name).answer
    start = environment.reset(task)
    messages = [
        {"role": "system", "content": place.instructions},
        {"role": "user", "content": f"{start.task}\n\n{start.observation}"},
    ]
    for _ in range(place.most_steps):
        said = answer(messages).text
        outcome = environment.step(place.extract(said))
        if outcome.terminated:
            break
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": outcome.observation},
        ]
    whole = parse(messages, format="openai", observations="user")
    key = f"{place.name}/{task}"
    return from_trajectory(whole, name=key, source=place.name, task=task, world=place.name)


def _labels(case: Case, settings: Settings) -> Iterator[Label]:
    chance = random.Random(f"{settings.seed} {case.task}")
    anchors = range(1, len(case.steps) + 1)
    pairs = [(a, c) for a in anchors for c in case.candidates(a, k_recent=settings.k_recent)]
    chosen = sorted(chance.sample(pairs, min(len(pairs), settings.pairs_per_trajectory)))
    anchors_of = {a: tuple(c for b, c in chosen if b == a) for a, _ in chosen}
    shard = Shard(case=case, anchors=anchors_of)
    # The agent answers the same prompt with the same action, so one answer stands for all.
    plan = PlanSettings(backbone="scripted", samples=settings.samples, shared=True)
    answer = reader(case.world).answer
    answers = {
        ask.key: Answered(
            key=ask.key,
            anchor=ask.anchor,
            candidate=ask.candidate,
            whole=ask.whole,
            texts=(answer(ask.messages).text,) * (settings.samples // 2),
        )
        for ask in shard.asks(plan)
    }
    return labels_of(shard, answers, plan, Tally())
