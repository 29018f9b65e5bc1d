"""Counterfactual labels (Eq. 4) from scripted agents, on training tasks, in this process.

A scripted agent answers the same prompt with the same action, so a label is 0 or 1. It acts on the
prompt alone: an action that changes when a step is left out needed that step.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agora_lab.agents.scripted import claims, reader
from agora_lab.envs import Environment, World, world
from agora_lab.label.cases import Case
from agora_lab.label.forms import canonical, label_of
from agora_lab.label.plan import PlanSettings, chosen_pairs
from agora_lab.labels import Label

ENVIRONMENTS = ("alfworld", "scienceworld", "webshop")
"""The paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The number of labels, and the draw of their pairs."""

    pairs: int = 700
    """Labels per environment."""
    pairs_per_trajectory: int = 24
    """At most; which of them is drawn by the seed."""
    seed: int = 42


def label_scripted(
    environment: str,
    settings: Settings | None = None,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Label]:
    """Return labels of an environment's training tasks.

    Args:
        environment: One of `ENVIRONMENTS`.
        settings: How many labels, and of which tasks.
        progress: Called after each trajectory with the labels so far and in all.
    """
    settings = settings or Settings()
    labels: list[Label] = []
    for case in _cases(environment, settings.seed):
        labels += _labels(case, settings)
        progress(min(len(labels), settings.pairs), settings.pairs)
        if len(labels) >= settings.pairs:
            break
    return labels[: settings.pairs]


def _cases(name: str, seed: int) -> Iterator[Case]:
    """Play training tasks without compression, in an order that the seed gives."""
    place = world(name)
    tasks = [task for task in place.splits()["train"] if claims(name, task)]
    random.Random(seed).shuffle(tasks)
    environment = place.make()
    try:
        for task in tasks:
            yield _played(place, environment, task)
    finally:
        environment.close()


def _played(place: World, environment: Environment, task: str) -> Case:
    answer = reader(place.name).answer
    start = environment.reset(task)
    messages = [
        {"role": "system", "content": place.instructions},
        {"role": "user", "content": f"{start.task}\n\n{start.observation}"},
    ]
    steps: list[tuple[str, str]] = []
    for _ in range(place.most_steps):
        text = answer(messages).text
        outcome = environment.step(place.extract(text))
        if outcome.terminated:
            break
        steps.append((text, outcome.observation))
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": outcome.observation},
        ]
    return Case(
        trajectory=f"{place.name}/{task}",
        source=place.name,
        task=task,
        world=place.name,
        messages=tuple(messages),
        spans=tuple((at, at + 2) for at in range(2, len(messages), 2)),
        steps=tuple(steps),
    )


def _labels(case: Case, settings: Settings) -> Iterator[Label]:
    answer, compared = reader(case.world).answer, canonical(case.world)
    plan = PlanSettings(
        backbone="scripted", pairs=settings.pairs_per_trajectory, seed=settings.seed
    )
    whole: dict[int, str] = {}
    for anchor, candidate in chosen_pairs(case, plan):
        if anchor not in whole:
            whole[anchor] = compared(answer(case.prompt(anchor)).text)
        without = compared(answer(case.prompt(anchor, candidate)).text)
        yield label_of(case, anchor, candidate, float(whole[anchor] != without))
