"""How old what is needed in long conversations is, and how large the desk's results are.

Readers play with everything sent. At the desk a call's values are its arguments and, where it does
what was asked for, whatever the request needs of earlier ones; in the shop they are what an order
that points back needs, at its first call; in a household a thing that would do for a goal, at its
first call, if one was seen before; in a chain of requests a look that shows where a thing is or
was. The environments know them. A value is old when it stands in the prompt but nowhere in its
floor: instructions, everything that was said, the two newest calls. Sizes of results stand
beside those of recorded airline and retail conversations.

    AGORA_DATA=folder python -m lab.benchmarks.long_conversations --out docs/results/long-needs.json

One world at a time with `--world desk --tasks 28`; what the file has of the other one stays. With
`--run FOLDER` conversations that a run has played with everything sent are not played again.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from agora.adapters import parse
from agora.core.tokens import EstimatedTokens
from agora.logs import Tally, read_logs
from agora_lab.backbones.readers import reader
from agora_lab.bootstrap import interval, places, task_counts
from agora_lab.environments import Environment, World, world
from agora_lab.environments.data import data_folder
from agora_lab.environments.desk import WORLD, Desk
from agora_lab.episodes.episode import Cell, Episode
from agora_lab.episodes.run import read_episodes
from agora_lab.evaluation.episode_player import Player
from agora_lab.labelling.needs import CallNeeds, carries_of, goals_of, needs_of, orders_of
from agora_lab.methods import method

RECORDED = {
    "airline": "tau-bench/gpt-4o-airline.json",
    "retail": "agentrx/tau_dataset_full.json",
}
NEEDS = {"households": "alfworld", "shop_orders": "webshop"}
"""Whose data a world plays with."""
Kind = TypeVar("Kind", bound=Environment)
_COUNTER = EstimatedTokens()
_RESAMPLES = 2_000


def main() -> None:
    """Play, print the shares, and write them."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("--split", default="validation", choices=sorted(WORLD.splits()))
    asked.add_argument("--tasks", type=int, default=60)
    asked.add_argument("--world", choices=sorted(WORLDS), action="append")
    asked.add_argument("--run", type=Path, help="a run that has some of the episodes already")
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    there = given.out and given.out.exists()
    found = json.loads(given.out.read_text(encoding="utf-8")) if there else {}
    before = {one.key: one for one in read_episodes(given.run)} if given.run else {}
    for name in given.world or sorted(WORLDS):
        if name not in NEEDS or (data_folder() / NEEDS[name]).exists():
            tasks = world(name).splits()[given.split][: given.tasks]
            found[name] = {"split": given.split, "tasks": len(tasks), **WORLDS[name](tasks, before)}
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def desk(tasks: Sequence[str], before: Mapping[str, Episode]) -> dict[str, Any]:
    """Return what the desk's calls need, and how large its results are."""
    episodes, calls = played(
        "desk", Desk, lambda one, there: needs_of(one, there.script), tasks, before
    )
    return {
        **ends(episodes),
        "calls_a_task": spread([sum(m.called for m in one.moves) for one in episodes]),
        "needs": summary(calls),
        "by_kind": by_kind(calls),
        "result_tokens": {"desk": sizes(episodes), **recorded()},
    }


def shop_orders(tasks: Sequence[str], before: Mapping[str, Episode]) -> dict[str, Any]:
    """Return what orders that point back need."""
    from agora_lab.environments.shop_orders import ShopOrders

    episodes, back = played("shop_orders", ShopOrders, orders_of, tasks, before)
    return {**ends(episodes), "orders that point back": share(back), **ages(back)}


def households(tasks: Sequence[str], before: Mapping[str, Episode]) -> dict[str, Any]:
    """Return what goals in a house need."""
    from agora_lab.environments.households import Households

    episodes, goals = played("households", Households, goals_of, tasks, before)
    return {**ends(episodes), "goals": share(goals), **ages(goals)}


def chains(tasks: Sequence[str], before: Mapping[str, Episode]) -> dict[str, Any]:
    """Return what requests in a house of ScienceWorld need."""
    from agora_lab.environments.chains import Chains

    episodes, requests = played("chains", Chains, carries_of, tasks, before)
    return {
        **ends(episodes),
        "requests": share(requests),
        "requests that need what nothing shows again": share(
            requests, [bool(one.lost) for one in requests]
        ),
        "requests that put back": share([one for one in requests if one.kind == "back"]),
        **ages(requests),
    }


WORLDS: Mapping[str, Callable[[Sequence[str], Mapping[str, Episode]], dict[str, Any]]] = {
    "chains": chains,
    "desk": desk,
    "households": households,
    "shop_orders": shop_orders,
}


def played(
    name: str,
    kind: type[Kind],
    needs: Callable[[Episode, Kind], Iterable[CallNeeds]],
    tasks: Sequence[str],
    before: Mapping[str, Episode],
) -> tuple[list[Episode], list[CallNeeds]]:
    """Return the episodes of some tasks in a world, and what is needed in them.

    `needs` finds the environment at the beginning of the episode's conversation.
    """
    chosen = world(name)
    environment = chosen.make()
    assert isinstance(environment, kind)
    player = player_of(chosen, environment)
    episodes: list[Episode] = []
    found: list[CallNeeds] = []
    for task in tasks:
        episodes.append(before.get(player.cell.key(task)) or player.play(task)[0])
        environment.reset(task)
        found += needs(episodes[-1], environment)
    environment.close()
    return episodes, found


def player_of(chosen: World, environment: Environment) -> Player:
    """Return the reader of a world, sent everything."""
    return Player(
        cell=Cell(environment=chosen.name, backbone="reader", method="none"),
        world=chosen,
        environment=environment,
        backbone=reader(chosen.name),
        method=method("none"),
    )


def ends(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what the episodes came to, and how long their prompts were at the end."""
    return {
        "reward": round(sum(one.reward for one in episodes) / len(episodes), 4),
        "prompt_tokens_at_the_end": spread([one.moves[-1].tokens_whole for one in episodes]),
    }


def ages(calls: Sequence[CallNeeds]) -> dict[str, Any]:
    """Return how many steps ago old values were last seen."""
    return {"steps_ago_of_old_values": spread([one.steps_ago for one in calls if one.old])}


def summary(calls: Sequence[CallNeeds]) -> dict[str, Any]:
    """Return how often what is needed is old."""
    deeds = [one for one in calls if one.deed]
    back = [one for one in deeds if one.points_back]
    return {
        "calls": share(calls),
        "deeds": share(deeds),
        "deeds that point back": share(back),
        "deeds that need what no tool shows again": share(deeds, [bool(one.lost) for one in deeds]),
        **ages(calls),
    }


def by_kind(calls: Sequence[CallNeeds]) -> dict[str, Any]:
    """Return the same for the deeds of each kind of request."""
    kinds: dict[str, list[CallNeeds]] = defaultdict(list)
    for one in calls:
        if one.deed:
            kinds[one.kind].append(one)
    return {kind: share(own) for kind, own in sorted(kinds.items())}


def share(calls: Sequence[CallNeeds], old: Sequence[bool] | None = None) -> dict[str, Any]:
    """Return the share of calls with an old value, resampled by task."""
    told = np.asarray([bool(one.old) for one in calls] if old is None else old, dtype=float)
    found, count = places([one.task for one in calls])
    sums = np.bincount(found, weights=told, minlength=count)
    sizes_ = np.bincount(found, minlength=count)
    drawn = [counts @ sums / (counts @ sizes_) for counts in task_counts(count, _RESAMPLES, seed=0)]
    low, high = interval(np.concatenate(drawn))
    return {
        "old": int(told.sum()),
        "of": len(calls),
        "share": round(float(told.mean()), 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def spread(values: Sequence[int]) -> dict[str, int]:
    """Return quartiles and ends."""
    ordered = sorted(values)
    named = {"least": 0.0, "quarter": 0.25, "half": 0.5, "three quarters": 0.75, "nine tenths": 0.9}
    found = {name: ordered[int(at * (len(ordered) - 1))] for name, at in named.items()}
    return {"count": len(ordered), **found, "most": ordered[-1]}


def sizes(episodes: Sequence[Episode]) -> Mapping[str, Any]:
    """Return the tokens of the desk's results, all together and by tool."""
    tools: dict[str, list[int]] = defaultdict(list)
    for episode in episodes:
        for move in episode.moves:
            if move.called:
                name = move.action.partition(" ")[0]
                tools[name].append(_COUNTER.count(move.observation))
    everything = [size for own in tools.values() for size in own]
    return {"all": spread(everything), **{name: spread(own) for name, own in sorted(tools.items())}}


def recorded() -> dict[str, Any]:
    """Return the tokens of recorded results, where the data is there."""
    found = {}
    for name, path in RECORDED.items():
        if (data_folder() / path).exists():
            counts = [
                _COUNTER.count(step.observation)
                for recording in read_logs([data_folder() / path], Tally())
                for step in parse(recording.request()).trajectory.steps
            ]
            found[name] = {"all": spread(counts)}
    return found


if __name__ == "__main__":
    main()
