"""Which labels teach a scorer most: the paper's Hard-CF (K = 1) beside K = 8, and the others.

    python -m lab.benchmarks.label_forms --train hard=HARD.parquet --train soft=PAIRED.parquet \
        --test EXACT.parquet --test HINDSIGHT.parquet

The `features` scorer is trained on each file of labels, a label taken for a share, and ranks the
pairs of the test files. Tasks that any training file has are left out of them. Intervals are by
task; the difference to the first training file is paired: both rank the same pairs of the same
drawn tasks. Figures go to docs/results/label-forms.json.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agora.scorers.lexical import LexicalScorer
from agora.scorers.structure import FEATURES, VALUES
from agora_lab.training.features import Examples, TreeSettings, examples_of, train
from agora_lab.training.metrics import Ranking
from agora_lab.training.questions import read_questions

RESULTS = Path("docs/results/label-forms.json")
_DRAWS = 500


def examples(path: Path) -> Examples:
    """Return the pairs of a file of labels, with the newest anchor of each question."""
    return examples_of(read_questions([path], newest=True))


def trained_scores(learnt: Examples, asked: Examples) -> Any:
    """Return what a scorer that was trained on one file says of the pairs of another."""
    settings = TreeSettings(soft=True, rounds=120, first_rounds=60)
    tables = train(learnt, features=FEATURES, values=VALUES, settings=settings).tables
    return np.array(tables.probabilities(list(zip(*asked.rows, strict=True))))


def lexical_scores(path: Path, tasks: set[str]) -> Any:
    """Return what the default scorer says of the same pairs: it needs no labels."""
    said: list[float] = []
    scorer = LexicalScorer()
    for question in read_questions([path], newest=True):
        if question.task not in tasks:
            scores = scorer.score(question.anchor, question.past)
            said += [scores[at] for at in question.candidates]
    return np.array(said)


def compared(labels: Sequence[float], tasks: Sequence[str], said: dict[str, Any]) -> Any:
    """Return each scorer's AUC, and its difference to the first, with intervals by task."""
    names, place = np.unique(np.array(tasks), return_inverse=True)
    chance = np.random.default_rng(0)
    drawn = [
        np.bincount(chance.integers(0, len(names), len(names)), minlength=len(names))[place]
        for _ in range(_DRAWS)
    ]
    rankings = {name: Ranking(labels, scores) for name, scores in said.items()}
    resampled = {
        name: np.array([ranking.auc(weights.astype(float)) for weights in drawn])
        for name, ranking in rankings.items()
    }
    first = next(iter(said))
    found = {}
    for name, ranking in rankings.items():
        more = resampled[name] - resampled[first]
        found[name] = {
            "auc": round(ranking.auc(), 4),
            "interval": _interval(resampled[name]),
            f"minus {first}": round(ranking.auc() - rankings[first].auc(), 4),
            "interval of the difference": _interval(more),
        }
    return found


def _interval(values: Any) -> list[float]:
    return [round(float(one), 4) for one in np.nanpercentile(values, [2.5, 97.5])]


def main(given: Sequence[str] | None = None) -> None:
    """Train, rank, and write down what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--test", action="append", required=True, type=Path, metavar="FILE")
    options = parser.parse_args(given)
    learnt = {}
    for one in options.train:
        name, _, path = one.rpartition("=")
        learnt[name] = examples(Path(path))
    seen = {task for one in learnt.values() for task in one.tasks}
    results: dict[str, Any] = {
        "trained_on": {
            name: {
                "pairs": len(one.labels),
                "tasks": len(set(one.tasks)),
                "mean_label": round(float(np.mean(one.labels)), 4),
            }
            for name, one in learnt.items()
        },
        "tested_on": {},
    }
    for path in options.test:
        every = examples(path)
        asked = every.part([at for at, task in enumerate(every.tasks) if task not in seen])
        said = {name: trained_scores(one, asked) for name, one in learnt.items()}
        said["lexical (no labels)"] = lexical_scores(path, seen)
        found = compared(asked.labels, asked.tasks, said)
        results["tested_on"][path.stem] = {
            "pairs": len(asked.labels),
            "needed": int(sum(label >= 0.5 for label in asked.labels)),
            "tasks": len(set(asked.tasks)),
            "scorers": found,
        }
        print(path.stem, json.dumps(results["tested_on"][path.stem], indent=1), flush=True)
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
