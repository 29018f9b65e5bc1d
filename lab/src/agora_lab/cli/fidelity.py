"""`agora lab fidelity`: what shortened prompts are worth to a language model."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from agora.errors import AgoraError
from agora_lab.cli.progress import progress

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def fidelity() -> None:
    """Measure how likely a language model finds what was really done next, prompt by prompt."""


@fidelity.command()
@click.argument("gguf", type=_FILE)
@click.argument("folder", type=_FOLDER)
def prepare(gguf: Path, folder: Path) -> None:
    """Write the model in GGUF to FOLDER in bfloat16, from where it loads in seconds."""
    from agora_lab.judge.weights import prepare as write

    try:
        write(gguf, folder)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Model: {folder}")


@fidelity.command()
@click.option(
    "--model",
    type=_FOLDER,
    required=True,
    help="Folder of a causal language model that transformers loads.",
)
@click.option("--out", type=_FOLDER, required=True, help="Folder of the run.")
@click.option(
    "--sources", default="airline,retail,coding", show_default=True, help="Measured in turn."
)
@click.option(
    "--half",
    type=click.Choice(["validation", "test"]),
    default="validation",
    show_default=True,
    help="The half of the tasks to draw from.",
)
@click.option(
    "--anchors",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Stop a source when so many of its anchors have passed.",
)
@click.option(
    "--most-tokens",
    type=click.IntRange(1),
    default=6_000,
    show_default=True,
    help="Leave longer prompts for later: anchors beyond it come after all others.",
)
@click.option(
    "--limit-tokens",
    type=click.IntRange(1),
    default=8_000,
    show_default=True,
    help="Leave longer prompts out.",
)
@click.option("--played", type=_FOLDER, help="Folder with the episodes of played sources.")
@click.option(
    "--prompts-of",
    type=_FOLDER,
    help="Another run, whose passed anchors and prompts this model is to judge.",
)
@click.option("--methods", help="Only these methods, with the gate.  [default: all]")
@click.option(
    "--first",
    "only_first",
    is_flag=True,
    help="Only what is measured at every anchor, at 25 %: more anchors in the same time.",
)
@click.option(
    "--share",
    "shares",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    help="Only this share of what lies outside the floor, for the methods measured at every "
    "anchor. Repeat it for more than one.",
)
@click.option(
    "--arithmetic",
    type=click.Choice(["auto", "bfloat16", "int8", "float32"]),
    default="auto",
    show_default=True,
    help="What to compute in; auto takes what this machine is fastest in.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="How many work side by side; the model is in memory once.",
)
@click.option("--seed", type=int, default=0, show_default=True)
def run(
    model: Path,
    out: Path,
    sources: str,
    half: str,
    anchors: int,
    most_tokens: int,
    limit_tokens: int,
    played: Path | None,
    prompts_of: Path | None,
    methods: str | None,
    only_first: bool,
    shares: tuple[float, ...],
    arithmetic: str,
    processes: int,
    seed: int,
) -> None:
    """Judge the prompts of every method. Stop it at any time; the same command resumes it.

    Only what is missing is computed, so a method that was added to the table in
    agora_lab/judge/rows.py joins a finished run by running it again.
    """
    try:
        from agora_lab.judge import likelihood
        from agora_lab.judge.queue import queue
        from agora_lab.judge.records import Prompts, Run
        from agora_lab.judge.rendering import ModelTokens, Rendering
        from agora_lab.judge.rows import chosen
        from agora_lab.judge.run import Judging, Schedule
        from agora_lab.judge.workers import spread

        if arithmetic == "auto":
            arithmetic = likelihood.arithmetic()
        named = methods.split(",") if methods else None
        given = prompts_of is not None
        first, second = chosen(named, shares=shares, only_first=only_first, given=given)
        names, written = sources.split(","), Run(out)
        other = prompts_of.name if prompts_of else None
        plan = _fixed(names, most_tokens, limit_tokens) | {"sources": names, "halves": [half]}
        plan |= {"model": model.name, "arithmetic": arithmetic, "seed": seed, "prompts_of": other}
        written.plan(plan)
        # One thread each: after a fork, those of torch's pool would wait for ever.
        judge, tokenizer = likelihood.load(model, arithmetic=arithmetic, threads=1)
        rendering = Rendering(tokenizer)
        passed, sizes = _passed(prompts_of), (most_tokens, limit_tokens)
        queues = {
            name: queue(name, half, rendering, sizes, seed=seed, played=played, allowed=passed)
            for name in names
        }
        shown: dict[str, Any] = {"rendering": rendering, "counter": ModelTokens.of(tokenizer)}
        shown["given"] = Prompts(prompts_of) if prompts_of else None
        judging = Judging(run=written, prompts=Prompts(out), scorer=judge, **shown)
        total = sum(len(queue) for queue in queues.values()) * (2 + len(first) + len(second))
        with progress(total, len(written.measured), what="judging") as tick:
            schedule = Schedule(queues, first=first, second=second, most=anchors)
            spread(judging, schedule, processes, lambda note: tick(1, note))
        written.close()
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for name, reason in judging.skipped.items():
        click.echo(f"skipped {name}: {reason}", err=True)
    click.echo(f"Run: {out}")


_WHY = (
    "2 nats are a factor of 7 in probability: above what arithmetic and position do to the sum "
    "over an action (tenths), below what one missing id costs (5 and more)"
)
_ORDER = (
    "sources in turn, {block} anchors each; a task's second anchor after every task's first, by "
    "lot; "
    "prompts of at most {most} tokens first, so that n is large, then up to {limit}, longer ones "
    "left out; at each anchor everything and floor, then, if the gap is at least the margin, "
    "{first} at 0.25; after {block} anchors of each source the others at 0.25, then newest and "
    "forms_now at 0.15 and 0.5"
)


def _passed(folder: Path | None) -> set[str] | None:
    from agora_lab.judge.records import read_anchors

    return {one.anchor for one in read_anchors(folder) if one.passed} if folder else None


def _fixed(sources: Sequence[str], most: int, limit: int) -> dict[str, Any]:
    """Return what a plan says of the methods, the margin, the headline and the order."""
    from agora_lab.judge.judged import FORMS, MAIN_KEEP, NEWEST
    from agora_lab.judge.rows import FIRST, GATE, SECOND
    from agora_lab.judge.run import BLOCK, MARGIN

    first = ", ".join(row.method for row in FIRST)
    return {
        "margin": MARGIN,
        "why_margin": _WHY,
        "headline": [
            {"source": name, "ours": FORMS, "theirs": NEWEST, "keep": MAIN_KEEP} for name in sources
        ],
        "methods": [{"method": row.method, "keep": row.keep} for row in (*GATE, *FIRST, *SECOND)],
        "order": _ORDER.format(most=most, limit=limit, first=first, block=BLOCK),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


COMMANDS: tuple[Any, ...] = (fidelity,)
