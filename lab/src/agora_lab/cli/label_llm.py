"""The `agora label` commands that use a language model: plan, run, make."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.cli.figures import json_option, write_json
from agora.core.prices import UNKNOWN, sheet_for
from agora.errors import AgoraError
from agora_lab.cli.label_sources import Wanted, index_option, log_kind_option, read_cases

if TYPE_CHECKING:
    from agora_lab.label.answered_pairs import AnsweredCase
    from agora_lab.label.answers import Answered
    from agora_lab.label.plan import PlanSettings, Summary

_KINDS = ("counterfactual", "likelihood")

_plans = click.argument(
    "plans",
    nargs=-1,
    required=True,
    metavar="PLANS...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
_answers = click.option(
    "--answers",
    multiple=True,
    required=True,
    metavar="FOLDER",
    type=click.Path(exists=True, path_type=Path),
    help="Folder written by `agora label run`; repeatable. Answers are matched by content.",
)


@click.command()
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCES...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder to write the plan to; must not hold one already.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(_KINDS),
    multiple=True,
    default=("counterfactual",),
    show_default=True,
    help="Kind of label to ask for; repeat the option for both.",
)
@click.option("--backbone", required=True, metavar="NAME", help="Model to ask.")
@click.option(
    "--revision", default="", metavar="TEXT", help="Version of the weights, e.g. their SHA-256."
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="Samples per prompt; the paper's K = 8 is 4 with the step and 4 without.",
)
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), default=48, show_default=True)
@click.option("--stop", multiple=True, metavar="TEXT", help=r"Stop sequence; \n is a newline.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--k-recent", type=click.IntRange(0), default=2, show_default=True)
@click.option("--trajectories", type=click.IntRange(1), help="Most trajectories per source.")
@click.option("--anchors", type=click.IntRange(1), help="Most anchors per trajectory.")
@click.option("--candidates", type=click.IntRange(1), help="Most candidates per anchor.")
@click.option("--longest", type=click.IntRange(1), metavar="TOKENS", help="Longest prompt.")
@click.option(
    "--world", default="", metavar="NAME", help="Environment whose actions the logs hold, if any."
)
@click.option(
    "--any-split", is_flag=True, help="Accept runs on the test split; do not train on the result."
)
@log_kind_option
@click.option(
    "--price", metavar="MODEL", help="Model whose prices to use.  [default: the backbone]"
)
@click.option(
    "--prompt-rate",
    type=float,
    metavar="TOKENS/S",
    help="Prompt tokens your server reads per second.",
)
@click.option(
    "--output-rate", type=float, metavar="TOKENS/S", help="Tokens your server writes per second."
)
@index_option
@json_option("the counts and costs")
def plan(
    sources: tuple[Path, ...],
    out: Path,
    kinds: tuple[Any, ...],
    stop: tuple[str, ...],
    trajectories: int | None,
    world: str,
    any_split: bool,
    log_kind: str | None,
    index: int | None,
    price: str | None,
    prompt_rate: float | None,
    output_rate: float | None,
    json_out: str | None,
    **given: Any,
) -> None:
    """Plan what to ask a language model, and estimate the cost. Nothing is asked.

    SOURCES are runs of `agora lab play` and logs as `agora replay` reads them.
    For each action, every past step but the newest ones is left out once.
    """
    try:
        from agora_lab.label.plan import PlanSettings, write_plan

        settings = PlanSettings(
            kinds=tuple(dict.fromkeys(kinds)),
            stop=tuple(one.replace("\\n", "\n") for one in stop),
            **given,
        )
        wanted = Wanted(
            world=world,
            any_split=any_split,
            log_kind=log_kind,
            index=index,
            most=trajectories,
            seed=settings.seed,
        )
        summary = write_plan(out, read_cases(sources, wanted), settings)
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    rates = (prompt_rate, output_rate) if prompt_rate and output_rate else None
    costs = _costs(summary, price or settings.backbone, rates)
    taken = write_json(json_out, {"plan": str(out), **asdict(summary), **costs})
    for line in _plan_in_words(summary, settings, costs):
        click.echo(line, err=taken)
    click.echo(f"Plan: {out}", err=taken)


def _costs(
    summary: "Summary", model: str, rates: tuple[float, float] | None
) -> dict[str, float | str]:
    """Return dollars where the model has prices, and hours where a server's rates are known."""
    costs: dict[str, float | str] = {}
    sheet = sheet_for(model)
    if sheet.name != UNKNOWN:
        plain, used = summary.dollars(sheet)
        costs |= {"sheet": sheet.name, "dollars": plain, "dollars_with_caching": used}
    if rates:
        costs["hours"] = summary.hours(prompt_rate=rates[0], output_rate=rates[1])
    return costs


def _plan_in_words(
    summary: "Summary", settings: "PlanSettings", costs: Mapping[str, float | str]
) -> Iterator[str]:
    yield (
        f"{summary.pairs:,} pairs ({' and '.join(settings.kinds)}) of {summary.anchors:,} anchors "
        f"in {summary.trajectories:,} trajectories; {summary.passed_over:,} trajectories had none"
    )
    yield f"{summary.calls:,} calls; {summary.shared:,} duplicate calls are left out"
    share = summary.new_tokens / max(summary.prompt_tokens, 1)
    yield (
        f"about {summary.prompt_tokens:,} prompt tokens, {summary.new_tokens:,} ({share:.0%}) of "
        f"them uncached on a server that caches the previous prompt, and {summary.output_tokens:,} "
        "written"
    )
    if "sheet" in costs:
        yield (
            f"${costs['dollars']:,.2f} at the prices of {costs['sheet']}, "
            f"${costs['dollars_with_caching']:,.2f} with prefix caching"
        )
    if "hours" in costs:
        yield f"{costs['hours']:,.1f} hours on one such server"


@click.command()
@click.argument("plan", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder to write answers to; an existing one is resumed.",
)
@click.option("--url", required=True, metavar="URL", help="Base URL of the server, with /v1.")
@click.option(
    "--model", metavar="NAME", help="The server's name for the model.  [default: the plan's]"
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Concurrent requests. With one slot, a llama.cpp server keeps its cache warm at 1 or 2.",
)
@click.option("--askers", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--key-variable",
    default="",
    metavar="NAME",
    help="Environment variable that holds the API key.",
)
@click.option("--price", metavar="MODEL", help="Model whose prices to use.  [default: the model]")
@click.option(
    "--ray",
    "ray_address",
    metavar="ADDRESS",
    help="Ray cluster to run on.  [default: this machine]",
)
@json_option("the counts")
def run(
    plan: Path,
    out: Path,
    url: str,
    model: str | None,
    concurrency: int,
    askers: int,
    key_variable: str,
    price: str | None,
    ray_address: str | None,
    json_out: str | None,
) -> None:
    """Ask a language model the questions of PLAN. Stop it at any time; the same command resumes it.

    The exit code is 0 only when every question has been answered.
    """
    try:
        from agora_lab.label.asking import Backbone
        from agora_lab.label.on_ray import run_plan
        from agora_lab.label.plan import read_plan

        named = model or read_plan(plan).settings.backbone
        sheet = sheet_for(price or named)
        with _watch() as report:
            outcome = run_plan(
                plan,
                out,
                Backbone(
                    address=url,
                    model=named,
                    key_variable=key_variable,
                ),
                concurrency=concurrency,
                askers=askers,
                sheet=None if sheet.name == UNKNOWN else sheet,
                report=report,
                ray_options={"address": ray_address} if ray_address else None,
            )
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    figures = {**asdict(outcome), "complete": outcome.complete}
    click.echo(str(outcome), err=write_json(json_out, figures))
    if not outcome.complete:
        raise click.exceptions.Exit(1)


class _watch:  # noqa: N801 - used as a function
    """Shows a run's progress: one line that changes on a terminal, a line a minute elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = self._console.status("starting")
        self._next_s = 0.0

    def __enter__(self) -> Any:
        if self._console.is_terminal:
            self._status.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def _report(self, progress: Any) -> None:
        if self._console.is_terminal:
            self._status.update(str(progress))
        elif progress.seconds >= self._next_s:
            self._next_s = progress.seconds + 60
            click.echo(str(progress), err=True)


@click.command()
@_plans
@_answers
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Parquet file for the labels. Trajectories go to FILE.trajectories.parquet next to it.",
)
@click.option("--kind", type=click.Choice(_KINDS), default="counterfactual", show_default=True)
@json_option("the counts")
def make(
    plans: tuple[Path, ...],
    answers: tuple[Path, ...],
    out: Path,
    kind: str,
    json_out: str | None,
) -> None:
    """Make labels for `agora train` from the answers."""
    pairs = missing = trajectories = 0
    total = needed = 0.0
    try:
        from agora_lab.label.counterfactual import canonical, counterfactual
        from agora_lab.label.likelihood import likelihood
        from agora_lab.labels import Label, Writer

        # Two plans may ask about the same trajectory, which must be written only once.
        found: dict[str, tuple[Any, dict[tuple[int, int], Label]]] = {}
        for answered in _answered(plans, _known(answers)):
            made = (
                likelihood(answered)
                if kind == "likelihood"
                else counterfactual(answered, canonical(answered.case.world))
            )
            missing += answered.missing_scores if kind == "likelihood" else answered.missing_samples
            _, labels = found.setdefault(answered.case.data, (answered.case.whole, {}))
            for one in made:
                labels.setdefault((one.anchor, one.candidate), one)
        with Writer(out) as writer:
            for whole, labels in found.values():
                written = writer.add(whole, [labels[place] for place in sorted(labels)])
                pairs += written
                trajectories += bool(written)
                total += sum(one.label for one in labels.values())
                needed += sum(one.label >= 0.5 for one in labels.values())
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if missing:
        click.echo(f"{missing:,} planned pairs have no answer yet", err=True)
    if not pairs:
        raise click.ClickException(f"no pair in these plans has answers for {kind}")
    figures = {
        "pairs": pairs,
        "trajectories": trajectories,
        "missing": missing,
        "mean_label": total / pairs,
        "needed": int(needed),
    }
    click.echo(
        f"{pairs:,} pairs from {trajectories:,} trajectories; mean label {total / pairs:.3f}, "
        f"{needed / pairs:.1%} of them 0.5 or more",
        err=write_json(json_out, figures),
    )


def _answered(plans: Iterable[Path], known: "Mapping[bytes, Answered]") -> Iterator["AnsweredCase"]:
    """Return the cases of the plans with their answers, whichever folder holds them."""
    from agora_lab.label.answered_pairs import match_answers
    from agora_lab.label.plan import read_plan

    for folder in plans:
        found = read_plan(folder)
        yield from match_answers(found.cases(), known, found.settings)


def _known(answers: Iterable[Path]) -> "dict[bytes, Answered]":
    from agora_lab.label.answered_pairs import by_key
    from agora_lab.label.answers import read_answers

    return by_key(read_answers(answers))
