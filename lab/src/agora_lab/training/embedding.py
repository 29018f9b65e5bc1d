"""Trains the `embedding` scorer: a small head on vectors of the encoder that will serve.

The encoder is exported first, and the head is trained on the exported encoder's
vectors, so training and serving cannot drift apart. Vectors are kept on disk during
training, so an interrupted training resumes where it stopped.
"""

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agora
from agora.errors import BundleError, LabelsError, MissingExtraError
from agora.scorers.bundle import MANIFEST, Bundle, read_bundle, write_bundle
from agora.scorers.embedding import HEAD, EmbeddingScorer, Head, step_text
from agora.scorers.encoder import MODEL, TOKENIZER, Encoder, sealed
from agora.scorers.features import WEIGHTS
from agora.scorers.structure import FEATURES, VALUES, columns
from agora.scorers.tables import Tables, write
from agora_lab.training.features import Examples, TreeSettings, examples_of
from agora_lab.training.features import train as train_trees
from agora_lab.training.metrics import Ranking, measure
from agora_lab.training.questions import Question, fold

try:
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from torch import Tensor, nn

    from agora_lab.training import lpft
    from agora_lab.training.export import Parity, export, parity
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

if TYPE_CHECKING:
    from rich.progress import Progress

LEAST_NEEDED = 20
"""With fewer needed pairs than this, a figure is meaningless and not given."""
_NEEDED = 0.5
_SHARE = 0.05
"""The share of needed pairs of every source in training, about that of tool calling."""
_SUM = 3.0
"""Scales up the features' sum, so that the weight penalty falls on the vectors."""
_SHARD = 500
"""Vectors per file on disk."""
_PARITY_QUESTIONS = 40
_LEAST_SPREAD = 1e-4
_FULL_BATCH = 64
"""Pairs of one trajectory share steps, so a batch has far fewer texts than pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """How the scorer is trained. For alternatives tried, see docs/log.md."""

    tokens: int = 128
    """Most tokens read of a step."""
    directions: int = 64
    """Number of principal directions kept; fewer if there are few steps."""
    strength: float = 0.003
    """Inverse of the weight penalty on vectors."""
    folds: int = 4
    """Number of folds the tasks are split into, each held out once."""
    most_pairs: int = 4_000
    """From a larger source, only a sample of the pairs not needed is read, weighted up."""
    trees: TreeSettings = field(default_factory=TreeSettings)
    """How the features' trees are trained, except for the seed."""
    seed: int = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A bundle, its metrics on held-out tasks, and its distance from the trained model."""

    bundle: Bundle
    metrics: Mapping[str, Any]
    parity: Parity


def train_embedding(
    questions: Sequence[Question],
    encoder: Path,
    out: Path,
    settings: EmbeddingSettings | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    remarks: str = "",
    work: Path | None = None,
    progress: "Progress | None" = None,
) -> Trained:
    """Write the bundle of an `embedding` scorer into a folder and return it with its metrics.

    `encoder` is a folder with `config.json`, `model.safetensors` and
    `tokenizer.json`, or a bundle with an exported encoder, which is used unchanged.
    `about` goes into the bundle's settings and `remarks` into its card. Vectors and
    checkpoints are in `out/work` until training ends, or stay in `work` if given.
    Tasks are split into folds by a hash of their name; held-out folds calibrate the
    scores and give the metrics, then the head is trained on everything.

    Raises:
        LabelsError: there are too few tasks, or all labels are the same.
        BundleError: the encoder cannot be read.
        ParityError: the bundle does not match the trained model.
    """
    settings = settings or EmbeddingSettings()
    pairs = _pairs(questions, settings)
    (shelf := work or out / "work").mkdir(parents=True, exist_ok=True)
    sums, tables = _sums(pairs, settings)
    files = _encoder_files(encoder)
    vectors = _vectors(files, pairs.texts, settings, shelf, progress)
    held_out = np.zeros(len(sums))
    for held in range(settings.folds):
        outside = pairs.side == held
        head = _fit(pairs, vectors, sums, ~outside, settings)
        held_out[outside] = _logits(head, pairs, vectors, sums)[outside]
    platt = lpft.calibrate(held_out.tolist(), pairs.needed, pairs.calibrating)
    fitted = _fit(pairs, vectors, sums, pairs.side >= 0, settings)
    head = replace(fitted, slope=platt.slope, shift=platt.intercept)
    metrics = {
        **_metrics(pairs, platt.probabilities(held_out.tolist()), sums),
        "settings": asdict(settings),
        "about": dict(about or {}),
    }
    bundle = write_bundle(
        out,
        scorer="embedding",
        settings=sealed({"tokens": settings.tokens, **(about or {})}),
        files={
            **files,
            HEAD: head.write(),
            WEIGHTS: write(tables, {"agora": agora.__version__}).encode(),
            "metrics.json": (json.dumps(metrics, indent=1) + "\n").encode(),
            "README.md": _card(metrics, remarks).encode(),
        },
    )
    same = _parity(bundle, head, tables, questions, settings)
    if work is None:
        shutil.rmtree(shelf)
    return Trained(bundle=bundle, metrics=metrics, parity=same)


@dataclass(slots=True, kw_only=True)
class _Pairs:
    """The pairs used, in columns, and the texts of their steps."""

    everything: Examples
    """All pairs, for the features."""
    kept: Any
    """The indices of the pairs used."""
    needed: Any
    texts: list[str]
    step: Any
    newest: Any
    """Indices into `texts`."""
    side: Any
    """The fold of each pair."""
    times: Any
    """How many pairs each represents."""
    weights: Any
    calibrating: Any

    @property
    def tasks(self) -> list[str]:
        return [self.everything.tasks[at] for at in self.kept]

    @property
    def sources(self) -> list[str]:
        return [self.everything.sources[at] for at in self.kept]

    @property
    def rows(self) -> list[Sequence[int]]:
        return [self.everything.rows[at] for at in self.kept]


def _pairs(questions: Sequence[Question], settings: EmbeddingSettings) -> _Pairs:
    everything = examples_of(questions)
    sizes = Counter(everything.sources)
    chance = random.Random(settings.seed)
    texts: dict[str, int] = {}
    kept: list[int] = []
    times: list[float] = []
    steps: list[int] = []
    newest: list[int] = []
    place = 0
    for question in questions:
        share = min(1.0, settings.most_pairs / sizes[question.source])
        for at, label in zip(question.candidates, question.labels, strict=True):
            if label >= _NEEDED or share == 1 or chance.random() < share:
                kept.append(place)
                times.append(1.0 if label >= _NEEDED else 1 / share)
                for places, step in ((steps, question.past[at]), (newest, question.past[-1])):
                    text = step_text(step, settings.tokens)
                    places.append(texts.setdefault(text, len(texts)))
            place += 1
    needed = np.array([everything.labels[at] >= _NEEDED for at in kept], dtype=int)
    if len(set(needed.tolist())) < 2:
        raise LabelsError(
            "labels", f"are the same for all {place:,} pairs; label more or other logs"
        )
    side = np.array([fold(everything.tasks[at], settings.folds, settings.seed) for at in kept])
    for held in range(settings.folds):
        if len(set(needed[side != held].tolist())) < 2 or (side != held).all():
            raise LabelsError(
                "labels",
                f"cover {len(set(everything.tasks)):,} tasks, too few to hold some out; "
                "label logs of more tasks",
            )
    sources = np.array([everything.sources[at] for at in kept])
    weights, calibrating = _weights(needed, sources, np.array(times))
    return _Pairs(
        everything=everything,
        kept=np.array(kept),
        needed=needed,
        texts=list(texts),
        step=np.array(steps),
        newest=np.array(newest),
        side=side,
        times=np.array(times),
        weights=weights,
        calibrating=calibrating,
    )


def _weights(needed: Any, sources: Any, times: Any) -> tuple[Any, Any]:
    """Return the weight of each pair in training, and in the calibration.

    As for the features: in training every source has the same share of needed pairs,
    so that nothing is gained by distinguishing sources; the calibration uses the true
    shares.
    """
    training, calibrating = np.zeros(len(needed)), np.zeros(len(needed))
    for source in sorted(set(sources.tolist())):
        here = sources == source
        yes, no = here & (needed == 1), here & (needed == 0)
        training[yes] = _SHARE
        training[no] = (1 - _SHARE) * yes.sum() * times[no] / max(times[no].sum(), 1)
        calibrating[here] = yes.sum() * times[here] / times[here].sum()
    return training / training.mean(), calibrating


def _sums(pairs: _Pairs, settings: EmbeddingSettings) -> tuple[Any, Tables]:
    """Return the features' sum of each pair by trees that never saw its task, and the tables.

    Sums from trees that did see it would be too good, and the head would rely on them
    more than it can in serving.
    """
    everything = pairs.everything
    side = [fold(task, settings.folds, settings.seed) for task in everything.tasks]
    sums = np.zeros(len(pairs.kept))
    # Another seed: folds within folds by the same hash would coincide.
    within = replace(settings.trees, seed=settings.seed + 1, folds=2)
    for held in range(settings.folds):
        inside = everything.part([at for at, one in enumerate(side) if one != held])
        found = train_trees(inside, features=FEATURES, values=VALUES, settings=within)
        outside = np.flatnonzero(pairs.side == held)
        rows = pairs.rows
        sums[outside] = found.tables.margins(list(zip(*(rows[at] for at in outside), strict=True)))
    last = replace(settings.trees, seed=settings.seed)
    return sums, train_trees(everything, features=FEATURES, values=VALUES, settings=last).tables


def _encoder_files(folder: Path) -> dict[str, bytes]:
    """Return the exported encoder and its tokenizer, for the bundle."""
    if (folder / MANIFEST).is_file():
        found = read_bundle(folder)
        return {name: found.read(name) for name in (MODEL, TOKENIZER)}
    return {MODEL: export(_Pooled(_load(folder))), TOKENIZER: _tokenizer_bytes(folder)}


def _tokenizer_bytes(folder: Path) -> bytes:
    try:
        return (folder / TOKENIZER).read_bytes()
    except OSError as error:
        raise BundleError(str(folder), f"has no {TOKENIZER}: {error.strerror}") from error


def _load(folder: Path) -> nn.Module:
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error
    try:
        found: nn.Module = AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    except (OSError, ValueError) as error:
        raise BundleError(
            str(folder), f"holds no readable encoder (config.json, safetensors): {error}"
        ) from error
    return found


class _Pooled(nn.Module):
    """An encoder whose output is the normalised mean over tokens."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        read = attention_mask[..., None].to(found.last_hidden_state.dtype)
        mean = (found.last_hidden_state * read).sum(1) / read.sum(1)
        return nn.functional.normalize(mean, dim=1)


def _vectors(
    files: Mapping[str, bytes],
    texts: Sequence[str],
    settings: EmbeddingSettings,
    work: Path,
    progress: "Progress | None",
) -> Any:
    """Return one vector per text, as served; those on disk are reused."""
    recorded = sealed({"tokens": settings.tokens})
    bundle = write_bundle(work / "encoder", scorer="embedding", files=files, settings=recorded)
    mark = hashlib.sha256(json.dumps([dict(bundle.files), recorded], sort_keys=True).encode())
    cache = work / f"vectors-{mark.hexdigest()[:16]}"
    cache.mkdir(exist_ok=True)
    known: dict[bytes, Any] = {}
    shards = sorted(cache.glob("*.npz"))
    for shard in shards:
        with np.load(shard, allow_pickle=False) as found:
            stored = zip(found["keys"], found["rows"], strict=True)
            known.update((key.tobytes(), row) for key, row in stored)
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    missing = [at for at, key in enumerate(keys) if key not in known]
    encoder = Encoder(bundle)
    bar = progress.add_task("encode steps", total=len(missing)) if progress else None
    for start in range(0, len(missing), _SHARD):
        places = missing[start : start + _SHARD]
        rows = []
        for at in places:
            rows.append(encoder.encode([texts[at]])[0])
            if progress and bar is not None:
                progress.advance(bar)
        known.update((keys[at], row) for at, row in zip(places, rows, strict=True))
        name = cache / f"{len(shards) + start // _SHARD:06}.npz"
        packed = np.array([np.frombuffer(keys[at], np.uint8) for at in places])
        part = name.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, keys=packed, rows=np.array(rows))
        part.replace(name)
    return np.array([known[key] for key in keys])


def _fit(pairs: _Pairs, vectors: Any, sums: Any, inside: Any, settings: EmbeddingSettings) -> Head:
    """Return the head fitted to the selected pairs."""
    center, directions = _directions(vectors[np.unique(pairs.step[inside])], settings.directions)
    seen = (vectors - center) @ directions.T
    u, w = seen[pairs.step[inside]], seen[pairs.newest[inside]]
    count = len(directions)
    table = np.hstack([_SUM * sums[inside, None], u, u * w])
    model = LogisticRegression(C=settings.strength, max_iter=1_000).fit(
        table, pairs.needed[inside], sample_weight=pairs.weights[inside]
    )
    found = model.coef_[0]
    return Head(
        center=center.astype(np.float32),
        directions=directions.astype(np.float32),
        step=found[1 : count + 1].astype(np.float32),
        both=found[count + 1 :].astype(np.float32),
        margin=float(_SUM * found[0]),
        intercept=float(model.intercept_[0]),
    )


def _directions(vectors: Any, most: int) -> tuple[Any, Any]:
    """Return the mean, and the directions of most spread, each scaled to variance 1."""
    rows = vectors.astype(np.float64)
    center = rows.mean(0)
    spread, found = np.linalg.eigh((rows - center).T @ (rows - center) / len(rows))
    order = [at for at in np.argsort(-spread)[:most] if spread[at] > _LEAST_SPREAD**2]
    return center, (found[:, order] / np.sqrt(spread[order])).T


def _logits(head: Head, pairs: _Pairs, vectors: Any, sums: Any) -> Any:
    """Return the head's score for every pair."""
    seen = (vectors - head.center) @ head.directions.T
    u, w = seen[pairs.step], seen[pairs.newest]
    return head.margin * sums + u @ head.step + (u * w) @ head.both + head.intercept


def _metrics(
    pairs: _Pairs,
    scores: Sequence[float],
    sums: Any,
) -> dict[str, Any]:
    """Return the metrics on held-out tasks: overall, and per source."""
    found = np.array(scores)
    sources = np.array(pairs.sources)
    tasks = np.array(pairs.tasks)
    groups = {"all": sources == sources}
    groups.update({one: sources == one for one in dict.fromkeys(pairs.sources)})
    counts = Counter(pairs.everything.sources)
    said: dict[str, Any] = {}
    for name, here in groups.items():
        labels, needed = pairs.needed[here], int(pairs.needed[here].sum())
        said[name] = {
            "pairs": counts.total() if name == "all" else counts[name],
            "needed": needed,
            "tasks": len(set(tasks[here].tolist())),
        }
        if needed < LEAST_NEEDED:
            continue
        ranking = Ranking(labels, found[here].tolist())
        said[name] |= {
            "auc": _interval(labels, found[here], tasks[here]),
            "auc_features": _interval(labels, sums[here], tasks[here]),
            "average_precision": ranking.average_precision(pairs.times[here]),
            "calibration_error": ranking.calibration_error(pairs.times[here]),
        }
    read = {"texts": len(pairs.texts), "pairs_read": len(found)}
    return {"held_out": said, **read}


def _interval(labels: Any, scores: Any, tasks: Any) -> list[float]:
    auc = measure(labels, scores, tasks, resamples=300).auc
    return [auc.value, auc.low, auc.high]


def _parity(
    bundle: Bundle,
    head: Head,
    tables: Tables,
    questions: Sequence[Question],
    settings: EmbeddingSettings,
) -> Parity:
    """Return how far the bundle's scores are from the trained model's."""
    some = random.Random(settings.seed).sample(
        list(questions), min(_PARITY_QUESTIONS, len(questions))
    )
    scorer = EmbeddingScorer(bundle)
    encoder = Encoder(bundle)
    trained: list[float] = []
    served: list[float] = []
    for question in some:
        texts = [step_text(step, settings.tokens) for step in question.past]
        sums = np.array(tables.margins(columns(question.anchor, question.past)), dtype=np.float32)
        trained += head.probabilities(head.logits(sums, encoder.encode(texts)))
        served += scorer.score(question.anchor, question.past)
    return parity(trained, served)


def _card(metrics: Mapping[str, Any], remarks: str) -> str:
    settings = metrics["settings"]
    lines = [
        "# An embedding scorer",
        "",
        "An encoder (int8, ONNX) makes one vector of each step, from its action and its",
        f"observation, {settings['tokens']} tokens at most. A logistic regression on that vector,",
        "on its products with the newest step's, and on the sum of the `features` tables gives the",
        "probability that the next action needs a name only this step introduced (Platt",
        "calibration). No code in this folder is run; every file is checked against its hash.",
        "",
        f"Held-out tasks, each of {settings['folds']} folds once, which also gave the",
        "calibration. For comparison, the features alone on the same folds.",
        "",
        "| source | pairs | needed | tasks | AUC | features | average precision | calibration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in metrics["held_out"].items():
        figures = ["–"] * 4
        if "auc" in one:
            figures = [
                *("{:.3f} [{:.3f}, {:.3f}]".format(*one[key]) for key in ("auc", "auc_features")),
                f"{one['average_precision']:.3f}",
                f"{one['calibration_error']:.3f}",
            ]
        counts = f"{one['pairs']:,} | {one['needed']:,} | {one['tasks']:,}"
        lines.append(f"| {name} | {counts} | {' | '.join(figures)} |")
    return "\n".join([*lines, "", *([remarks.strip(), ""] if remarks else [])])
