"""The `agora label` command: counterfactual labels by a backbone, for training a scorer."""

import heapq
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora import AgoraError
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.label.cases import Case
    from agora_lab.label.plan import Plan, PlanSettings


@click.command()
@click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="The folder of the plan, the answers and the labels.",
)
@click.option(
    "--backbone", metavar="SPEC", help="A model: `openai:gpt-4o-mini` or `llama:FILE.gguf`."
)
@click.option(
    "--revision", default="", metavar="TEXT", help="Version of the weights, e.g. their SHA-256."
)
@click.option(
    "--samples",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    metavar="K",
    help="Samples per pair, half of them without the step.",
)
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), default=48, show_default=True)
@click.option("--stop", multiple=True, metavar="TEXT", help=r"Stop sequence; \n is a newline.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--trajectories", type=click.IntRange(1), help="Most trajectories per source.")
@click.option("--pairs", type=click.IntRange(1), help="Most pairs per trajectory.")
@click.option("--longest", type=click.IntRange(1), metavar="TOKENS", help="Longest prompt.")
@click.option("--estimate", is_flag=True, help="Plan and estimate the cost, and ask nothing.")
@click.option("--base-url", metavar="URL", help="Endpoint.  [default: OPENAI_BASE_URL]")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Requests in flight per trajectory.",
)
@click.option(
    "--max-dollars",
    type=click.FloatRange(0, min_open=True),
    help="Cap on what the answers in this folder may cost, over all runs.",
)
@click.option(
    "--dollars-per-million",
    nargs=2,
    type=click.FloatRange(0),
    metavar="INPUT OUTPUT",
    help="Prices of a model without a price sheet.",
)
@click.option(
    "--ray", metavar="ADDRESS", help="A Ray cluster.  [default: RAY_ADDRESS, or this machine]"
)
def label(
    sources: tuple[Path, ...],
    out: Path,
    backbone: str | None,
    stop: tuple[str, ...],
    trajectories: int | None,
    estimate: bool,
    base_url: str | None,
    concurrency: int,
    max_dollars: float | None,
    dollars_per_million: tuple[float, float] | None,
    ray: str | None,
    **settings: Any,
) -> None:
    """Label which past steps an action needed, by asking a backbone with and without each.

    SOURCES are runs of `agora lab play` and logs as `agora replay` reads them. Stop it at any
    time: the same command, or `agora label --out FOLDER`, asks what is missing. Each trajectory
    is a Ray task, on this machine or on a cluster whose nodes share FOLDER. The labels are
    FOLDER/soft.parquet (Eq. 4) and FOLDER/hard.parquet (Hard-CF).
    """
    try:
        from agora_lab.agents.purse import Prices
        from agora_lab.label.answers import Connection
        from agora_lab.label.plan import SETTINGS, PlanSettings, read_plan, write_plan
        from agora_lab.label.run import run_plan

        wanted = None
        if backbone:
            stops = tuple(text.replace("\\n", "\n") for text in stop)
            wanted = PlanSettings(backbone=backbone, stop=stops, **settings)
        if (out / SETTINGS).exists():
            plan = read_plan(out)
            if wanted and wanted != plan.settings:
                raise click.ClickException(f"{out} was planned with other settings")
        elif wanted is None or not sources:
            raise click.UsageError(f"{out} holds no plan; name SOURCES and --backbone")
        else:
            plan = write_plan(out, read_cases(sources, trajectories, wanted), wanted)
        for line in _estimate(plan):
            click.echo(line)
        if estimate:
            return
        connection = Connection(
            base_url=base_url or os.environ.get("OPENAI_BASE_URL"),
            api_key=os.environ.get("OPENAI_API_KEY", ""),
            concurrency=concurrency,
            max_dollars=max_dollars,
            prices=Prices(*dollars_per_million) if dollars_per_million else None,
        )
        with progress(plan.summary.asks, 0, what="answers") as advance:
            shown = 0

            def report(answers: int, _: int) -> None:
                nonlocal shown
                advance(answers - shown, "")
                shown = answers

            summary = run_plan(plan, out / "answers", connection, address=ray, report=report)
        click.echo(str(summary))
        _write(plan, out)
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not summary.complete:
        raise click.exceptions.Exit(1)


def read_cases(
    sources: Iterable[Path], most: int | None, settings: "PlanSettings"
) -> Iterator["Case"]:
    """Yield the cases of runs and logs; with `most`, at most that many of each, sampled by name."""
    for source in sources:
        cases = _played(source) if (source / "settings.json").is_file() else _recorded(source)
        if most is None:
            yield from cases
            continue

        def place(case: "Case") -> bytes:
            name = f"{settings.seed}:{case.trajectory}"
            return sha256(name.encode("utf-8", "replace")).digest()

        usable = (case for case in cases if case.candidates(len(case.spans)))
        yield from heapq.nsmallest(most, usable, key=place)


def _played(source: Path) -> Iterator["Case"]:
    from agora_lab.envs import world
    from agora_lab.episodes import read_episodes, read_settings
    from agora_lab.label.cases import from_episode

    experiment = read_settings(source)["experiment"]
    if experiment["split"] == "test":
        raise click.ClickException(
            f"{source} was played on the test split, which must not be trained on; play with "
            "--split train"
        )
    examples = {name: world(name).examples for name in experiment["environments"]}
    for episode in read_episodes(source):
        case = from_episode(episode, examples=examples[episode.cell.environment])
        if case is not None:
            yield case


def _recorded(source: Path) -> Iterator["Case"]:
    from agora.logs import Tally
    from agora_lab.label.cases import from_recording
    from agora_lab.recorded import read_logs

    tally = Tally()
    for recording in read_logs([source], tally):
        try:
            case = from_recording(recording, source=source.stem)
        except (AgoraError, RecursionError):
            tally.bad += 1
            continue
        if case is not None:
            yield case
    if tally.bad:
        click.echo(f"{source}: {tally.bad:,} records could not be read", err=True)


def _estimate(plan: "Plan") -> Iterator[str]:
    from agora_lab.agents.purse import NoPriceError, Prices

    summary = plan.summary
    yield (
        f"{summary.pairs:,} pairs in {summary.trajectories:,} trajectories; "
        f"{summary.passed_over:,} trajectories had none"
    )
    share = summary.new_tokens / max(summary.prompt_tokens, 1)
    yield (
        f"{summary.asks:,} requests with about {summary.prompt_tokens:,} prompt tokens, "
        f"{share:.0%} of them new to a server that caches, and about {summary.output_tokens:,} "
        "tokens to write"
    )
    kind, _, model = plan.settings.backbone.partition(":")
    try:
        prices = Prices.of(model if kind == "openai" else "")
    except NoPriceError:
        return
    cached = summary.prompt_tokens - summary.new_tokens
    every, best = (
        prices.dollars(
            input_tokens=summary.prompt_tokens,
            output_tokens=summary.output_tokens,
            cached_tokens=tokens,
        )
        for tokens in (0, cached)
    )
    yield f"about ${every:,.2f}; ${best:,.2f} if the provider caches the beginning of every prompt"


def _write(plan: "Plan", out: Path) -> None:
    """Write the labels of the answered pairs, and print a summary of them."""
    from agora_lab.label.answers import answers_file, read_answers
    from agora_lab.label.forms import Tally, labels_of
    from agora_lab.labels import write_labels

    tally = Tally()
    pairs = [
        pair
        for shard in plan.shards()
        for pair in labels_of(
            shard, read_answers(answers_file(out / "answers", shard)), plan.settings, tally
        )
    ]
    if not pairs:
        return
    for name, labels in zip(("soft", "hard"), zip(*pairs, strict=True), strict=True):
        write_labels(out / f"{name}.parquet", labels)
    figures = {
        "pairs": tally.pairs,
        "missing": tally.missing,
        "mean_label": round(tally.total / tally.pairs, 4),
        "above_half": tally.positive,
        "soft_differs_from_hard": tally.apart,
        "self_disagreement": round(tally.self_disagreement / tally.pairs, 4),
    }
    record = {**figures, "settings": asdict(plan.settings)}
    (out / "labels.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    click.echo(
        f"{tally.pairs:,} labels in {out / 'soft.parquet'} and {out / 'hard.parquet'}: mean "
        f"{figures['mean_label']:.3f}, {tally.positive:,} above 0.5, soft differs from hard in "
        f"{tally.apart:,}; the backbone differs from itself in {figures['self_disagreement']:.0%}"
    )
