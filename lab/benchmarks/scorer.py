"""How well do the scorers rank steps that were needed? On recorded trajectories, held out by task.

Labels are hindsight's. `features` is trained on the other tasks of all environments (ten folds by
task, twice with other folds), and once more without the environment it is measured on.
Intervals are from drawing whole tasks anew.

    python -m lab.benchmarks.scorer [--json results.json] [--ablate]
    python -m lab.benchmarks.scorer --latency
    python -m lab.benchmarks.scorer --attack
"""

import argparse
import hashlib
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agora import Budget, Compressor, Decision
from agora.adapters import parse
from agora.core.reading.names import identifiers
from agora.core.schedule import Edit
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Anchor, Step, Trajectory
from agora.logs import Tally, read_logs
from agora.scorers import load_scorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.structure import FEATURES, VALUES, features
from agora.testing import FixedScorer
from agora_lab.labelling.hindsight import hindsight
from agora_lab.training.features import Examples, TreeSettings, train
from agora_lab.training.metrics import Metrics, measure

FOLDS = 10
REPEATS = 2
"""Which tasks share a fold changes the AUC by a hundredth or two, so it is done more than once."""
ENVIRONMENTS = {
    "airline": ("tau-bench/gpt-4o-airline.json",),
    "retail": ("agentrx",),
    "alfworld": ("knowagent", "adapt"),
    "intercode": ("intercode",),
    "coding": ("swe-agent", "trail"),
}
GROUPS = {
    "tool calling": ("airline", "retail"),
    "airline": ("airline",),
    "retail": ("retail",),
    "household (ALFWorld)": ("alfworld",),
    "SQL, bash (InterCode)": ("intercode",),
    "coding (SWE-agent, TRAIL)": ("coding",),
}
LEAST_NEEDED = 20
"""With fewer needed pairs than this a figure says nothing, and none is shown."""


@dataclass(slots=True)
class Pairs:
    """Labelled pairs in columns."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)
    stale: list[bool] = field(default_factory=list)
    """Whether the anchor is what the last step observed although the user spoke after it."""
    scores: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def examples(self, places: Sequence[int]) -> Examples:
        """Return these pairs for training."""
        return Examples(
            rows=[self.rows[at] for at in places],
            labels=[self.labels[at] for at in places],
            tasks=[self.tasks[at] for at in places],
            sources=[self.environments[at] for at in places],
        )


def trajectories(data: Path, environment: str) -> Iterator[tuple[str, Trajectory]]:
    """Yield each recorded trajectory with its task."""
    for path in ENVIRONMENTS[environment]:
        if not (data / path).exists():
            sys.exit(f"{data / path} is not there; set AGORA_DATA to the folder that has {path}")
        for recording in read_logs([data / path], Tally()):
            found = parse(recording.request()).trajectory
            task = recording.task or recording.id
            if "marshmallow" in recording.id:
                # One task, recorded with many configurations.
                task = "marshmallow"
            # ALFWorld names a task by its folder; what stands before that is the data set's.
            yield f"{environment}/{'/'.join(task.split('/')[-2:])}", found


def collect(data: Path) -> Pairs:
    """Return all pairs, with the scores of the scorers that are not trained."""
    pairs = Pairs()
    plain: dict[str, Scorer] = {"recency": RecencyScorer(), "lexical": LexicalScorer()}
    seen: set[str] = set()
    for environment in ENVIRONMENTS:
        for task, trajectory in trajectories(data, environment):
            key = hashlib.sha256(repr(trajectory).encode()).hexdigest()
            if key in seen:
                continue
            seen.add(key)
            by_anchor = defaultdict(list)
            for need in hindsight(trajectory):
                by_anchor[need.anchor].append(need)
            for number, needs in by_anchor.items():
                past = trajectory.steps[: number - 1]
                newest = trajectory.anchor(number - 1, newest=True)
                older = trajectory.anchor(number - 1, newest=False)
                for anchor in dict.fromkeys((newest, older)):
                    rows = features(anchor, past)
                    scored = {name: one.score(anchor, past) for name, one in plain.items()}
                    for need in needs:
                        at = need.candidate - 1
                        pairs.rows.append(rows[at])
                        pairs.labels.append(need.label)
                        pairs.tasks.append(task)
                        pairs.environments.append(environment)
                        pairs.stale.append(anchor != newest)
                        for name, scores in scored.items():
                            pairs.scores[name].append(scores[at])
    return pairs


def fold(task: str, repeat: int) -> int:
    """Return the fold of a task, the same everywhere."""
    digest = hashlib.sha256(f"fold {repeat}\n{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % FOLDS


def cross_validate(
    pairs: Pairs, columns: Sequence[int], settings: TreeSettings, repeat: int = 0
) -> list[float]:
    """Return for each pair what a scorer says that was trained on other tasks."""
    folds = [fold(task, repeat) for task in pairs.tasks]
    scores = [0.0] * len(folds)
    for held in range(FOLDS):
        inside = [at for at, number in enumerate(folds) if number != held]
        outside = [at for at, number in enumerate(folds) if number == held]
        fill_in(pairs, scores, inside, outside, columns, settings)
    return scores


def leave_one_out(pairs: Pairs, columns: Sequence[int], settings: TreeSettings) -> list[float]:
    """Return for each pair what a scorer says that never saw its environment."""
    scores = [0.0] * len(pairs.labels)
    for environment in ENVIRONMENTS:
        inside = [at for at, one in enumerate(pairs.environments) if one != environment]
        outside = [at for at, one in enumerate(pairs.environments) if one == environment]
        fill_in(pairs, scores, inside, outside, columns, settings)
    return scores


def fill_in(
    pairs: Pairs,
    scores: list[float],
    places: Sequence[int],
    held: Sequence[int],
    columns: Sequence[int],
    settings: TreeSettings,
) -> None:
    """Train on `places` and put the scores of `held` where they belong."""
    examples = pairs.examples(places)
    examples = replace(examples, rows=[[row[c] for c in columns] for row in examples.rows])
    names = [FEATURES[c] for c in columns]
    trained = train(examples, features=names, values=VALUES, settings=settings)
    found = trained.tables.probabilities([[pairs.rows[at][c] for at in held] for c in columns])
    for at, score in zip(held, found, strict=True):
        scores[at] = score


def figures(
    pairs: Pairs, several: Sequence[Sequence[float]], places: Sequence[int]
) -> Metrics | None:
    """Return the figures over some of the pairs, if there are enough to say anything.

    With several scores for each pair, a pair counts once with each of them.
    """
    if sum(pairs.labels[at] for at in places) < LEAST_NEEDED:
        return None
    return measure(
        [pairs.labels[at] for _ in several for at in places],
        [scores[at] for scores in several for at in places],
        [pairs.tasks[at] for _ in several for at in places],
    )


def quality(data: Path, console: Console, *, ablate: bool) -> list[dict[str, Any]]:
    """Print and return the figures of every scorer on every kind of trajectory."""
    settings = TreeSettings()
    everything = tuple(range(len(FEATURES)))
    pairs = collect(data)
    repeats = [cross_validate(pairs, everything, settings, one) for one in range(REPEATS)]
    columns = {name: [scores] for name, scores in pairs.scores.items()}
    columns["features"] = repeats
    columns["features, other environments only"] = [leave_one_out(pairs, everything, settings)]
    results: list[dict[str, Any]] = []
    for group, environments in GROUPS.items():
        inside = [environment in environments for environment in pairs.environments]
        for when, stale in (("", False), (", the user spoke since", True)):
            places = [at for at, here in enumerate(inside) if here and pairs.stale[at] == stale]
            needed = int(sum(pairs.labels[at] for at in places))
            if not places:
                continue
            tasks = len({pairs.tasks[at] for at in places})
            table = Table(
                title=f"{group}{when}: {len(places):,} pairs, {needed} needed, {tasks} tasks"
            )
            for column in ("scorer", "AUC", "average precision", "calibration error"):
                table.add_column(column)
            for name, several in columns.items():
                found = figures(pairs, several, places)
                if found is None:
                    continue
                table.add_row(
                    name, str(found.auc), str(found.average_precision), str(found.calibration_error)
                )
                results.append(
                    {
                        "trajectories": group,
                        "stale_anchor": stale,
                        "scorer": name,
                        "pairs": len(places),
                        "needed": needed,
                        "tasks": tasks,
                        "auc": _listed(found.auc),
                        "average_precision": _listed(found.average_precision),
                        "calibration_error": _listed(found.calibration_error),
                    }
                )
            console.print(table)
    if ablate:
        _ablate(pairs, console, settings)
    return results


def _ablate(pairs: Pairs, console: Console, settings: TreeSettings) -> None:
    table = Table(title="AUC on tool calling without one feature")
    table.add_column("without")
    table.add_column("AUC")
    tools = [e in GROUPS["tool calling"] for e in pairs.environments]
    places = [at for at, tool in enumerate(tools) if tool and not pairs.stale[at]]
    for left_out in (None, *range(len(FEATURES))):
        columns = [at for at in range(len(FEATURES)) if at != left_out]
        scores = cross_validate(pairs, columns, settings)
        found = figures(pairs, [scores], places)
        table.add_row(FEATURES[left_out] if left_out is not None else "-", str(found and found.auc))
    console.print(table)


def _listed(interval: Any) -> list[float]:
    return [interval.value, interval.low, interval.high]


def long_trajectory(data: Path, steps: int) -> list[Step]:
    """Return so many recorded steps in a row, from as many trajectories as it takes."""
    found: list[Step] = []
    for _, trajectory in trajectories(data, "airline"):
        found += trajectory.steps
        if len(found) >= steps:
            break
    return [step._replace(number=n) for n, step in enumerate(found[:steps], start=1)]


def latency(data: Path, console: Console) -> list[dict[str, Any]]:
    """Print and return the CPU time of a call when all but the newest step was seen before.

    Growing: the same trajectory with one step more at each call, as an agent sends it, twenty times
    for each of ten trajectories. Moving: the oldest step is gone as well, so that nothing that was
    counted over all steps can be used again.
    """
    table = Table(title="CPU time per call, warm: one step more at each call")
    columns = ("scorer", "past steps", "", "p50 ms", "p99 ms", "10,000 additions, ms", "p50 / that")
    for column in columns:
        table.add_column(column)
    results = []
    calls, starts = 20, range(0, 200, 20)
    steps = long_trajectory(data, 300 + calls + starts[-1])
    for name in ("recency", "lexical", "features", "worth"):
        scorer = load_scorer(name)
        for size, growing in ((30, True), (300, True), (300, False)):
            times = []
            for start in starts:
                for call in range(-2, calls):
                    begin = start if growing else start + call + 2
                    past = steps[begin : start + size + call - (calls // 2 if growing else 0)]
                    anchor = Anchor(steps[0].action, past[-1].observation)
                    begun = time.process_time()
                    scorer.score(anchor, past)
                    times += [1e3 * (time.process_time() - begun)] if call >= 0 else []
            times.sort()
            p50, p99 = times[len(times) // 2], times[int(0.99 * len(times))]
            how, additions = "growing" if growing else "moving", _additions()
            figures = (f"{p50:.2f}", f"{p99:.2f}", f"{additions:.2f}", f"{p50 / additions:.1f}")
            table.add_row(name, str(size), how, *figures)
            results.append(
                {
                    "scorer": name,
                    "steps": size,
                    "trajectory": how,
                    "p50_ms": p50,
                    "p99_ms": p99,
                    "additions_ms": additions,
                }
            )
    console.print(table)
    return results


def _additions() -> float:
    """Return the milliseconds that 10,000 additions take now: machines are noisy."""
    best = float("inf")
    for _ in range(20):
        start = time.process_time()
        total = 0
        for number in range(10_000):
            total += number
        best = min(best, 1e3 * (time.process_time() - start))
    return best


def attack(data: Path, console: Console, *, seed: int = 0) -> list[dict[str, Any]]:
    """Print and return what one observation of an attacker's choice does to the selection.

    The attacker knows the scorer and the trajectory, and writes the observation of one step outside
    the floor. Stuffing: the best of eight texts of made-up codes and of names that the anchor, the
    task or other steps have. Hotflip: the recorded text, one word changed after the other, each to
    what raises the score most of those tried (trees have no gradient to follow). Then both.

    What is kept of the other steps is compared with what is kept beside a text that says nothing
    and has as many tokens, and beside one that has as many characters. The first is looked at by
    cause: with the scores as they were and only the text changed, with only the attacker's score
    changed too, with only the scores of the others changed.
    """
    scorer = load_scorer("features")
    recorded = [t for e in ("airline", "retail") for _, t in trajectories(data, e)]
    several = [t for t in recorded if len(t.steps) > 7]
    chance = random.Random(seed)
    lengths = {
        "recorded": chance.sample(several, min(60, len(several))),
        "60 steps": [_joined(chance, several, 60) for _ in range(30)],
    }
    table = Table(title="One observation of an attacker's choice")
    columns = (
        "trajectories / attack",
        "score raised",
        "kept",
        "budget most / above .25",
        "others moved mean / most",
        "Jaccard mean / below .8",
        "by text / own score / others' scores",
        "same characters",
    )
    for column in columns:
        table.add_column(column)
    results: list[dict[str, Any]] = []
    for length, drawn in lengths.items():
        found: dict[str, list[dict[str, float]]] = defaultdict(list)
        for trajectory in drawn:
            number = chance.randrange(1, len(trajectory.steps) - 2)
            size = max(200, len(trajectory.steps[number - 1].observation))
            stuffed = _best(scorer, trajectory, number, _stuffed(trajectory, number, size, chance))
            honest = trajectory.steps[number - 1].observation
            texts = {
                "stuffing": stuffed,
                "hotflip": _flipped(scorer, trajectory, number, honest, chance),
                "stuffing, then hotflip": _flipped(scorer, trajectory, number, stuffed, chance),
            }
            for name, text in texts.items():
                found[name].append(_effect(scorer, trajectory, number, text))
        for name, effects in found.items():
            mean = {key: sum(e[key] for e in effects) / len(effects) for key in effects[0]}
            most = {key: max(e[key] for e in effects) for key in effects[0]}
            below = {key: sum(e[key] < 0.8 for e in effects) for key in effects[0]}
            causes = ("jaccard_by_text", "jaccard_by_own_score", "jaccard_by_other_scores")
            table.add_row(
                f"{length} ({len(effects)}): {name}",
                f"{mean['raised']:.3f}",
                f"{sum(e['share'] > 0 for e in effects)}",
                f"{most['share']:.3f} / {sum(e['share'] > 0.25 for e in effects)}",
                f"{mean['moved']:.3f} / {most['moved']:.3f}",
                f"{mean['jaccard']:.3f} / {below['jaccard']}",
                ", ".join(f"{mean[cause]:.3f} / {below[cause]}" for cause in causes),
                f"{mean['jaccard_same_characters']:.3f} / {below['jaccard_same_characters']}",
            )
            results.append(
                {
                    "length": length,
                    "attack": name,
                    "trajectories": len(effects),
                    "floor_lost": sum(e["floor_lost"] for e in effects),
                    "kept": sum(e["share"] > 0 for e in effects),
                    "share_above_0.25": sum(e["share"] > 0.25 for e in effects),
                    "mean": mean,
                    "most": most,
                    "below_0.8": {key: below[key] for key in below if key.startswith("jaccard")},
                }
            )
    console.print(table)
    lost = sum(result["floor_lost"] for result in results)
    console.print(f"Items of the floor elided: {lost:.0f}")
    return results


def _effect(scorer: Scorer, trajectory: Trajectory, number: int, text: str) -> dict[str, float]:
    """Return what the text in the place of one observation does, beside one that says nothing."""
    attacked = _with(trajectory, number, text)
    at = number - 1
    tokens = attacked.steps[at].tokens
    says_nothing = _with(trajectory, number, "ok " * tokens)
    steps = [s._replace(tokens=tokens) if s.number == number else s for s in says_nothing.steps]
    neutral = replace(says_nothing, steps=tuple(steps))
    as_long = _with(trajectory, number, "ok " * (len(text) // 3))
    before, after = (_scores(scorer, one) for one in (neutral, attacked))
    kept = _decided(before, neutral)
    now = _decided(after, attacked)

    def jaccard(scores: Sequence[float], there: Sequence[Decision] = kept) -> float:
        return _jaccard(there, _decided(scores, attacked), number, ("kept", "floor"))

    mine = now[at]
    floor_tokens = attacked.fixed_tokens + sum(d.tokens for d in now if d.outcome == "floor")
    room = Budget().of(attacked.tokens, floor=floor_tokens)
    moved = [abs(b - a) for n, (b, a) in enumerate(zip(before, after, strict=True)) if n != at]
    both = list(zip(kept, now, strict=True))
    return {
        "raised": after[at] - _scores(scorer, trajectory)[at],
        "share": mine.tokens / room if mine.outcome == "kept" else 0.0,
        "floor_lost": sum(b.outcome == "floor" and a.outcome == "elided" for b, a in both),
        "moved": max(moved),
        "jaccard": jaccard(after),
        "jaccard_chosen": _jaccard(kept, now, number, ("kept",)),
        "jaccard_by_text": jaccard(before),
        "jaccard_by_own_score": jaccard([*before[:at], after[at], *before[number:]]),
        "jaccard_by_other_scores": jaccard([*after[:at], before[at], *after[number:]]),
        "jaccard_same_characters": jaccard(after, _decided(_scores(scorer, as_long), as_long)),
    }


def _scores(scorer: Scorer, trajectory: Trajectory) -> list[float]:
    anchor = trajectory.anchor(len(trajectory.steps), newest=True)
    return list(scorer.score(anchor, trajectory.steps))


def _decided(scores: Sequence[float], trajectory: Trajectory) -> Sequence[Decision]:
    compressor = Compressor(scorer=FixedScorer(tuple(scores)), schedule="every_call", strict=True)
    return compressor.decide(trajectory, Edit(len(trajectory.steps), sees_newest=True))


def _best(scorer: Scorer, trajectory: Trajectory, number: int, texts: Iterable[str]) -> str:
    """Return the text that gives its step the highest score."""
    return max(texts, key=lambda text: _scores(scorer, _with(trajectory, number, text))[number - 1])


def _flipped(
    scorer: Scorer, trajectory: Trajectory, number: int, text: str, chance: random.Random
) -> str:
    """Return the text after greedy changes of one word each, twelve places with five words each."""
    names = list(identifiers(trajectory.steps[-1].observation + "\n" + trajectory.task))
    for _ in range(12):
        words = text.split(" ")
        place = chance.randrange(len(words))
        tries = [make(chance) for make in _WORDS]
        tries += [chance.choice(names)] if names else []
        changed = [" ".join([*words[:place], word, *words[place + 1 :]]) for word in tries]
        text = _best(scorer, trajectory, number, [text, *changed])
    return text


def _joined(chance: random.Random, several: Sequence[Trajectory], steps: int) -> Trajectory:
    """Return one trajectory with the steps of several, as if the agent had gone on."""
    found: list[Step] = []
    first = chance.choice(several)
    found += first.steps
    while len(found) < steps:
        found += chance.choice(several).steps
    numbered = tuple(step._replace(number=n) for n, step in enumerate(found[:steps], start=1))
    said = tuple(u for u in first.utterances if u.after < len(first.steps))
    return replace(first, steps=numbered, utterances=said, pending_tokens=0)


def _jaccard(
    before: Sequence[Decision], after: Sequence[Decision], number: int, outcomes: Sequence[str]
) -> float:
    """Return how far two selections agree about the steps other than `number`."""
    one, other = (
        {d.number for d in decisions if d.outcome in outcomes and d.number != number}
        for decisions in (before, after)
    )
    return len(one & other) / len(one | other) if one | other else 1.0


def _code(chance: random.Random) -> str:
    return "".join(chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=3)) + str(
        chance.randrange(100, 999)
    )


def _card(chance: random.Random) -> str:
    return f"credit_card_{chance.randrange(1_000_000, 9_999_999)}"


def _number(chance: random.Random) -> str:
    return f'"{chance.randrange(1_000_000_000, 9_999_999_999)}"'


def _prose(chance: random.Random) -> str:
    return chance.choice(("please", "the", "order", "refund", "error", "flight"))


_WORDS: tuple[Callable[[random.Random], str], ...] = (_code, _card, _number, _prose)


def _stuffed(
    trajectory: Trajectory, number: int, size: int, chance: random.Random
) -> Iterator[str]:
    """Yield observations of about `size` characters that try to look needed."""
    others = [s for s in trajectory.steps if s.number != number]
    names = list(identifiers("\n".join(s.observation for s in others)))
    now = list(identifiers(trajectory.steps[-1].observation + "\n" + trajectory.task))
    for make in _WORDS:
        yield " ".join(make(chance) for _ in range(max(1, size // 10)))
    for pool in (names, now, names + [_code(chance) for _ in range(30)]):
        if pool:
            yield " ".join(chance.choice(pool) for _ in range(max(1, size // 10)))
    yield _code(chance)


def _with(trajectory: Trajectory, number: int, text: str) -> Trajectory:
    steps = list(trajectory.steps)
    tokens = steps[number - 1].tokens - EstimatedTokens().count(steps[number - 1].observation)
    steps[number - 1] = steps[number - 1]._replace(
        observation=text, tokens=tokens + EstimatedTokens().count(text)
    )
    return replace(trajectory, steps=tuple(steps))


def main() -> None:
    """Print the tables, and write the figures to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--ablate", action="store_true", help="also without each feature")
    parser.add_argument("--latency", action="store_true", help="time, and nothing else")
    parser.add_argument("--attack", action="store_true", help="robustness, and nothing else")
    options = parser.parse_args()
    data = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[3] / "shared" / "data"))
    console = Console(width=150)
    results: Any
    if options.latency:
        results = latency(data, console)
    elif options.attack:
        results = attack(data, console)
    else:
        results = quality(data, console, ablate=options.ablate)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
