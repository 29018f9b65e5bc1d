"""How much of what later actions need each rule keeps, at equal tokens.

On the validation half of the recorded tasks. `worth` is trained on the other tasks of all sources
(folds by task, coding by repository), and once more without the kind of agent that it is measured
on. Every rule chooses parts: a step whole, its action alone, or nothing; notes and lines are not
counted. Kept: the share of what the next thirty actions need from outside the floor that is still
there, each need discounted as in the labels, mean over edits that need something.

    python -m lab.benchmarks.worth LABELS... [--every N] [--json docs/results/worth.json]

LABELS are files of `agora label worth --half validation`.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Step
from agora.scorers import load_scorer
from agora.scorers.parts import FEATURES, VALUES
from agora.scorers.tables import Tables
from agora_lab.labelling.worth import PARTS, Use, WorthSettings, uses
from agora_lab.labels import read_trajectories
from agora_lab.training.features import train
from agora_lab.training.fill import Parts, fill
from agora_lab.training.metrics import Ranking
from agora_lab.training.questions import fold
from agora_lab.training.worth import SETTINGS, Edit, examples_of, read_edits

KINDS = {
    "airline": "tool calls",
    "retail": "tool calls",
    "coding": "coding",
    "swe-agent": "coding",
    "intercode": "shell and SQL",
    "alfworld": "text world",
    "whowhen": "several agents",
}
FOLDS = 3
SHARES = (0.15, 0.25)
LARGE = 1_000
"""Sources with more edits than this are thinned by `--every`."""
_COUNTER = EstimatedTokens()


@dataclass(slots=True)
class Asked:
    """An edit with what it is judged by and what each rule says of it."""

    edit: Edit
    tokens: list[tuple[int, int]]
    """Per candidate what its action costs, and its observation on top."""
    needs: list[tuple[float, str, tuple[tuple[int, int], ...]]]
    """The weight of each need, its kind, and the parts that have it: candidate and part."""
    scores: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def ask(edit: Edit, found: Sequence[Use], settings: WorthSettings) -> Asked:
    """Return the edit with its costs and needs."""
    epoch = len(edit.past.steps)
    place = {at + 1: n for n, at in enumerate(edit.candidates)}
    needs: dict[object, tuple[float, str, tuple[tuple[int, int], ...]]] = {}
    for use in found:
        if not epoch < use.step <= epoch + settings.calls:
            continue
        if all(number in place for number, _ in use.holders):
            key = (use.kind, use.key)
            weight = settings.lasts ** (use.step - epoch - 1)
            holders = tuple((place[number], PARTS.index(part)) for number, part in use.holders)
            needs.setdefault(key, (weight, use.kind, holders))
    return Asked(edit, [_cost(edit.past.steps[at]) for at in edit.candidates], [*needs.values()])


def _cost(step: Step) -> tuple[int, int]:
    action = min(_COUNTER.count(step.thought) + _COUNTER.count(step.action) + 8, step.tokens)
    return max(action, 1), max(step.tokens - action, 1)


Rule = Callable[[Asked, float], Parts]


def newest(asked: Asked, room: float) -> Parts:
    """Keep the newest whole steps that fit."""
    return whole(asked, range(len(asked.tokens) - 1, -1, -1), room)


def whole(asked: Asked, order: Sequence[int], room: float) -> Parts:
    """Keep whole steps in this order."""
    kept: Parts = set()
    for at in order:
        if sum(asked.tokens[at]) <= room:
            room -= sum(asked.tokens[at])
            kept |= {(at, 0), (at, 1)}
    return kept


def commands_first(asked: Asked, room: float) -> Parts:
    """Keep all actions, the newest first, then the newest observations."""
    kept: Parts = set()
    for part in (0, 1):
        for at in range(len(asked.tokens) - 1, -1, -1):
            cost = asked.tokens[at][part]
            if cost <= room and (not part or (at, 0) in kept):
                room -= cost
                kept.add((at, part))
    return kept


def by_score(name: str) -> Rule:
    """Keep whole steps by a scorer."""

    def rule(asked: Asked, room: float) -> Parts:
        scores = asked.scores[name]
        order = sorted(range(len(scores)), key=lambda at: (scores[at][0], at), reverse=True)
        return whole(asked, order, room)

    return rule


def per_token(name: str) -> Rule:
    """Keep parts by worth per token, along the concave hull of each step's forms."""

    def rule(asked: Asked, room: float) -> Parts:
        return fill(asked.scores[name], asked.tokens, room)

    return rule


RULES: Mapping[str, Rule] = {
    "newest": newest,
    "commands first": commands_first,
    "lexical": by_score("lexical"),
    "features": by_score("features"),
    "features per token": per_token("features"),
    "rule per token": per_token("rule"),
    "worth": per_token("worth"),
    "worth, other kinds only": per_token("worth, other kinds only"),
    "labels (the limit)": per_token("labels"),
}


def shares_kept(several: Sequence[Asked], rule: Rule, share: float) -> dict[str, float]:
    """Return the mean share of needed names and of copied runs that a rule keeps."""
    found: dict[str, list[float]] = defaultdict(list)
    for asked in several:
        kept = rule(asked, share * sum(map(sum, asked.tokens)))
        total: dict[str, float] = defaultdict(float)
        got: dict[str, float] = defaultdict(float)
        for weight, kind, holders in asked.needs:
            total[kind] += weight
            got[kind] += weight * any(holder in kept for holder in holders)
        for kind, weight in total.items():
            found[kind].append(got[kind] / weight)
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def auc_within(several: Sequence[Asked], name: str, part: int) -> float:
    """Return the mean AUC within an edit: how well needed parts rank above the others there."""
    found = []
    for asked in several:
        labels = [float(label > 0) for label in asked.edit.labels[PARTS[part]]]
        if 0 < sum(labels) < len(labels):
            found.append(Ranking(labels, [one[part] for one in asked.scores[name]]).auc())
    return float(np.mean(found)) if found else float("nan")


def fit(edits: Sequence[Edit]) -> list[Tables]:
    """Return the tables of both parts, trained a little faster than what ships."""
    return [
        train(
            examples_of(edits, part),
            features=FEATURES,
            values=VALUES,
            settings=replace(
                SETTINGS[part], folds=2, rounds=80, first_rounds=40, most_pairs=10_000
            ),
        ).tables
        for part in PARTS
    ]


def score(several: Sequence[Asked], tables: Sequence[Tables], name: str) -> None:
    """Put down what the tables say of each edit."""
    for asked in several:
        columns = list(zip(*asked.edit.rows, strict=True))
        found = [one.probabilities(columns) for one in tables]
        asked.scores[name] = list(zip(*found, strict=True))


def score_all(several: Sequence[Asked]) -> None:
    """Put down what the rules and scorers say that are not trained here, and then `worth`."""
    from agora.scorers.rule import RuleWorth

    for asked in several:
        edit, past = asked.edit, asked.edit.past
        for name in ("features", "lexical"):
            found = load_scorer(name).score(past.anchor, past.steps)
            asked.scores[name] = [(found[at], found[at]) for at in edit.candidates]
        held = {step.number for step in past.steps}.difference(at + 1 for at in edit.candidates)
        worths = RuleWorth().worth(past, held)
        asked.scores["rule"] = [(worths[n].action, worths[n].observation) for n in edit.candidates]
        asked.scores["labels"] = list(zip(*[edit.labels[part] for part in PARTS], strict=True))
    folds = [_fold(asked.edit.task) for asked in several]
    for held_out in range(FOLDS):
        inside = [one.edit for one, place in zip(several, folds, strict=True) if place != held_out]
        outside = [one for one, place in zip(several, folds, strict=True) if place == held_out]
        score(outside, fit(inside), "worth")
        print(f"fold {held_out + 1} of {FOLDS}", flush=True)
    for kind in sorted(set(KINDS.values())):
        inside = [one.edit for one in several if KINDS[one.edit.source] != kind]
        outside = [one for one in several if KINDS[one.edit.source] == kind]
        if outside:
            score(outside, fit(inside), "worth, other kinds only")
            print(f"without {kind}", flush=True)


_REPOSITORIES = ("sympy", "sphinx", "matplotlib", "scikit", "pytest", "psf")


def _fold(task: str) -> int:
    """Return the fold of a task; the few repositories are dealt out, largest first."""
    for place, name in enumerate(_REPOSITORIES):
        if task.startswith(f"coding/{name}"):
            return min(place, 2 * FOLDS - 1 - place) % FOLDS
    return fold(task, FOLDS, 1)


def read(files: Sequence[Path], every: int) -> list[Asked]:
    """Return every so many edits in files of labels, with their needs."""
    settings = WorthSettings()
    found: list[Asked] = []
    for path in files:
        edits = list(read_edits([path], newest=False))
        edits = edits[:: every if len(edits) > LARGE else 1]
        asked = {edit.data for edit in edits}
        wanted = {
            data: uses(trajectory) for data, trajectory in read_trajectories(path) if data in asked
        }
        found += [ask(edit, wanted[edit.data], settings) for edit in edits]
    return found


def report(several: Sequence[Asked]) -> list[dict[str, Any]]:
    """Print and return the figures of each source."""
    results = []
    for source in dict.fromkeys(one.edit.source for one in several):
        here = [one for one in several if one.edit.source == source]
        needing = [one for one in here if one.needs]
        tasks = len({one.edit.task for one in here})
        print(f"\n{source}: {len(here):,} edits, {len(needing):,} with needs, {tasks} tasks")
        for name, rule in RULES.items():
            row: dict[str, Any] = {"source": source, "rule": name, "edits": len(needing)}
            for share in SHARES:
                kept = shares_kept(needing, rule, share)
                row[f"{share:.0%}"] = {kind: round(value, 4) for kind, value in kept.items()}
            if name.startswith("worth") or name == "features":
                row["auc"] = [round(auc_within(here, name, part), 4) for part in (0, 1)]
            results.append(row)
            shown = "  ".join(f"{share:.0%}: {_shown(row[f'{share:.0%}'])}" for share in SHARES)
            print(f"  {name:26s} {shown}  {row.get('auc', '')}", flush=True)
        for part, called in enumerate(PARTS):
            label = float(np.mean([x for one in here for x in one.edit.labels[called]]))
            said = float(np.mean([x[part] for one in here for x in one.scores["worth"]]))
            print(f"  {called}: mean label {label:.4f}, mean worth {said:.4f}")
            results.append({"source": source, "part": called, "label": label, "worth": said})
    return results


def _shown(kept: Mapping[str, float]) -> str:
    return " ".join(
        f"{kind} {kept[kind]:.3f}" for kind in ("name", "copy", "again") if kind in kept
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--every", type=int, default=1, help="of a large source every so many")
    chosen = parser.parse_args()
    several = read(chosen.labels, chosen.every)
    score_all(several)
    results = report(several)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
