"""The `agora train` command: train your own scorer on labels, or straight on logs."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import agora
from agora.errors import AgoraError
from agora.scorers.bundle import write_bundle
from agora.scorers.features import WEIGHTS
from agora.scorers.structure import FEATURES, VALUES
from agora.scorers.tables import write
from agora.scorers.worth import ACTION, NAMED, OBSERVATION
from agora_lab.cli.label_logs import TOO_SHORT, by_hindsight, by_worth, label_logs
from agora_lab.cli.label_sources import index_option, log_kind_option

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

    from agora_lab.cli.label_logs import Labeller
    from agora_lab.train.features import Examples
    from agora_lab.train.questions import Question

_ANCHORS = 12
"""Most edits of a trajectory that are labelled where logs are given, as by `agora label worth`."""
labels_or_logs = click.argument(
    "files",
    nargs=-1,
    metavar="LABELS|LOGS...",
    type=click.Path(exists=True, path_type=Path),
)
SCORERS = ("features", "worth", "cross_encoder")


@click.command()
@labels_or_logs
@click.option("--scorer", type=click.Choice(SCORERS), default="features", show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder to write the bundle to.",
)
@click.option(
    "--encoder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder of the encoder: config.json, model.safetensors, tokenizer.json "
    "(cross_encoder only).",
)
@click.option(
    "--hold-out",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Hold out this share of the tasks, for `agora scorer report`.",
)
@click.option(
    "--tokens",
    type=click.IntRange(8),
    default=512,
    show_default=True,
    metavar="N",
    help="Subwords of a pair that a cross_encoder reads.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=700,
    show_default=True,
    metavar="N",
    help="Labels of each environment, where scripted agents make them (cross_encoder only).",
)
@click.option(
    "--backbone", metavar="NAME", help="What the record calls the encoder (cross_encoder only)."
)
@click.option(
    "--card",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the record of the training here too, as JSON (cross_encoder only).",
)
@click.option(
    "--minutes", type=click.FloatRange(0), help="Stop training an encoder after this long."
)
@click.option(
    "--soft",
    is_flag=True,
    help="Use labels as probabilities instead of thresholding them at 0.5 (features only).",
)
@click.option("--seed", type=int, default=42, show_default=True)
@log_kind_option
@index_option
def train(
    files: tuple[Path, ...],
    scorer: str,
    out: Path,
    encoder: Path | None,
    hold_out: float,
    tokens: int,
    pairs: int,
    backbone: str | None,
    card: Path | None,
    minutes: float | None,
    soft: bool,
    seed: int,
    log_kind: str | None,
    index: int | None,
) -> None:
    """Train a scorer on LABELS and write it as a bundle.

    LABELS are files written by `agora label`, with their trajectories next to them.
    LOGS are what `agora replay` reads; they are labelled first, by hindsight or for
    worth as `agora label worth` does. Use the
    bundle with `Compressor(scorer=load_scorer("FOLDER"))`. A cross_encoder is the paper's
    scorer, for `Compressor.paper`, trained by the paper's recipe. Without LABELS its labels
    are made first: counterfactual, by scripted agents on training tasks.
    """
    if not files and scorer != "cross_encoder":
        raise click.UsageError("name files of labels, or logs")
    plan = _Plan(
        files=labels_of(files, out, scorer=scorer, log_kind=log_kind, index=index),
        out=out,
        encoder=encoder,
        hold_out=hold_out,
        tokens=tokens,
        pairs=pairs,
        backbone=backbone,
        card=card,
        seconds=None if minutes is None else 60 * minutes,
        soft=soft,
        seed=seed,
    )
    try:
        _TRAINERS[scorer](plan)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Bundle: {out}")


def labels_of(
    files: tuple[Path, ...],
    out: Path,
    *,
    scorer: str = "worth",
    log_kind: str | None = None,
    index: int | None = None,
) -> tuple[Path, ...]:
    """Return files of labels: those that were given, and one for all the logs among them."""
    logs = tuple(path for path in files if not _holds_labels(path))
    if not logs:
        return files
    how = "worth" if scorer == "worth" else "hindsight"
    made = out / "work" / f"{how}.parquet"
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        labeller: Labeller = by_hindsight
        if how == "worth":
            from agora_lab.label.worth import WorthSettings

            labeller = by_worth(WorthSettings(anchors=_ANCHORS))
        done = label_logs(logs, made, labeller, log_kind=log_kind, index=index)
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"By {how}: {done.account()}")
    if done.unread:
        click.echo(f"{done.unread:,} records could not be read", err=True)
    if not done.pairs:
        raise click.ClickException(TOO_SHORT)
    return (*(path for path in files if path not in logs), made)


def _holds_labels(path: Path) -> bool:
    """Tell whether a file is one of labels: Parquet, whatever it is called."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The options of the command."""

    files: tuple[Path, ...]
    out: Path
    encoder: Path | None
    hold_out: float
    tokens: int
    pairs: int
    backbone: str | None
    card: Path | None
    seconds: float | None
    soft: bool
    seed: int

    def questions(self) -> "list[Question]":
        """Return the questions to train on: all but those of held-out tasks."""
        from agora_lab.train.questions import held_out, read_questions

        asked = list(read_questions(self.files))
        outside = held_out(asked, share=self.hold_out, seed=self.seed)
        return [one for one, held in zip(asked, outside, strict=True) if not held]

    def about(self) -> dict[str, Any]:
        """Return what a report needs: the hashes of the labels, and which tasks were held out."""
        from agora_lab.train.questions import bounds_of

        record: dict[str, Any] = {
            "agora": agora.__version__,
            "data": {
                path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files
            },
        }
        if self.hold_out:
            record["held_out"] = {
                "share": self.hold_out,
                "seed": self.seed,
                "bounds": bounds_of(self.tasks(), share=self.hold_out, seed=self.seed),
            }
        return record

    def tasks(self) -> Iterator[tuple[str, str]]:
        from agora_lab.labels import read_labels

        for path in self.files:
            for one in read_labels(path):
                yield one.source, f"{one.source}/{one.task}"


def _train_cross_encoder(plan: _Plan) -> None:
    from agora_lab.train.cross_encoder import train_cross_encoder
    from agora_lab.train.lpft import Recipe
    from agora_lab.train.questions import read_questions

    if plan.encoder is None:
        raise click.UsageError("cross_encoder needs --encoder, the folder of the encoder to train")
    with _progress() as progress:
        files = plan.files or (_scripted_labels(plan, progress),)
        about = {"backbone": plan.backbone or plan.encoder.name}
        about |= replace(plan, files=files).about()
        result = train_cross_encoder(
            # In the paper's transcripts the current observation is the newest step's.
            read_questions(files, newest=True),
            plan.encoder,
            Recipe(seed=plan.seed, validation=plan.hold_out or 0.2),
            out=plan.out,
            tokens=plan.tokens,
            seconds=plan.seconds,
            progress=progress,
            about=about,
        )
    record = result.record
    for name, counts in record["labels"].items():
        click.echo(
            f"{name}: {counts['pairs']:,} labels of {counts['trajectories']:,} trajectories, "
            f"{counts['critical']:,} critical"
        )
    click.echo(
        f"Backbone: {record['backbone']}, {record['parameters'] / 1e6:.1f} M parameters "
        f"({record['encoder']}), {record['tokens']} tokens a pair"
    )
    if result.trained.out_of_time:
        click.echo("Training ran out of time.")
    click.echo(
        f"On held-out trajectories: AUC {result.auc}. "
        f"Served scores are within {result.parity:.0e} of the trained ones."
    )
    if plan.card is not None:
        plan.card.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _scripted_labels(plan: _Plan, progress: "Progress") -> Path:
    """Make labels with scripted agents, on training tasks."""
    from agora_lab.label.scripted import ENVIRONMENTS, Count, Settings, label_scripted

    settings = Settings(pairs=plan.pairs, seed=plan.seed)
    bars = {name: progress.add_task(f"label {name}", total=plan.pairs) for name in ENVIRONMENTS}

    def shown(name: str, count: Count) -> None:
        progress.update(bars[name], completed=count.pairs)

    file = plan.out / "labels.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    label_scripted(ENVIRONMENTS, file, settings, progress=shown)
    return file


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True)


def _status(text: str) -> "Status":
    """Return a line that is shown on a terminal while training goes on without telling how far."""
    from rich.console import Console

    return Console(stderr=True).status(text)


def _train_features(plan: _Plan) -> None:
    from agora_lab.train.features import TreeSettings, examples_of
    from agora_lab.train.features import train as train_features

    examples = examples_of(plan.questions())
    settings = TreeSettings(seed=plan.seed, soft=plan.soft)
    with _status(f"training trees on {len(examples.labels):,} pairs"):
        trained = train_features(examples, features=FEATURES, values=VALUES, settings=settings)
    about = plan.about()
    metrics = {**trained.metrics, **_by_source(examples), **about}
    write_bundle(
        plan.out,
        scorer="features",
        files={
            WEIGHTS: write(trained.tables, {"trees": trained.trees, **about}).encode(),
            "metrics.json": (json.dumps(metrics, indent=1) + "\n").encode(),
            "README.md": _card(metrics).encode(),
        },
    )
    click.echo(
        f"{metrics['pairs']:,.0f} pairs, {metrics['needed']:,.0f} of them needed, "
        f"{trained.trees} trees; on held-out tasks: "
        f"AUC {metrics['auc']:.3f}, "
        f"average precision {metrics['average_precision']:.3f}, "
        f"calibration error {metrics['calibration_error']:.3f}"
    )


def _train_worth(plan: _Plan) -> None:
    from agora_lab.train.questions import bounds_of, fold
    from agora_lab.train.worth import examples_of, read_edits, train_worth
    from agora_lab.train.worth_card import card

    tasks = set(plan.tasks())
    bounds = bounds_of(tasks, share=plan.hold_out, seed=plan.seed)
    without = {task for source, task in tasks if fold(task, 2**32, plan.seed) < bounds[source]}
    if len(tasks) == 1:
        # All of it is one project: conversations take the place of tasks, and none is held out.
        edits = [replace(edit, task=edit.data) for edit in read_edits(plan.files)]
        plan = replace(plan, hold_out=0.0)
        click.echo("All labels are of one project: nothing is held out")
    else:
        edits = list(read_edits(plan.files, without=without if plan.hold_out else ()))
    with _status(f"training trees on {len(edits):,} edits"):
        trained = train_worth(edits, seed=plan.seed)
    about = plan.about()
    metrics: dict[str, Any] = {
        model: {**one.metrics, "trees": one.trees, **_by_source(examples_of(edits, model))}
        for model, one in trained.items()
    }
    files = {"action": ACTION, "observation": OBSERVATION, "named": NAMED}
    weights = {
        name: write(trained[model].tables, {"trees": trained[model].trees}).encode()
        for model, name in files.items()
    }
    write_bundle(
        plan.out,
        scorer="worth",
        files={
            **weights,
            "metrics.json": (json.dumps({**metrics, **about}, indent=1) + "\n").encode(),
            "README.md": card(metrics).encode(),
        },
    )
    for model, found in metrics.items():
        click.echo(
            f"{model}: {found['pairs']:,.0f} pairs, {found['needed']:,.0f} of them needed, "
            f"{found['trees']} trees; on held-out tasks: AUC {found['auc']:.3f}, "
            f"average precision {found['average_precision']:.3f}, "
            f"calibration error {found['calibration_error']:.3f}"
        )


def _by_source(examples: "Examples") -> dict[str, dict[str, int]]:
    needed = Counter(dict.fromkeys(examples.sources, 0))
    for source, label in zip(examples.sources, examples.labels, strict=True):
        needed[source] += label >= 0.5
    return {"pairs_by_source": dict(Counter(examples.sources)), "needed_by_source": dict(needed)}


def _card(metrics: dict[str, object]) -> str:
    pairs, needed = metrics["pairs_by_source"], metrics["needed_by_source"]
    assert isinstance(pairs, dict)  # noqa: S101
    assert isinstance(needed, dict)  # noqa: S101
    lines = [
        "# A features scorer",
        "",
        "Boosted trees of two splits each over structural features of a step, written as lookup",
        "tables and calibrated (Platt). It gives the probability that the next action needs the",
        "step, as the labels define it. It reads no language and runs no code from this folder.",
        "",
        "| source | pairs | needed |",
        "|---|---|---|",
        *(f"| {source} | {count:,} | {needed[source]:,} |" for source, count in pairs.items()),
        "",
        "On held-out tasks, four folds, which also chose the number of trees and the calibration:",
        f"AUC {metrics['auc']:.3f},",
        f"average precision {metrics['average_precision']:.3f},",
        f"calibration error {metrics['calibration_error']:.3f}.",
        "",
        "Labels leave out one step at a time: a fact in two steps counts as not needed.",
        "Hindsight labels count names only, not what an agent needed without naming it.",
        "",
    ]
    return "\n".join(lines)


_TRAINERS: dict[str, Callable[[_Plan], None]] = {
    "features": _train_features,
    "worth": _train_worth,
    "cross_encoder": _train_cross_encoder,
}
