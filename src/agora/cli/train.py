"""The `agora train` command: a scorer of one's own, from labels."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import agora
from agora.errors import AgoraError
from agora.scorers.bundle import write_bundle
from agora.scorers.features import WEIGHTS
from agora.scorers.load import minilm_folder
from agora.scorers.structure import FEATURES, VALUES
from agora.scorers.tables import write

if TYPE_CHECKING:
    from rich.progress import Progress

    from agora.lab.training.export import Parity
    from agora.lab.training.features import Examples
    from agora.lab.training.questions import Question

SCORERS = ("features", "embedding", "cross_encoder")


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="LABELS...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--scorer", type=click.Choice(SCORERS), default="features", show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Where the bundle goes.",
)
@click.option(
    "--encoder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="An encoder's folder: config.json, model.safetensors, tokenizer.json.  "
    "[default for embedding: the one of agora-context-minilm]",
)
@click.option(
    "--hold-out",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="Leave out this share of the tasks, for `agora scorer report`.",
)
@click.option(
    "--full-epochs",
    type=click.IntRange(0),
    metavar="N",
    help="Let the encoder learn for so many epochs, after the head.  "
    "[default: 0 for embedding, 4 for cross_encoder]",
)
@click.option("--minutes", type=click.FloatRange(0), help="Stop an encoder's learning after these.")
@click.option(
    "--balance",
    is_flag=True,
    help="Let sources count alike, however many needed pairs they have (features only).",
)
@click.option(
    "--soft",
    is_flag=True,
    help="Take a label for a share instead of cutting it at one half (features only).",
)
@click.option("--seed", type=int, default=42, show_default=True)
def train(
    files: tuple[Path, ...],
    scorer: str,
    out: Path,
    encoder: Path | None,
    hold_out: float,
    full_epochs: int | None,
    minutes: float | None,
    balance: bool,
    soft: bool,
    seed: int,
) -> None:
    """Train a scorer on LABELS and write it as a bundle.

    LABELS are files of `agora label`, with their trajectories beside them. Use
    the bundle with `Compressor(scorer=load_scorer("FOLDER"))`. A training of an
    encoder that was interrupted goes on where it stopped.
    """
    plan = _Plan(
        files=files,
        out=out,
        encoder=encoder,
        hold_out=hold_out,
        full_epochs=full_epochs,
        seconds=None if minutes is None else 60 * minutes,
        balance=balance,
        soft=soft,
        seed=seed,
    )
    try:
        _TRAINERS[scorer](plan)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"The bundle: {out}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What was asked for."""

    files: tuple[Path, ...]
    out: Path
    encoder: Path | None
    hold_out: float
    full_epochs: int | None
    seconds: float | None
    balance: bool
    soft: bool
    seed: int

    def questions(self) -> "list[Question]":
        """Return what may be learnt from: all but the tasks that are held out."""
        from agora.lab.training.questions import held_out, read_questions

        asked = list(read_questions(self.files))
        outside = held_out(asked, share=self.hold_out, seed=self.seed)
        return [one for one, held in zip(asked, outside, strict=True) if not held]

    def about(self) -> dict[str, Any]:
        """Return what a report has to know: the labels' hashes, and what was held out of them."""
        from agora.lab.training.questions import bounds_of

        told: dict[str, Any] = {
            "agora": agora.__version__,
            "data": {
                path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files
            },
        }
        if self.hold_out:
            told["held_out"] = {
                "share": self.hold_out,
                "seed": self.seed,
                "bounds": bounds_of(self._tasks(), share=self.hold_out, seed=self.seed),
            }
        return told

    def _tasks(self) -> Iterator[tuple[str, str]]:
        from agora.lab.labels import read_labels

        for path in self.files:
            for one in read_labels(path):
                yield one.source, f"{one.source}/{one.task}"


def _train_embedding(plan: _Plan) -> None:
    from agora.lab.training.embedding import Settings, train_embedding

    encoder = plan.encoder or minilm_folder()
    settings = Settings(
        seed=plan.seed, full_epochs=plan.full_epochs or 0, full_seconds=plan.seconds
    )
    with _progress() as progress:
        trained = train_embedding(
            plan.questions(), encoder, plan.out, settings, about=plan.about(), progress=progress
        )
    auc = trained.metrics["held_out"]["all"]["auc"]
    said = (
        "too few were needed to say" if auc is None else "AUC {:.3f} [{:.3f}, {:.3f}]".format(*auc)
    )
    click.echo(f"On tasks held out: {said}. {_parity(trained.parity)}")


def _train_cross_encoder(plan: _Plan) -> None:
    from dataclasses import replace

    from agora.lab.training.cross_encoder import train_cross_encoder
    from agora.lab.training.lpft import Recipe
    from agora.lab.training.questions import read_questions

    if plan.encoder is None:
        raise click.UsageError("a cross_encoder needs --encoder, the folder of the one to train")
    # It holds tasks out itself: those by which it knows when to stop.
    recipe = Recipe(seed=plan.seed, validation=plan.hold_out or Recipe().validation)
    if plan.full_epochs is not None:
        recipe = replace(recipe, full_epochs=plan.full_epochs)
    with _progress() as progress:
        result = train_cross_encoder(
            read_questions(plan.files),
            plan.encoder,
            recipe,
            out=plan.out,
            folder=plan.out / "work",
            seconds=plan.seconds,
            progress=progress,
            about=plan.about(),
        )
    click.echo(f"On tasks held out: AUC {result.metrics.auc}. {_parity(result.parity)}")


def _parity(found: "Parity") -> str:
    return f"The exported scores are within {found.worst:.1g} of the trained ones."


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True)


def _train_features(plan: _Plan) -> None:
    from agora.lab.training.features import BALANCED, Settings, examples_of
    from agora.lab.training.features import train as train_features

    examples = examples_of(plan.questions())
    settings = Settings(
        seed=plan.seed, most_needed=BALANCED if plan.balance else None, soft=plan.soft
    )
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
        f"{trained.trees} trees; on tasks held out: "
        f"AUC {metrics['auc']:.3f}, "
        f"average precision {metrics['average_precision']:.3f}, "
        f"calibration error {metrics['calibration_error']:.3f}"
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
        "Boosted trees of two questions each over structural features of a step, written as",
        "tables and calibrated (Platt). It gives the probability that the next action needs this",
        "step, as its labels have it. It reads no language and runs nothing from this folder.",
        "",
        "| source | pairs | needed |",
        "|---|---|---|",
        *(f"| {source} | {count:,} | {needed[source]:,} |" for source, count in pairs.items()),
        "",
        "On tasks held out, four folds, which also chose the number of trees and the calibration:",
        f"AUC {metrics['auc']:.3f},",
        f"average precision {metrics['average_precision']:.3f},",
        f"calibration error {metrics['calibration_error']:.3f}.",
        "",
        "Labels leave out one step at a time: what two steps both hold counts as not needed. Those",
        "of hindsight count names only, not what an agent needed without naming it.",
        "",
    ]
    return "\n".join(lines)


_TRAINERS: dict[str, Callable[[_Plan], None]] = {
    "features": _train_features,
    "embedding": _train_embedding,
    "cross_encoder": _train_cross_encoder,
}
