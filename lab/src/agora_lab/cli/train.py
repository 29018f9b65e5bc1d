"""The `agora train` command: train your own scorer on labels, or straight on logs."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import agora
from agora.errors import AgoraError
from agora_lab.cli.label_logs import TOO_SHORT, by_hindsight, label_logs
from agora_lab.cli.label_sources import index_option, log_kind_option

if TYPE_CHECKING:
    from rich.progress import Progress


labels_or_logs = click.argument(
    "files",
    nargs=-1,
    metavar="LABELS|LOGS...",
    type=click.Path(exists=True, path_type=Path),
)


@click.command()
@labels_or_logs
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
    help="Folder of the encoder: config.json, model.safetensors, tokenizer.json",
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
    help="Subwords of a pair that the encoder reads.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=700,
    show_default=True,
    metavar="N",
    help="Labels of each environment, where scripted agents make them.",
)
@click.option("--backbone", metavar="NAME", help="What the record calls the encoder.")
@click.option(
    "--card",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the record of the training here too, as JSON.",
)
@click.option(
    "--minutes", type=click.FloatRange(0), help="Stop training an encoder after this long."
)
@click.option("--seed", type=int, default=42, show_default=True)
@log_kind_option
@index_option
def train(
    files: tuple[Path, ...],
    out: Path,
    encoder: Path | None,
    hold_out: float,
    tokens: int,
    pairs: int,
    backbone: str | None,
    card: Path | None,
    minutes: float | None,
    seed: int,
    log_kind: str | None,
    index: int | None,
) -> None:
    """Train a cross-encoder, the paper's scorer, on LABELS and write it as a bundle.

    LABELS are files written by `agora label`, with their trajectories next to them.
    LOGS are what `agora replay` reads; they are labelled first, by hindsight. Without LABELS
    the labels are made first: counterfactual, by scripted agents on training tasks. Training
    follows the paper's recipe. Use the bundle with `Compressor.paper(load_scorer("FOLDER"))`.
    """
    plan = _Plan(
        files=labels_of(files, out, log_kind=log_kind, index=index),
        out=out,
        encoder=encoder,
        hold_out=hold_out,
        tokens=tokens,
        pairs=pairs,
        backbone=backbone,
        card=card,
        seconds=None if minutes is None else 60 * minutes,
        seed=seed,
    )
    try:
        _train_cross_encoder(plan)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Bundle: {out}")


def labels_of(
    files: tuple[Path, ...],
    out: Path,
    *,
    log_kind: str | None = None,
    index: int | None = None,
) -> tuple[Path, ...]:
    """Return files of labels: those that were given, and one for all the logs among them."""
    logs = tuple(path for path in files if not _holds_labels(path))
    if not logs:
        return files
    made = out / "work" / "hindsight.parquet"
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        done = label_logs(logs, made, by_hindsight, log_kind=log_kind, index=index)
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"By hindsight: {done.account()}")
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
    seed: int

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
        raise click.UsageError("--encoder is needed: the folder of the encoder to train")
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
