"""The quality of labels: their reliability, their cost, and how well kinds agree.

The samples of a prompt are exchangeable, so the answers of one run give two
independent labels for each pair: one from half of the samples of either side, one
from the other half. Their correlation is the reliability of a label made from
half of what was asked; by Spearman and Brown, 2r / (1 + r) is that of the label
made from all. It is the mean over many ways to halve the samples.

A likelihood label is deterministic, so it cannot be halved. Measured instead: whether
it stays the same when the prompt takes another form (the examples reversed), and how
well it predicts a counterfactual label made from unseen samples, compared with the
prediction from the other half of the samples.

Intervals are by bootstrap over tasks, since pairs of one task are correlated. Ranks
are computed once over all pairs, not again in each resample.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from agora.core.tokens import EstimatedTokens
from agora_lab.bootstrap import interval, places, task_counts
from agora_lab.labelling.answered_pairs import AnsweredCase
from agora_lab.labelling.counterfactual import canonical
from agora_lab.labelling.hindsight import hindsight
from agora_lab.labelling.likelihood import label_of
from agora_lab.labelling.plan import Plan

RESAMPLES = 1_000
_COUNTER = EstimatedTokens()
HALVINGS = 40
_BLOCK = 50
"""Draws weighed at a time, so that memory goes by pairs and not by draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Everything known about one pair of anchor and candidate."""

    source: str
    task: str
    data: str
    anchor: int
    candidate: int
    full: tuple[str, ...] = ()
    """Canonical actions sampled with the whole prompt; none when it was not asked."""
    without: tuple[str, ...] = ()
    logprobs: tuple[float, float] | None = None
    """Of the action that was taken: with the whole prompt, and without the step."""
    others: Mapping[str, float] | None = None
    """Labels of other kinds, by kind."""

    @property
    def place(self) -> tuple[str, int, int]:
        """What names the pair, whatever it was shown with."""
        return self.data, self.anchor, self.candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens used by one kind of label, over all its answers."""

    calls: int = 0
    pairs: int = 0
    input_tokens: int = 0
    """As the server counts; a prompt that is sent twice for its samples counts twice."""
    cached_tokens: int = 0
    output_tokens: int = 0
    """Over all samples. If a server counts only the first, our estimate corrects it."""
    new_tokens: int = 0
    """Tokens read if only this kind is asked, in the plan's order, by our estimate."""

    def per_pair(self) -> dict[str, float]:
        """Return the tokens of one pair, its share of the whole prompts included.

        Tokens read are NaN if the server does not report what was cached.
        """
        pairs = max(self.pairs, 1)
        read = self.input_tokens - self.cached_tokens if self.cached_tokens else float("nan")
        return {
            "prompt": self.input_tokens / pairs,
            "read": read / pairs,
            "read_alone": self.new_tokens / pairs,
            "written": self.output_tokens / pairs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its 95 % interval, and what it was taken over."""

    name: str
    value: float
    low: float
    high: float
    pairs: int
    tasks: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def quality(
    pairs: Sequence[Pair],
    *,
    other_form: Iterable[Pair] = (),
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    seed: int = 0,
) -> dict[str, list[Figure]]:
    """Return figures under `labels`, `reliability`, `foretells` and `agreement`.

    `other_form` are pairs of the same trajectories asked in another form of the
    prompt; those that both have are compared.
    """
    sampled = [pair for pair in pairs if pair.full]
    report: dict[str, list[Figure]] = {
        "labels": [],
        "reliability": [],
        "foretells": [],
        "agreement": [],
    }
    if sampled:
        halves = _Halves(sampled, halvings, seed)
        draw = _Draws(sampled, resamples, seed)
        report["labels"] += _levels(halves, draw)
        report["reliability"] += _split_halves(halves, draw)
        report["foretells"] += _foretell(sampled, halves, draw)
    report["reliability"] += _between_forms(pairs, list(other_form), resamples, seed)
    report["agreement"] += _agree(pairs, resamples, seed)
    return report


def collect(
    cases: Iterable[AnsweredCase], others: Mapping[tuple[str, int, int], Mapping[str, float]]
) -> Iterator[Pair]:
    """Return the answered pairs of cases, each with its hindsight label, which is free.

    `others` are labels of other kinds, by trajectory hash, anchor and candidate.
    """
    for answered in cases:
        case = answered.case
        compared = canonical(case.world)
        known = {(need.anchor, need.candidate): need.label for need in hindsight(case.whole)}
        sampled = {(one.anchor, one.candidate): one for one in answered.samples}
        scored = {(one.anchor, one.candidate): one for one in answered.scores}
        for place in sorted(sampled.keys() | scored.keys()):
            sample, score = sampled.get(place), scored.get(place)
            labels = {**others.get((case.data, *place), {})}
            if place in known:
                labels["hindsight"] = known[place]
            yield Pair(
                source=case.source,
                task=case.task,
                data=case.data,
                anchor=place[0],
                candidate=place[1],
                full=tuple(map(compared, sample.full.texts)) if sample else (),
                without=tuple(map(compared, sample.without.texts)) if sample else (),
                logprobs=(score.full.logprob, score.without.logprob) if score else None,
                others=labels,
            )


def merged(pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs once each: what one plan asked about a pair and what another did, together."""
    found: dict[tuple[str, int, int], Pair] = {}
    for pair in pairs:
        before = found.get(pair.place)
        if before is not None:
            pair = replace(
                before,
                full=before.full or pair.full,
                without=before.without or pair.without,
                logprobs=before.logprobs or pair.logprobs,
            )
        found[pair.place] = pair
    return list(found.values())


def costs(cases: Iterable[AnsweredCase], new_tokens: Mapping[str, int]) -> dict[str, Cost]:
    """Return the cost of each kind of label. An answer used by several pairs counts once.

    `new_tokens` are what `read_alone` gives.
    """
    sums: dict[str, Counter[str]] = {}
    seen: set[str] = set()
    for answered in cases:
        for kind, pairs in (("counterfactual", answered.samples), ("likelihood", answered.scores)):
            count = sums.setdefault(kind, Counter())
            count["pairs"] += len(pairs)
            for answer in (side for pair in pairs for side in (pair.full, pair.without)):
                if answer.key not in seen:
                    seen.add(answer.key)
                    written = sum(_COUNTER.count(text) + 1 for text in answer.texts)
                    count["calls"] += 1
                    count["input_tokens"] += answer.input_tokens
                    count["cached_tokens"] += answer.cached_tokens
                    count["output_tokens"] += max(answer.output_tokens, written)
    return {
        kind: Cost(**count, new_tokens=new_tokens.get(kind, 0))
        for kind, count in sums.items()
        if count["pairs"]
    }


def read_alone(plan: Plan, answers: Container[bytes]) -> Counter[str]:
    """Return the tokens that each kind reads anew for what was answered, if it is asked alone.

    In a plan of both kinds the second one finds every prompt read by the first.
    """
    found: Counter[str] = Counter()
    place, new = (-1, 0, 0), 0
    for ask in plan.asks():
        if (ask.case, ask.anchor, ask.candidate) != place:
            place, new = (ask.case, ask.anchor, ask.candidate), ask.new_tokens
        if bytes.fromhex(ask.key) in answers:
            found["counterfactual" if ask.kind == "sample" else "likelihood"] += new
    return found


def as_json(report: Mapping[str, Sequence[Figure]]) -> dict[str, list[dict[str, Any]]]:
    """Return a report as plain values, for a file."""
    return {part: [asdict(figure) for figure in figures] for part, figures in report.items()}


class _Draws:
    """Weights of pairs from drawing their tasks anew, in blocks."""

    def __init__(self, pairs: Sequence[Pair], resamples: int, seed: int) -> None:
        self._places, self.tasks = places([f"{pair.source}\n{pair.task}" for pair in pairs])
        self.pairs = len(pairs)
        self._resamples = resamples
        self._seed = seed

    def only(self, pairs: Sequence[Pair]) -> "_Draws":
        """Return the same number of draws of other pairs."""
        return _Draws(pairs, self._resamples, self._seed)

    def figure(self, name: str, statistic: Callable[[Any], Any]) -> Figure:
        """Return a statistic, which takes weights with one row per draw, with its interval."""
        value = float(statistic(np.ones((1, self.pairs)))[0])
        blocks = task_counts(self.tasks, self._resamples, seed=self._seed, block=_BLOCK)
        low, high = interval(
            np.concatenate([statistic(counts[:, self._places]) for counts in blocks])
        )
        return Figure(
            name=name, value=value, low=low, high=high, pairs=self.pairs, tasks=self.tasks
        )


class _Halves:
    """Labels of the same pairs from two halves of their samples, halved in many ways."""

    def __init__(self, pairs: Sequence[Pair], halvings: int, seed: int) -> None:
        self.samples = min(min(len(pair.full), len(pair.without)) for pair in pairs)
        codes: dict[str, int] = {}
        count = self.samples

        def coded(sides: Iterable[tuple[str, ...]]) -> Any:
            rows = [[codes.setdefault(text, len(codes)) for text in one[:count]] for one in sides]
            return np.asarray(rows)

        full = coded(pair.full for pair in pairs)
        without = coded(pair.without for pair in pairs)
        self.differs = (full[:, :, None] != without[:, None, :]).astype(float)
        self.self_differs = (full[:, :, None] != full[:, None, :]).astype(float)
        self.anchors = np.unique(
            np.asarray([f"{pair.data}:{pair.anchor}" for pair in pairs]), return_inverse=True
        )[1]
        chance = np.random.default_rng(seed)
        self.ways = [
            (chance.permutation(count), chance.permutation(count)) for _ in range(halvings)
        ]

    def paired(self, full: Any, without: Any) -> Any:
        return self.differs[:, full, without].mean(axis=1)

    def all_pairs(self, full: Any, without: Any) -> Any:
        return self.differs[:, full[:, None], without[None, :]].mean(axis=(1, 2))

    def itself(self, full: Any) -> Any:
        half = len(full) // 2
        return self.self_differs[:, full[:half], full[half : 2 * half]].mean(axis=1)

    def itself_of_all(self, full: Any) -> Any:
        first, second = np.triu_indices(len(full), 1)
        return self.self_differs[:, full[first], full[second]].mean(axis=1)

    def net(self, full: Any, without: Any) -> Any:
        return np.maximum(0, self.paired(full, without) - self.itself(full))

    def all_pairs_net(self, full: Any, without: Any) -> Any:
        return np.maximum(0, self.all_pairs(full, without) - self.itself_of_all(full))

    def halved(self, form: Callable[[Any, Any], Any], each: int) -> Iterator[tuple[Any, Any]]:
        """Return two independent labels of each pair from `each` samples a side, many times."""
        for full, without in self.ways:
            yield (
                form(full[:each], without[:each]),
                form(full[each : 2 * each], without[each : 2 * each]),
            )


def _levels(halves: _Halves, draw: _Draws) -> list[Figure]:
    """Return the mean label and what of it is the backbone's own disagreement."""
    every = np.arange(halves.samples)
    paired = halves.paired(every, every)
    figures = [
        draw.figure("mean label, Eq. 4", _mean(paired)),
        draw.figure("share of labels of 0.5 and more", _mean(paired >= 0.5)),
    ]
    if halves.samples > 1:
        figures += [
            draw.figure(
                "disagreement with itself, halves of the whole prompt's samples",
                _mean(halves.itself(every)),
            ),
            draw.figure(
                "disagreement with itself, every two samples", _mean(halves.itself_of_all(every))
            ),
            draw.figure("mean label net of it", _mean(halves.net(every, every))),
            draw.figure(
                "mean label net of it, all pairs", _mean(halves.all_pairs_net(every, every))
            ),
        ]
    return figures


def _split_halves(halves: _Halves, draw: _Draws) -> list[Figure]:
    each = halves.samples // 2
    if not each:
        return []
    forms: list[tuple[str, Callable[[Any, Any], Any], int]] = [
        ("hard (one sample a side)", halves.paired, 1),
        (f"Eq. 4, K = {2 * each}", halves.paired, each),
        (f"all pairs, K = {2 * each}", halves.all_pairs, each),
    ]
    if each > 1:
        forms += [
            (f"net, K = {2 * each}", halves.net, each),
            (f"all pairs net, K = {2 * each}", halves.all_pairs_net, each),
        ]
    figures = []
    for name, form, count in forms:
        twice = list(halves.halved(form, count))
        ranked = [(_ranks(a), _ranks(b)) for a, b in twice]
        inside = [(_centred(a, halves.anchors), _centred(b, halves.anchors)) for a, b in twice]
        figures += [
            draw.figure(f"{name}: Pearson", _correlation(twice)),
            draw.figure(f"{name}: Spearman", _correlation(ranked)),
            draw.figure(f"{name}: Pearson within anchors", _correlation(inside)),
            draw.figure(f"{name}: Pearson, doubled", _doubled(_correlation(twice))),
            draw.figure(f"{name}: Spearman, doubled", _doubled(_correlation(ranked))),
        ]
    return figures


def _foretell(pairs: Sequence[Pair], halves: _Halves, draw: _Draws) -> list[Figure]:
    """Return how well each label predicts one made from unseen samples."""
    each = halves.samples // 2
    if not each:
        return []
    unseen = [late for _, late in halves.halved(halves.paired, each)]
    clear = [late for _, late in halves.halved(halves.all_pairs_net, each)] if each > 1 else []
    seen: list[tuple[str, list[Any]]] = [
        ("hard", [early for early, _ in halves.halved(halves.paired, 1)]),
        (f"Eq. 4, K = {2 * each}", [early for early, _ in halves.halved(halves.paired, each)]),
        (
            f"all pairs, K = {2 * each}",
            [early for early, _ in halves.halved(halves.all_pairs, each)],
        ),
    ]
    whole = np.arange(len(pairs))
    figures = [
        figure
        for name, labels in seen
        for figure in _with_unseen(name, labels, whole, draw, unseen, clear, 2 * each)
    ]
    for kind, values in _known(pairs).items():
        places = np.flatnonzero([value is not None for value in values])
        if len(places) > 1:
            labels = [np.asarray([values[n] for n in places], dtype=float)] * len(unseen)
            drawn = draw.only([pairs[int(n)] for n in places])
            figures += _with_unseen(kind, labels, places, drawn, unseen, clear, 2 * each)
    return figures


def _with_unseen(
    name: str,
    labels: Sequence[Any],
    places: Any,
    draw: "_Draws",
    unseen: Sequence[Any],
    clear: Sequence[Any],
    k: int,
) -> list[Figure]:
    figures = []
    for what, truth in (("", unseen), ("net ", clear)):
        if truth:
            ranked = [
                (_ranks(mine), _ranks(late[places]))
                for mine, late in zip(labels, truth, strict=True)
            ]
            figures.append(
                draw.figure(f"{name}: Spearman with an unseen {what}K = {k}", _correlation(ranked))
            )
    return figures


def _known(pairs: Sequence[Pair]) -> dict[str, list[float | None]]:
    """Return the labels that are no samples, by kind, None where a pair has none."""
    found: dict[str, list[float | None]] = {}
    if any(pair.logprobs for pair in pairs):
        found["likelihood"] = [
            label_of(*pair.logprobs) if pair.logprobs else None for pair in pairs
        ]
    for kind in sorted({kind for pair in pairs for kind in pair.others or ()}):
        found[kind] = [(pair.others or {}).get(kind) for pair in pairs]
    return found


def _between_forms(
    pairs: Sequence[Pair], others: Sequence[Pair], resamples: int, seed: int
) -> list[Figure]:
    """Return how stable a label is when the prompt takes another form."""
    again = {pair.place: pair for pair in others}
    both = [(pair, again[pair.place]) for pair in pairs if pair.place in again]
    figures = []
    scored = [(a, b) for a, b in both if a.logprobs and b.logprobs]
    if len(scored) > 1:
        first = np.asarray([label_of(*a.logprobs) for a, _ in scored if a.logprobs])
        second = np.asarray([label_of(*b.logprobs) for _, b in scored if b.logprobs])
        figures += _alike("likelihood", [a for a, _ in scored], first, second, resamples, seed)
    sampled = [(a, b) for a, b in both if a.full and b.full]
    if len(sampled) > 1:
        one, other = (_Halves([pair[n] for pair in sampled], 1, seed) for n in (0, 1))
        each = min(one.samples, other.samples)
        some = np.arange((each + 1) // 2)
        figures += _alike(
            f"Eq. 4, K = {2 * len(some)}",
            [a for a, _ in sampled],
            one.paired(some, some),
            other.paired(some, some),
            resamples,
            seed,
        )
    return figures


def _alike(
    name: str, pairs: Sequence[Pair], first: Any, second: Any, resamples: int, seed: int
) -> list[Figure]:
    draw = _Draws(pairs, resamples, seed)
    anchors = np.unique(
        np.asarray([f"{pair.data}:{pair.anchor}" for pair in pairs]), return_inverse=True
    )[1]
    inside = [(_centred(first, anchors), _centred(second, anchors))]
    return [
        draw.figure(f"{name}, two forms of the prompt: Pearson", _correlation([(first, second)])),
        draw.figure(
            f"{name}, two forms of the prompt: Spearman",
            _correlation([(_ranks(first), _ranks(second))]),
        ),
        draw.figure(
            f"{name}, two forms of the prompt: Pearson within anchors", _correlation(inside)
        ),
    ]


def _agree(pairs: Sequence[Pair], resamples: int, seed: int) -> list[Figure]:
    """Return, for each two kinds, the AUC of one for the other's 0.5 and more, and Spearman's r."""
    kinds: dict[str, list[float | None]] = _known(pairs)
    if any(pair.full for pair in pairs):
        count = min(min(len(p.full), len(p.without)) for p in pairs if p.full)
        every = np.arange(count)
        sampled = [pair for pair in pairs if pair.full]
        halves = _Halves(sampled, 1, seed)
        forms = {"counterfactual": halves.paired(every, every)}
        if count > 1:
            forms["counterfactual-all-pairs-net"] = halves.all_pairs_net(every, every)
        for kind, values in forms.items():
            left = iter(values)
            kinds[kind] = [float(next(left)) if pair.full else None for pair in pairs]
    figures = []
    for truth, wanted in kinds.items():
        for kind, given in kinds.items():
            if kind == truth or {kind, truth} == set(_SAME):
                continue
            places = [
                n
                for n, (a, b) in enumerate(zip(wanted, given, strict=True))
                if a is not None and b is not None
            ]
            if len(places) < 2:
                continue
            draw = _Draws([pairs[n] for n in places], resamples, seed)
            labels = np.asarray([wanted[n] for n in places], dtype=float)
            scores = np.asarray([given[n] for n in places], dtype=float)
            needed = labels >= 0.5
            figures.append(draw.figure(f"{kind} for {truth} >= 0.5: AUC", _auc(needed, scores)))
            if kind < truth:
                both = [(_ranks(scores), _ranks(labels))]
                figures.append(draw.figure(f"{kind} and {truth}: Spearman", _correlation(both)))
    return figures


_SAME = ("counterfactual", "counterfactual-all-pairs-net")
"""Made from the same samples, so that their agreement would be meaningless."""


def _mean(values: Any) -> Callable[[Any], Any]:
    found = np.asarray(values, dtype=float)

    def statistic(weights: Any) -> Any:
        return weights @ found / weights.sum(axis=1)

    return statistic


def _correlation(twice: Sequence[tuple[Any, Any]]) -> Callable[[Any], Any]:
    """Return the mean over the ways to halve of the weighted correlation."""
    moments = [
        np.stack([a, b, a * a, b * b, a * b], axis=1)
        for a, b in ((_middle(first), _middle(second)) for first, second in twice)
    ]

    def statistic(weights: Any) -> Any:
        total = weights.sum(axis=1, keepdims=True)
        found = []
        for one in moments:
            a, b, aa, bb, ab = (weights @ one / total).T
            spread = np.maximum(aa - a * a, 0) * np.maximum(bb - b * b, 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append(np.where(spread > 1e-18, (ab - a * b) / np.sqrt(spread), np.nan))
        rows = np.asarray(found)
        counts = (~np.isnan(rows)).sum(axis=0)
        return np.where(counts > 0, np.nansum(rows, axis=0) / np.maximum(counts, 1), np.nan)

    return statistic


def _middle(values: Any) -> Any:
    """Return the values minus their mean, so that squares lose no precision."""
    return values - values.mean()


def _doubled(statistic: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the Spearman-Brown reliability of twice as many samples."""

    def doubled(weights: Any) -> Any:
        found = statistic(weights)
        return 2 * found / (1 + found)

    return doubled


def _auc(needed: Any, scores: Any) -> Callable[[Any], Any]:
    """Return the weighted chance that a needed pair scores above another; ties count half."""
    order = np.argsort(scores, kind="stable")
    ties = np.concatenate([[0], np.flatnonzero(np.diff(scores[order])) + 1]).astype(int)
    labels = needed[order].astype(float)

    def statistic(weights: Any) -> Any:
        counts = weights[:, order]
        above = np.add.reduceat(counts * labels, ties, axis=1)
        others = np.add.reduceat(counts * (1 - labels), ties, axis=1)
        below = np.cumsum(others, axis=1) - others / 2
        total = above.sum(axis=1) * others.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, (above * below).sum(axis=1) / total, np.nan)

    return statistic


def _ranks(values: Any) -> Any:
    """Return ranks, the same for the same values."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]


def _centred(values: Any, groups: Any) -> Any:
    """Return values less the mean of their group."""
    sums = np.bincount(groups, weights=values)
    return values - (sums / np.bincount(groups))[groups]
