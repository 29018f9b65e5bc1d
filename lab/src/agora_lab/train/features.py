"""Trains the `features` scorer: boosted trees of two splits each, written as lookup tables."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from agora.scorers.structure import features as features_of
from agora.scorers.tables import Table, Tables
from agora_lab.labels import LabelsError
from agora_lab.train.metrics import Ranking
from agora_lab.train.questions import Question, fold, groups, in_turn

_NEEDED = 0.5
_SHARE = 0.05
"""The share of needed pairs in training, about that of tool calling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Feature rows with their labels, and what each belongs to."""

    rows: Sequence[Sequence[int]]
    labels: Sequence[float]
    tasks: Sequence[str]
    """What must not be on both sides of a split."""
    sources: Sequence[str]
    """Where it was recorded, and how it was labelled if that differs. A large source must not
    drown out a small one."""

    def part(self, places: Sequence[int]) -> "Examples":
        """Return the examples at these places."""
        return Examples(
            rows=[self.rows[at] for at in places],
            labels=[self.labels[at] for at in places],
            tasks=[self.tasks[at] for at in places],
            sources=[self.sources[at] for at in places],
        )


def examples_of(questions: Iterable[Question]) -> Examples:
    """Return the pairs of the questions with their features, as a compressor would compute them."""
    rows: list[tuple[int, ...]] = []
    labels: list[float] = []
    tasks: list[str] = []
    sources: list[str] = []
    asked = list(questions)
    for question, group in zip(asked, groups(asked), strict=True):
        found = features_of(question.anchor, question.past)
        rows += [found[at] for at in question.candidates]
        labels += question.labels
        tasks += [question.task] * question.pairs
        sources += [group] * question.pairs
    return Examples(rows=rows, labels=labels, tasks=tasks, sources=sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    """How the trees are trained."""

    seed: int = 42
    folds: int = 4
    """Number of folds the tasks are split into, each held out once."""
    rounds: int = 250
    """Most trees; fewer if held-out tasks are scored better with fewer."""
    first_rounds: int = 100
    learning_rate: float = 0.1
    least_leaf: int = 20
    l2: float = 1.0
    most_pairs: int = 10_000
    """From a larger source, only a sample of the pairs not needed is used, weighted up."""
    most_needed: int | None = None
    """Caps the needed pairs by which a source is weighted; None for no cap. Sources with at least
    this many count equally."""
    soft: bool = False
    """Use labels as probabilities: .7 counts as .7 needed and .3 not needed. Otherwise they are
    thresholded at 0.5."""
    true_shares: bool = False
    """Train with each source's own share of needed pairs, and not with the same share for all:
    for features that tell kinds of agents apart, and probabilities that are compared with those
    of another model."""
    pairs: int = 24
    """Most feature pairs that trees may combine: each costs a lookup per step."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Tables, the scores of held-out tasks, and the model the tables were made from."""

    tables: Tables
    metrics: Mapping[str, float]
    model: Any
    trees: int


def train(
    examples: Examples,
    *,
    features: Sequence[str],
    values: int,
    settings: TreeSettings | None = None,
) -> Trained:
    """Return calibrated tables trained on the examples.

    Tasks are split into folds by a hash of their name. The scores of held-out tasks
    choose the number of trees, calibrate the sum (Platt) and give the metrics; the
    final model is then trained on everything. A first model with all feature pairs
    selects the pairs that matter; the others may use only those.

    Raises:
        LabelsError: there are too few tasks, or all labels are the same.
    """
    settings = settings or TreeSettings()
    pairs = len(examples.labels)
    examples, shares = _shared(examples) if settings.soft else (examples, np.ones(pairs))
    examples, times = _thinned(examples, shares, settings)
    x, y, weights, calibrating = _arrays(examples, times, settings.most_needed)
    if len(set(y.tolist())) < 2:
        raise LabelsError(
            "labels", f"are the same for all {len(y):,} pairs; label more or other logs"
        )
    if settings.true_shares:
        weights = calibrating / calibrating.mean()
    first = _model(settings, settings.first_rounds).fit(x, y, sample_weight=weights)
    chosen = _pairs(first, len(features), settings.pairs)
    groups = [*chosen, *({place} for place in range(len(features)))]
    side = _sides(examples.tasks, settings)
    margins = np.zeros((settings.rounds, len(y)))
    for held in range(side.max() + 1):
        fit = side != held
        if fit.all() or len(set(y[fit].tolist())) < 2:
            raise LabelsError(
                "labels",
                f"cover {len(set(examples.tasks)):,} tasks, too few to hold some out; "
                "label logs of more tasks",
            )
        model = _model(settings, settings.rounds, groups).fit(
            x[fit], y[fit], sample_weight=weights[fit]
        )
        for count, found in enumerate(model.staged_decision_function(x[~fit])):
            margins[count, ~fit] = np.ravel(found)
    trees = _best(margins, y, weights)
    model = _model(settings, trees, groups).fit(x, y, sample_weight=weights)
    tables = replace(to_tables(model, values), features=tuple(features))
    platt = LogisticRegression(C=1e6).fit(margins[trees - 1][:, None], y, sample_weight=calibrating)
    slope, intercept = float(platt.coef_[0][0]), float(platt.intercept_[0])
    tables = replace(tables, slope=slope, intercept=intercept)
    held_out = 1 / (1 + np.exp(-(slope * margins[trees - 1] + intercept)))
    metrics = {
        "pairs": pairs,
        "needed": round(float((y * times).sum())),
        **_ranked(Ranking(examples.labels, held_out), times),
    }
    return Trained(tables, metrics, model, trees)


def _sides(tasks: Sequence[str], settings: TreeSettings) -> Any:
    """Return the fold of each example's task, by a hash of its name.

    Where that leaves a fold without any, tasks take turns: a few sessions are enough to train on.
    """
    side = np.array([fold(task, settings.folds, settings.seed) for task in tasks])
    if len(set(side.tolist())) == settings.folds:
        return side
    turns = in_turn(tasks, settings.folds, settings.seed)
    return np.array([turns[task] for task in tasks])


def _ranked(ranking: Ranking, times: Any) -> dict[str, float]:
    return {
        "auc": ranking.auc(times),
        "average_precision": ranking.average_precision(times),
        "calibration_error": ranking.calibration_error(times),
    }


def to_tables(model: HistGradientBoostingClassifier, values: int) -> Tables:
    """Return a model's trees as tables: the same sums."""
    sums: dict[tuple[int, int], Any] = defaultdict(lambda: np.zeros((values, values)))
    numbers = np.arange(values)
    # There is no public access to the trees; the parity test checks this against the model.
    for [predictor] in model._predictors:
        nodes = predictor.nodes
        stack: list[tuple[int, tuple[tuple[int, Any], ...]]] = [(0, ())]
        while stack:
            at, asked = stack.pop()
            node = nodes[at]
            if not node["is_leaf"]:
                place, bound = int(node["feature_idx"]), float(node["num_threshold"])
                stack.append((int(node["left"]), (*asked, (place, numbers <= bound))))
                stack.append((int(node["right"]), (*asked, (place, numbers > bound))))
                continue
            places = sorted({place for place, _ in asked}) or [0]
            first, second = places[0], places[-1]
            fits = np.ones((values, values), dtype=bool)
            for place, mask in asked:
                fits &= mask[:, None] if place == first else mask[None, :]
            sums[first, second][fits] += float(node["value"])
    _fold(sums)
    return Tables(
        features=(),
        values=values,
        bias=float(np.ravel(model._baseline_prediction)[0]),
        tables=tuple(
            Table(first, second, tuple(tuple(map(float, row)) for row in table))
            for (first, second), table in sorted(sums.items())
        ),
    )


def _fold(sums: dict[tuple[int, int], Any]) -> None:
    """Fold each one-feature table into a two-feature table with that feature: one lookup less."""
    for first, second in [key for key in sums if key[0] == key[1]]:
        table = sums[first, second]
        # Only the diagonal of a one-feature table is ever read.
        single = table.diagonal()
        host = next((key for key in sorted(sums) if first in key and key[0] != key[1]), None)
        if host is not None:
            sums[host] += single[:, None] if host[0] == first else single[None, :]
            del sums[first, second]


def _shared(examples: Examples) -> tuple[Examples, Any]:
    """Return each pair once as needed and once as not, with the weight of each."""
    shares = np.clip(np.array(examples.labels, dtype=float), 0.0, 1.0)
    needed = [at for at, share in enumerate(shares) if share > 0]
    others = [at for at, share in enumerate(shares) if share < 1]
    both = examples.part([*needed, *others])
    labels = [1.0] * len(needed) + [0.0] * len(others)
    return replace(both, labels=labels), np.concatenate([shares[needed], 1 - shares[others]])


def _thinned(examples: Examples, shares: Any, settings: TreeSettings) -> tuple[Examples, Any]:
    """Return a sample of large sources' pairs not needed, and how many each represents."""
    chance = random.Random(settings.seed)
    sizes = Counter(examples.sources)
    kept: list[int] = []
    times: list[float] = []
    columns = zip(examples.sources, examples.labels, shares.tolist(), strict=True)
    for at, (source, label, counted) in enumerate(columns):
        share = min(1.0, settings.most_pairs / sizes[source])
        if label >= _NEEDED or share == 1 or chance.random() < share:
            kept.append(at)
            times.append(counted if label >= _NEEDED else counted / share)
    return examples.part(kept), np.array(times)


def _arrays(examples: Examples, times: Any, most_needed: int | None) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels, the weights to train with and those to calibrate with.

    Sources differ a hundredfold in how often a step is needed. A model that can learn
    this learns to distinguish the sources, and then ranks worse on a new one. So in
    training every source has the same share of needed pairs, and each needed pair the
    same weight, less if a source has more than `most_needed`; the calibration uses
    the true shares.
    """
    labels = np.array([label >= _NEEDED for label in examples.labels], dtype=int)
    sources = np.array(examples.sources)
    training, calibrating = np.zeros(len(labels)), np.zeros(len(labels))
    for source in sorted(set(examples.sources)):
        here = sources == source
        needed = here & (labels == 1)
        others = here & (labels == 0)
        found = times[needed].sum()
        count = found if most_needed is None else min(found, most_needed)
        training[needed] = _SHARE * count * times[needed] / max(found, 1e-9)
        training[others] = (1 - _SHARE) * count * times[others] / max(times[others].sum(), 1)
        calibrating[here] = count * times[here] / times[here].sum()
    rows = np.array(examples.rows, dtype=float)
    mean = training.mean()
    return rows, labels, training / mean if mean else training, calibrating


def _model(
    settings: TreeSettings, rounds: int, groups: list[set[int]] | None = None
) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_depth=2,
        max_iter=rounds,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.least_leaf,
        l2_regularization=settings.l2,
        early_stopping=False,
        interaction_cst=groups,
        random_state=settings.seed,
    )


def _pairs(model: HistGradientBoostingClassifier, features: int, most: int) -> list[set[int]]:
    """Return the feature pairs whose combination the model gains most from."""
    gains = dict.fromkeys(combinations(range(features), 2), 0.0)
    for [predictor] in model._predictors:
        nodes = predictor.nodes
        root = nodes[0]
        if root["is_leaf"]:
            continue
        for side in ("left", "right"):
            child = nodes[int(root[side])]
            low, high = sorted((int(root["feature_idx"]), int(child["feature_idx"])))
            if not child["is_leaf"] and low != high:
                gains[low, high] += float(child["gain"])
    best = sorted(gains, key=lambda pair: (-gains[pair], pair))[:most]
    return [set(pair) for pair in best if gains[pair] > 0]


def _best(margins: Any, y: Any, weights: Any) -> int:
    """Return the number of trees with the lowest loss on held-out tasks."""
    signs = np.where(y == 1, -1.0, 1.0)
    losses = [np.average(np.logaddexp(0.0, signs * row), weights=weights) for row in margins]
    return int(np.argmin(losses)) + 1
