r"""What encoder scorers cost and how well they rank: the paper's, trained and served.

    python -m lab.benchmarks.encoders latency --bundle FOLDER [--steps 30] [--json results.json]
    python -m lab.benchmarks.encoders compare --bundle FOLDER --labels FILE... [--json results.json]
    python -m lab.benchmarks.encoders train --encoder FOLDER --labels FILE... --out FOLDER \
        [--tokens 512] [--share 0.2] [--most N] [--validating N] [--seconds 3600] \
        [--checkpoints FOLDER] [--json results.json] [--curve curve.jsonl]

`latency` compares a scorer with the bare forward passes of ONNX Runtime on the same tensors, each
measured in turn: what is above 1 is ours. `train` goes through LP-FT, exports, compares the export
with what was trained, and measures it beside the scorers that read no language, on the same pairs.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.scorers.bundle import read_bundle
from agora.scorers.cross_encoder import CrossEncoderScorer, pair_texts
from agora.scorers.embedding import EmbeddingScorer, step_text
from agora.scorers.encoder import encoder_of

BAR = 1.10
"""A call may take this much of the time of its bare forward passes."""


def latency_cross_encoder(
    folder: Path, console: Console, *, steps: Sequence[int], calls: int
) -> list[dict[str, Any]]:
    """Print and return what a call costs beside the bare forward passes of the same tensors."""
    bundle = read_bundle(folder)
    scorer = CrossEncoderScorer(bundle)
    encoder = encoder_of(bundle)
    characters = encoder.settings["characters"]
    results = []
    table = Table(title="cross_encoder: CPU time of a call, one thread")
    for column in ("past steps", "calls", "p50 ms", "p99 ms", "bare p50 ms", "ratio", "per step"):
        table.add_column(column)
    for size in steps:
        ours: list[float] = []
        bare: list[float] = []
        for call in range(calls):
            anchor, past = recorded(size, call)
            pairs = dict.fromkeys(pair_texts(anchor, past, characters=characters))
            feeds = [encoder.feed(pair) for pair in pairs]

            def forward(feeds: list[Any] = feeds) -> None:
                for feed in feeds:
                    encoder.run(feed)

            def score(anchor: Anchor = anchor, past: Sequence[Step] = past) -> None:
                scorer.score(anchor, past)

            if call == 0:
                forward()
            # In turn, and either first: what else runs on the machine then hits both alike.
            if call % 2:
                ours.append(_milliseconds(score))
            bare.append(_milliseconds(forward))
            if not call % 2:
                ours.append(_milliseconds(score))
        p50, p99 = _percentiles(ours)
        bare50, _ = _percentiles(bare)
        ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
        table.add_row(
            str(size),
            str(calls),
            f"{p50:.0f}",
            f"{p99:.0f}",
            f"{bare50:.0f}",
            f"{ratio:.3f}",
            f"{p50 / size:.1f}",
        )
        results.append(
            {
                "scorer": "cross_encoder",
                "steps": size,
                "calls": calls,
                "p50_ms": p50,
                "p99_ms": p99,
                "bare_p50_ms": bare50,
                "ratio": ratio,
                "within_the_bar": ratio <= BAR,
            }
        )
    console.print(table)
    return results


_GROWN = 20
"""By so many steps a trajectory grows while its calls are timed, about the size that is asked for.
Then another begins."""


def latency_embedding(
    folder: Path, console: Console, *, steps: Sequence[int], calls: int
) -> list[dict[str, Any]]:
    """Print and return what a call costs that has one new step, beside its bare forward pass."""
    from lab.benchmarks.scorer import long_trajectory

    bundle = read_bundle(folder)
    scorer, encoder = EmbeddingScorer(bundle), encoder_of(bundle)
    tokens = int(encoder.settings["tokens"])
    data = Path(os.environ.get("AGORA_DATA", "../shared/data"))
    results: list[dict[str, Any]] = []
    table = Table(title=f"embedding, {tokens} tokens a step: CPU time of a call, warm, one thread")
    columns = ("past steps", "calls", "p50 ms", "p99 ms", "bare p50 ms", "bare p99 ms", "ratio")
    for column in columns:
        table.add_column(column)
    for size in steps:
        ours: list[float] = []
        bare: list[float] = []
        for start in range(0, calls, _GROWN):
            # Recordings repeat themselves; here every step is new once.
            found = [
                replace(step, action=f"{step.action} {size} {start} {step.number}")
                for step in long_trajectory(data, size + _GROWN // 2)
            ]
            scorer.score(Anchor("", ""), found[: size - _GROWN // 2])
            for end in range(size - _GROWN // 2 + 1, size + _GROWN // 2 + 1):
                # The trajectory as it was, and one step more.
                past = found[:end]
                anchor = Anchor(found[0].action, past[-1].observation)
                feed = encoder.feed(step_text(past[-1], tokens))

                def forward(feed: Any = feed) -> None:
                    encoder.run(feed)

                def score(anchor: Anchor = anchor, past: Sequence[Step] = past) -> None:
                    scorer.score(anchor, past)

                # In turn, and either first: what else runs on the machine then hits both alike.
                if end % 2:
                    ours.append(_milliseconds(score))
                bare.append(_milliseconds(forward))
                if not end % 2:
                    ours.append(_milliseconds(score))
        one = {"scorer": "embedding", "tokens": tokens, "steps": size, "calls": len(ours)}
        p50, p99 = _percentiles(ours)
        bare50, bare99 = _percentiles(bare)
        times = {"p50_ms": p50, "p99_ms": p99, "bare_p50_ms": bare50, "bare_p99_ms": bare99}
        ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
        table.add_row(
            str(size), str(len(ours)), *(f"{ms:.1f}" for ms in times.values()), f"{ratio:.2f}"
        )
        results.append({**one, **times, "ratio": ratio})
    console.print(table)
    return results


def recorded(steps: int, start: int) -> tuple[Anchor, list[Step]]:
    """Return so many recorded steps in a row, as a past, with the anchor after them."""
    past = _steps()[start : start + steps]
    return Anchor(past[0].action, past[-1].observation), past


@lru_cache(maxsize=1)
def _steps() -> list[Step]:
    from lab.benchmarks.scorer import long_trajectory

    return long_trajectory(Path(os.environ.get("AGORA_DATA", "../shared/data")), 600)


def _milliseconds(one: Callable[[], None]) -> float:
    start = time.process_time()
    one()
    return 1e3 * (time.process_time() - start)


def _percentiles(times: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def train_cross_encoder(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Train the paper's scorer and return its figures beside those of the others."""
    import torch

    from agora_lab.training import cross_encoder
    from agora_lab.training.lpft import Recipe
    from agora_lab.training.pairs import Draw
    from agora_lab.training.questions import read_questions

    torch.set_num_threads(options.threads)
    recipe = Recipe(checkpoint_steps=options.checkpoint_steps)
    questions = list(read_questions(options.labels, newest=True))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    start = time.monotonic()
    with Progress(*columns, console=console) as progress:
        result = cross_encoder.train_cross_encoder(
            questions,
            options.encoder,
            recipe,
            out=options.out,
            tokens=options.tokens,
            draw=Draw(share=options.share, most=options.most, seed=recipe.seed),
            validating=Draw(share=options.share, most=options.validating, seed=recipe.seed),
            folder=options.checkpoints,
            seconds=options.seconds,
            progress=progress,
            about={"encoder": options.encoder.name},
        )
    if options.curve:
        options.curve.write_text(result.trained.write_curve(), encoding="utf-8")
    model = result.bundle.folder / "model.onnx"
    return {
        "command": "python -m lab.benchmarks.encoders " + " ".join(_shown(sys.argv[1:])),
        "encoder": options.encoder.name,
        "encoder_sha256": _sha256(options.encoder / "model.safetensors"),
        "labels": {path.name: _sha256(path) for path in options.labels},
        "torch": torch.__version__,
        "machine": platform.machine(),
        "seconds_in_all": round(time.monotonic() - start),
        "model_bytes": model.stat().st_size,
        **json.loads(result.bundle.read("metrics.json")),
        "same_pairs": on_the_same_pairs(questions, options.out, console),
    }


def on_the_same_pairs(
    questions: Sequence[Any], folder: Path, console: Console
) -> list[dict[str, Any]]:
    """Return the figures of a cross-encoder and of the scorers without language, on the same pairs.

    They are all pairs of the tasks that were held out from its training; `features` is trained on
    the other tasks, as it was. `behind` is by how much a scorer's AUC is below the cross-encoder's,
    with an interval from drawing the same tasks anew for both.
    """
    from agora.scorers.lexical import LexicalScorer
    from agora.scorers.recency import RecencyScorer
    from agora.scorers.structure import FEATURES, VALUES
    from agora_lab.training.features import TreeSettings, examples_of, train
    from agora_lab.training.lpft import Recipe
    from agora_lab.training.metrics import measure
    from agora_lab.training.questions import held_out

    recipe = Recipe()
    held = held_out(questions, share=recipe.validation, seed=recipe.seed)
    inside = [one for one, out in zip(questions, held, strict=True) if not out]
    outside = [one for one, out in zip(questions, held, strict=True) if out]
    examples = examples_of(outside)
    tables = train(
        examples_of(inside),
        features=FEATURES,
        values=VALUES,
        settings=TreeSettings(seed=recipe.seed),
    ).tables
    paper = CrossEncoderScorer(read_bundle(folder))
    columns: dict[str, list[float]] = {
        "cross_encoder": [
            score
            for one in outside
            for score in paper.score(one.anchor, [one.past[at] for at in one.candidates])
        ],
        "features": tables.probabilities(list(zip(*examples.rows, strict=True))),
    }
    plain: dict[str, Scorer] = {"lexical": LexicalScorer(), "recency": RecencyScorer()}
    for name, scorer in plain.items():
        columns[name] = [
            scores[at]
            for question in outside
            for scores in [scorer.score(question.anchor, question.past)]
            for at in question.candidates
        ]
    results = []
    for name, scores in columns.items():
        assert len(scores) == len(examples.labels), (name, len(scores), len(examples.labels))
        found = measure(examples.labels, scores, examples.tasks)
        behind = _behind(examples.labels, columns["cross_encoder"], scores, examples.tasks)
        console.print(
            f"{name}: AUC {found.auc}, average precision {found.average_precision}, "
            f"calibration error {found.calibration_error}, behind {behind}"
        )
        results.append({"scorer": name, "pairs": len(scores), **asdict(found), "behind": behind})
    return results


def _behind(
    labels: Sequence[float], first: Sequence[float], second: Sequence[float], tasks: Sequence[str]
) -> list[float]:
    """Return how much the AUC of the second is below that of the first, with its interval."""
    import numpy as np

    from agora_lab.training.metrics import RESAMPLES, Ranking

    one, other = Ranking(labels, first), Ranking(labels, second)
    chance = np.random.default_rng(0)
    _, places = np.unique(np.asarray(tasks), return_inverse=True)
    count = int(places.max()) + 1
    drawn = []
    for _ in range(RESAMPLES):
        times = np.bincount(chance.integers(0, count, count), minlength=count)
        weights = times[places].astype(float)
        drawn.append(one.auc(weights) - other.auc(weights))
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return [one.auc() - other.auc(), float(low), float(high)]


def _shown(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without the folders of this machine."""
    return [Path(one).name if "/" in one else one for one in arguments]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    latency = commands.add_parser("latency")
    latency.add_argument("--bundle", type=Path, required=True)
    latency.add_argument("--steps", type=int, nargs="+", default=[30])
    latency.add_argument("--calls", type=int, default=30)
    compare = commands.add_parser("compare")
    compare.add_argument("--bundle", type=Path, required=True)
    compare.add_argument("--labels", type=Path, nargs="+", required=True)
    train = commands.add_parser("train")
    train.add_argument("--encoder", type=Path, required=True)
    train.add_argument("--labels", type=Path, nargs="+", required=True)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--checkpoints", type=Path)
    train.add_argument("--checkpoint-steps", type=int, default=50)
    train.add_argument("--tokens", type=int, default=512)
    train.add_argument("--share", type=float, default=0.2)
    train.add_argument("--most", type=int, help="pairs of a source to train on")
    train.add_argument("--validating", type=int, help="pairs of a source to validate with")
    train.add_argument("--seconds", type=float)
    train.add_argument("--threads", type=int, default=2)
    train.add_argument("--curve", type=Path)
    for one in (latency, compare, train):
        one.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console()
    found: Any
    if options.command == "latency":
        embedding = read_bundle(options.bundle).scorer == "embedding"
        measured = latency_embedding if embedding else latency_cross_encoder
        found = measured(options.bundle, console, steps=options.steps, calls=options.calls)
    elif options.command == "compare":
        from agora_lab.training.questions import read_questions

        questions = list(read_questions(options.labels, newest=True))
        found = on_the_same_pairs(questions, options.bundle, console)
    else:
        found = train_cross_encoder(options, console)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
