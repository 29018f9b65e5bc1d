"""The `agora lab teach` commands: lessons of played episodes, a student trained on them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.errors import AgoraError
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.teaching.making import Lot

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_NEW_FILE = click.Path(dir_okay=False, path_type=Path)
_NEW_FOLDER = click.Path(file_okay=False, path_type=Path)
METHODS = ("floor_matched", "agora_forms_worth", "mask_results")


@click.group()
def teach() -> None:
    """Teach a small language model to play, with the readers as teachers."""


@teach.command()
@click.argument("runs", nargs=-1, required=True, type=_FOLDER)
@click.option("--out", type=_NEW_FILE, required=True, metavar="FILE", help="A file of lessons.")
@click.option(
    "--compressed",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Instead of whole episodes, make this share of the steps a lesson each, its prompt "
    "shortened by a method drawn by lot.",
)
@click.option(
    "--methods",
    default=",".join(METHODS),
    show_default=True,
    help="The methods to draw from, with --compressed.",
)
@click.option(
    "--keep-ratio",
    type=click.FloatRange(0, 1),
    default=0.25,
    show_default=True,
    help="Which share of the tokens outside the floor they keep.",
)
@click.option("--seed", type=int, default=0, show_default=True)
def lessons(
    runs: tuple[Path, ...],
    out: Path,
    compressed: float | None,
    methods: str,
    keep_ratio: float,
    seed: int,
) -> None:
    """Write lessons of the episodes in RUNS: at each history, what the reader would do.

    RUNS are by `agora lab play --split train`. Episodes of the reader show how a task is done;
    those of a student show it the way back from its own mistakes. Episodes whose lessons are in
    the file already are passed over.
    """

    def lot(*, calls: bool) -> "Lot | None":
        return _lot(methods.split(","), compressed, keep_ratio, seed, calls=calls)

    try:
        made = sum(_write(run, out, lot) for run in runs)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{made:,} lessons added to {out}")


@teach.command()
@click.argument("files", nargs=-1, required=True, metavar="LESSONS...", type=_FILE)
@click.option(
    "--model",
    type=_FOLDER,
    required=True,
    metavar="FOLDER",
    help="Where to start: a folder that transformers loads, or one written by this command.",
)
@click.option("--out", type=_NEW_FOLDER, required=True, metavar="FOLDER", help="The student.")
@click.option("--validation", multiple=True, type=_FILE, help="Lessons of the validation split.")
@click.option("--tokens", type=click.IntRange(1), required=True, help="Tokens to read in all.")
@click.option("--minutes", type=click.FloatRange(0), help="Stop after this long; resumable.")
@click.option("--rate", type=float, default=3e-4, show_default=True, help="The learning rate.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True)
@click.option("--frozen-layers", type=click.IntRange(0), default=0, show_default=True)
@click.option("--most-tokens", type=click.IntRange(1), default=2048, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def train(
    files: tuple[Path, ...],
    model: Path,
    out: Path,
    validation: tuple[Path, ...],
    tokens: int,
    minutes: float | None,
    rate: float,
    batch: int,
    frozen_layers: int,
    most_tokens: int,
    threads: int,
    seed: int,
) -> None:
    """Train a student on LESSONS. Stop it at any time; the same command resumes it.

    Longer lessons than --most-tokens are left out.
    """
    try:
        from agora_lab.teaching.card import write_record
        from agora_lab.teaching.student import load_student, save_student
        from agora_lab.teaching.training import Pace, Training, TrainingSettings

        student = load_student(model, threads=threads)
        settings = TrainingSettings(
            tokens=tokens, rate=rate, batch=batch, frozen_layers=frozen_layers, seed=seed
        )
        training = Training(
            student.model,
            student.sequences(files, split="train", most_tokens=most_tokens),
            out,
            settings,
            validation=student.sequences(validation, split="validation", most_tokens=most_tokens),
        )
        with progress(tokens, training.progress.tokens, what="training") as tick:
            training.run(Pace(minutes=minutes), tick)
        save_student(student, out)
        trained = {**training.record(), "most_tokens": most_tokens}
        write_record(out, start=model, files=files, trained=trained)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    said = "all tokens read" if training.finished else "stopped; the same command goes on"
    click.echo(f"Student: {out} ({training.progress.tokens:,} tokens, {said})")


@teach.command()
@click.argument("student", type=_FOLDER)
@click.argument("runs", nargs=-1, type=_FOLDER)
@click.option(
    "--out",
    type=_NEW_FOLDER,
    metavar="FOLDER",
    help="Where to write card.json and card.md.  [default: the student's folder]",
)
@click.option("--player", default="", metavar="NAME", help="Only what this backbone has played.")
def card(student: Path, runs: tuple[Path, ...], out: Path | None, player: str) -> None:
    """Write what STUDENT was taught, and what it reached in RUNS.

    Give the readers' runs of the same tasks too: the card then says what they reached.
    """
    from agora_lab.teaching.card import card as made
    from agora_lab.teaching.card import markdown

    try:
        found = made(student, runs, player=player)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    folder = out or student
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    (folder / "card.json").write_text(text, encoding="utf-8")
    (folder / "card.md").write_text(markdown(found), encoding="utf-8")
    click.echo(f"Card: {folder / 'card.md'}")


def _write(run: Path, out: Path, lot: Callable[..., "Lot | None"]) -> int:
    """Append the lessons of a run's episodes that the file does not have yet."""
    from agora_lab.backbones import readers
    from agora_lab.environments import world
    from agora_lab.journal import Journal, read_lines
    from agora_lab.teaching.making import Teacher
    from agora_lab.teaching.played import played

    out.parent.mkdir(parents=True, exist_ok=True)
    done = {json.loads(line)["episode"] for line in read_lines(out)} if out.exists() else set()
    made = 0
    journal = Journal(out)
    try:
        episodes = list(played(run))
        with progress(len(episodes), 0, what="asking") as tick:
            for episode, cell in episodes:
                tick(1, "")
                if episode.key in done:
                    continue
                chosen = world(cell.environment)
                teacher = Teacher(
                    world=chosen,
                    reader=readers.reader(cell.environment),
                    split=cell.split,
                    by_reader=cell.reads,
                    lot=lot(calls=chosen.calls),
                )
                lines = [one.to_json() for one in teacher.lessons(episode)]
                if lines:
                    journal.add("\n".join(lines).encode("utf-8", "surrogatepass"))
                made += len(lines)
    finally:
        journal.close()
    return made


def _lot(
    names: Sequence[str], share: float | None, keep_ratio: float, seed: int, *, calls: bool
) -> "Lot | None":
    if share is None:
        return None
    from agora_lab.methods import MethodSettings, method
    from agora_lab.teaching.making import Lot

    settings: dict[str, Any] = {
        "observations": "none" if calls else "user",
        "seed": seed,
        "options": {"share": keep_ratio},
    }
    methods = {name: method(name, MethodSettings(**settings)) for name in names}
    return Lot(methods=methods, share=share, seed=seed)
