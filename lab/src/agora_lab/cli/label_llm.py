"""The `agora label` commands that ask a backbone: plan, run, make."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora import AgoraError
from agora.cli.figures import json_option, write_json
from agora_lab.cli.label_sources import Wanted, index_option, log_kind_option, read_cases
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.label.plan import PlanSettings, Summary

_FOLDER = click.Path(file_okay=False, path_type=Path)
_PRESENT = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCES...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option("--out", type=_FOLDER, required=True, metavar="PLAN", help="The plan's folder.")
@click.option(
    "--backbone",
    required=True,
    metavar="SPEC",
    help="`scripted`, or a model such as `openai:gpt-4o-mini` or `llama:FILE.gguf`.",
)
@click.option(
    "--revision", default="", metavar="TEXT", help="Version of the weights, e.g. their SHA-256."
)
@click.option(
    "--kind",
    type=click.Choice(("counterfactual", "likelihood")),
    default="counterfactual",
    show_default=True,
)
@click.option(
    "--samples",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    metavar="K",
    help="Samples per pair, half of them without the step.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Sample the whole prompt once per action. Cheaper, but labels of an action correlate.",
)
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), default=48, show_default=True)
@click.option("--stop", multiple=True, metavar="TEXT", help=r"Stop sequence; \n is a newline.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--k-recent",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Newest steps that are always kept, so that they need no label.",
)
@click.option("--trajectories", type=click.IntRange(1), help="Most trajectories per source.")
@click.option("--anchors", type=click.IntRange(1), help="Most actions per trajectory.")
@click.option("--candidates", type=click.IntRange(1), help="Most past steps per action.")
@click.option("--longest", type=click.IntRange(1), metavar="TOKENS", help="Longest prompt.")
@click.option(
    "--world", default="", metavar="NAME", help="Environment whose actions the logs hold, if any."
)
@click.option(
    "--any-split", is_flag=True, help="Accept runs on the test split; do not train on the result."
)
@log_kind_option
@index_option
@json_option("the counts and costs")
def plan(
    sources: tuple[Path, ...],
    out: Path,
    stop: tuple[str, ...],
    trajectories: int | None,
    world: str,
    any_split: bool,
    log_kind: str | None,
    index: int | None,
    json_out: str | None,
    **chosen: Any,
) -> None:
    """Plan what to ask a backbone, and estimate the cost. Nothing is asked.

    SOURCES are runs of `agora lab play` and logs as `agora replay` reads them. For each action,
    every past step but the newest ones is left out once.
    """
    try:
        from agora_lab.label.plan import PlanSettings, write_plan

        settings = PlanSettings(stop=tuple(one.replace("\\n", "\n") for one in stop), **chosen)
        wanted = Wanted(
            world=world,
            any_split=any_split,
            log_kind=log_kind,
            index=index,
            most=trajectories,
            seed=settings.seed,
        )
        summary = write_plan(out, read_cases(sources, wanted), settings).summary
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    dollars = _dollars(summary, settings)
    taken = write_json(json_out, {"plan": str(out), **asdict(summary), **dollars})
    for line in _in_words(summary, dollars):
        click.echo(line, err=taken)


def _dollars(summary: "Summary", settings: "PlanSettings") -> dict[str, float]:
    """Return about what a plan costs, if its model has known prices."""
    from agora_lab.agents.purse import NoPriceError, Prices

    kind, _, model = settings.backbone.partition(":")
    try:
        prices = Prices.of(model if kind == "openai" else "")
    except NoPriceError:
        return {}
    cached = summary.prompt_tokens - summary.new_tokens
    return {
        "dollars": prices.dollars(
            input_tokens=summary.prompt_tokens, output_tokens=summary.output_tokens
        ),
        "dollars_with_caching": prices.dollars(
            input_tokens=summary.prompt_tokens,
            output_tokens=summary.output_tokens,
            cached_tokens=cached,
        ),
    }


def _in_words(summary: "Summary", dollars: dict[str, float]) -> Iterator[str]:
    yield (
        f"{summary.pairs:,} pairs of {summary.anchors:,} actions in {summary.trajectories:,} "
        f"trajectories; {summary.passed_over:,} trajectories had none"
    )
    share = summary.new_tokens / max(summary.prompt_tokens, 1)
    yield (
        f"{summary.asks:,} requests with about {summary.prompt_tokens:,} prompt tokens, "
        f"{share:.0%} of them new to a server that caches, and about {summary.output_tokens:,} "
        "tokens to write"
    )
    if dollars:
        yield (
            f"about ${dollars['dollars']:,.2f}; ${dollars['dollars_with_caching']:,.2f} if the "
            "provider's cache keeps every prompt's beginning"
        )


@click.command()
@click.argument("plan", type=_PRESENT)
@click.option(
    "--out",
    type=_FOLDER,
    required=True,
    metavar="ANSWERS",
    help="Folder of the answers. What it already holds, of whichever plan, is not asked again.",
)
@click.option("--base-url", metavar="URL", help="Endpoint.  [default: OPENAI_BASE_URL]")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Requests in flight per shard.",
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    help="Most trajectories at once.  [default: twice the cluster's cores, half of them queued]",
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
    "--ray", "address", metavar="ADDRESS", help="A Ray cluster.  [default: RAY_ADDRESS, or none]"
)
@json_option("the counts")
def run(
    plan: Path,
    out: Path,
    base_url: str | None,
    concurrency: int,
    shards: int | None,
    max_dollars: float | None,
    dollars_per_million: tuple[float, float] | None,
    address: str | None,
    json_out: str | None,
) -> None:
    """Ask a backbone the questions of PLAN. Stop it at any time; the same command resumes it.

    Each trajectory is a Ray task, on this machine or on a cluster whose nodes share the folder of
    answers. The endpoint's key is OPENAI_API_KEY here. The exit code is 0 only if every question is
    answered.
    """
    try:
        import os

        from agora_lab.agents.purse import Prices
        from agora_lab.label.answers import Connection
        from agora_lab.label.plan import read_plan
        from agora_lab.label.run import run_plan

        read = read_plan(plan)
        connection = Connection(
            base_url=base_url or os.environ.get("OPENAI_BASE_URL"),
            api_key=os.environ.get("OPENAI_API_KEY", ""),
            concurrency=concurrency,
            max_dollars=max_dollars,
            prices=Prices(*dollars_per_million) if dollars_per_million else None,
        )
        with progress(read.summary.asks, 0, what="answers") as advance:
            shown = 0

            def report(answers: int, _: int) -> None:
                nonlocal shown
                advance(answers - shown, "")
                shown = answers

            summary = run_plan(read, out, connection, address=address, shards=shards, report=report)
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    figures = {**asdict(summary), "complete": summary.complete}
    click.echo(str(summary), err=write_json(json_out, figures))
    if not summary.complete:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("plans", nargs=-1, required=True, metavar="PLANS...", type=_PRESENT)
@click.option(
    "--answers",
    type=_PRESENT,
    required=True,
    metavar="ANSWERS",
    help="Folder written by `agora label run`.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Parquet file for the labels. Trajectories go to FILE.trajectories.parquet next to it.",
)
@click.option(
    "--form",
    type=click.Choice(("soft", "hard")),
    default="soft",
    show_default=True,
    help="Share of sample pairs that differ (Eq. 4), or whether the first differs (Hard-CF).",
)
@json_option("the counts")
def make(
    plans: tuple[Path, ...], answers: Path, out: Path, form: Any, json_out: str | None
) -> None:
    """Make labels for `agora train` from the answers."""
    try:
        from agora_lab.label.answers import answers_file, read_answers
        from agora_lab.label.forms import Tally, labels_of
        from agora_lab.label.plan import read_plan
        from agora_lab.labels import Writer

        tally, trajectories = Tally(), 0
        with Writer(out) as writer:
            for folder in plans:
                read = read_plan(folder)
                for shard in read.shards():
                    present = read_answers(answers_file(answers, shard))
                    labels = labels_of(shard, present, read.settings, tally, form)
                    trajectories += bool(writer.add(shard.case.whole, labels))
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if tally.missing:
        click.echo(f"{tally.missing:,} planned pairs have no answers yet", err=True)
    if not tally.pairs:
        raise click.ClickException(f"no pair of these plans has its answers in {answers}")
    figures = {
        "pairs": tally.pairs,
        "trajectories": trajectories,
        "missing": tally.missing,
        "mean_label": tally.total / tally.pairs,
        "above_half": tally.positive,
        "soft_differs_from_hard": tally.apart,
        "self_disagreement": tally.self_disagreement / tally.pairs,
    }
    click.echo(
        f"{tally.pairs:,} pairs from {trajectories:,} trajectories; mean label "
        f"{figures['mean_label']:.3f}, {tally.positive:,} above 0.5; the soft label differs from "
        f"the hard one in {tally.apart:,}",
        err=write_json(json_out, figures),
    )
