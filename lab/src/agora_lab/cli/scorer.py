"""The `agora scorer` commands: compare scorers on your own labels."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.cli.figures import json_option, write_json
from agora.cli.options import scorer_option
from agora.errors import AgoraError
from agora.scorers.bundle import MANIFEST, Bundle, read_bundle
from agora.scorers.load import BUILT_IN, load_scorer
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.train.metrics import Interval
    from agora_lab.train.questions import Question
    from agora_lab.train.report import Report


@click.group()
def scorer() -> None:
    """Measure scorers on your own labels."""


@scorer.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="LABELS...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@scorer_option(
    names=("names",),
    multiple=True,
    default=(),
    show_default=False,
    help="Scorer to compare; repeatable.  [default: all available]",
)
@click.option("--most-tasks", type=click.IntRange(1), metavar="N", help="Use only this many tasks.")
@json_option("all figures")
def report(
    files: tuple[Path, ...],
    names: tuple[str, ...],
    most_tasks: int | None,
    json_out: str | None,
) -> None:
    """Compare scorers on LABELS: ranking, calibration and time, with intervals by task.

    A bundle trained on these labels is measured on the tasks its training held
    out, and every other scorer on the same tasks.
    """
    try:
        from agora_lab.train.questions import read_questions
        from agora_lab.train.report import compare

        questions = list(read_questions(files, newest=True))
        chosen = names or tuple(BUILT_IN)
        questions, remarks = _unseen(questions, files, chosen)
        if most_tasks is not None:
            questions = _some(questions, most_tasks)
        if not questions:
            raise click.ClickException("no labels are left to compare on")
        scorers = {_short(name): load_scorer(name) for name in chosen}
        with progress(len(questions), 0, what="scoring") as tick:
            found = compare(scorers, questions, remarks=remarks, progress=lambda: tick(1, ""))
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    taken = write_json(json_out, found.as_json(), indent=1)
    _print(found, to_stderr=taken)


def _unseen(
    questions: list["Question"], files: Sequence[Path], names: Sequence[str]
) -> tuple[list["Question"], list[str]]:
    """Leave out the tasks that a bundle was trained on, and note where that is unknown."""
    from agora_lab.train.questions import held_out

    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    unseen = [True] * len(questions)
    remarks = []
    for name in names:
        folder = Path(name)
        if not (folder / MANIFEST).is_file():
            continue
        bundle = read_bundle(folder)
        record = _training_record(bundle)
        if hashes.isdisjoint(record.get("data", {}).values()):
            continue
        held = record.get("held_out")
        if not held:
            remarks.append(
                f"{_short(name)} was trained on these labels: its figures are optimistic"
            )
            continue
        keep = held_out(
            questions, share=held["share"], seed=held["seed"], bounds=held.get("bounds")
        )
        unseen = [both and kept for both, kept in zip(unseen, keep, strict=True)]
        remarks.append(
            f"compared only on the {100 * held['share']:.0f} % of tasks held out when "
            f"{_short(name)} was trained"
        )
    return [one for one, kept in zip(questions, unseen, strict=True) if kept], remarks


def _training_record(bundle: Bundle) -> dict[str, Any]:
    """Return what a bundle records about its training, in its manifest or its metrics."""
    if "data" in bundle.settings or "metrics.json" not in bundle.files:
        return dict(bundle.settings)
    said = json.loads(bundle.read("metrics.json"))
    return said if isinstance(said, dict) else {}


def _some(questions: Sequence["Question"], most: int) -> list["Question"]:
    """Return the questions of a sample of tasks, drawn by name."""
    from agora_lab.train.questions import fold

    tasks = sorted({one.task for one in questions}, key=lambda task: fold(task, 2**32, 0))
    kept = set(tasks[:most])
    return [one for one in questions if one.task in kept]


def _short(name: str) -> str:
    return Path(name).name if Path(name).is_dir() else name


def _said(interval: "Interval") -> str:
    value, low, high = (
        f"{number:.3f}".replace("0.", ".", 1)
        for number in (interval.value, interval.low, interval.high)
    )
    return f"{value} [{low}, {high}]"


def _print(found: "Report", *, to_stderr: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=to_stderr)
    for source in dict.fromkeys(row.source for row in found.rows):
        rows = [row for row in found.rows if row.source == source]
        first = rows[0]
        counts = f"{first.pairs:,} pairs, {first.needed:,} needed, {first.tasks:,} tasks"
        table = Table(title=f"{source}: {counts}", title_justify="left")
        table.add_column("scorer")
        for column in ("AUC", "average precision", "calibration error"):
            table.add_column(column, justify="right")
        for row in rows:
            figures = row.metrics
            if figures is None:
                table.add_row(row.scorer, "too few needed steps to measure")
                continue
            shown = (figures.auc, figures.average_precision, figures.calibration_error)
            table.add_row(row.scorer, *map(_said, shown))
        console.print(table)
    table = Table(title="CPU milliseconds per call", title_justify="left")
    for column in ("scorer", "past steps", "p50", "p99"):
        table.add_column(column, justify="left" if column == "scorer" else "right")
    for one in found.latencies:
        table.add_row(one.scorer, str(one.steps), f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}")
    console.print(table)
    console.print("In brackets: 95 % interval, by bootstrap over tasks.")
    for remark in found.remarks:
        console.print(f"Note: {remark}.")
