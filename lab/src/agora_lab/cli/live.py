"""The `agora lab live` command: a real provider, with AGORA and with everything, under a cap."""

from pathlib import Path
from typing import Any

import click

from agora.cli.figures import json_option, write_json
from agora.errors import AgoraError
from agora_lab.cli.progress import progress

_METHODS = ("none", "agora")


@click.command()
@click.option("--url", required=True, help="Base URL of the endpoint, with its /v1.")
@click.option("--model", required=True, metavar="NAME")
@click.option(
    "--shape", type=click.Choice(["openai", "anthropic"]), default="openai", show_default=True
)
@click.option(
    "--key-env",
    default="OPENAI_API_KEY",
    show_default=True,
    help="The environment variable with your key; it is written nowhere.",
)
@click.option(
    "--max-dollars",
    type=click.FloatRange(0, min_open=True),
    required=True,
    help="The cap: each call is counted before it is sent, by the most it may cost.",
)
@click.option(
    "--dollars-per-million",
    nargs=2,
    type=click.FloatRange(0),
    metavar="INPUT OUTPUT",
    help="Prices of a model that has no price sheet.",
)
@click.option("--tasks", type=click.IntRange(1), default=5, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=120, show_default=True)
@click.option("--max-tokens", type=click.IntRange(16), default=512, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/live"),
    show_default=True,
    metavar="FOLDER",
    help="Folder of the run; an existing one is resumed, with what it has spent.",
)
@json_option("both arms, paired by task")
def live(
    *,
    url: str,
    model: str,
    shape: str,
    key_env: str,
    max_dollars: float,
    dollars_per_million: tuple[float, float] | None,
    tasks: int,
    steps: int,
    max_tokens: int,
    out: Path,
    json_out: str | None,
) -> None:
    """Play desk tasks with your model, through AGORA and with everything, paired by task.

    Stop it at any time; the same command resumes it. Several times as much is counted as is
    billed, since each call is counted by its worst case.
    """
    try:
        from agora_lab.agents.live import CAP
        from agora_lab.agents.purse import prices_of
        from agora_lab.evaluate.grid import BackboneEntry, Grid, MethodEntry, checked
        from agora_lab.evaluate.grid_player import LocalGridRun
        from agora_lab.evaluate.live import compared

        sheet = prices_of(model, dollars_per_million)
        out.mkdir(parents=True, exist_ok=True)
        options = {
            "url": url,
            "model": model,
            "shape": shape,
            "key_env": key_env,
            "max_tokens": max_tokens,
            "folder": str(out),
            "dollars_per_million": dollars_per_million,
        }
        (out / CAP).write_text(repr(max_dollars), encoding="utf-8")
        entry = BackboneEntry(name=model, make="agora_lab.agents.live:live_model", options=options)
        grid = checked(
            Grid(
                name=f"live {model}",
                environments=("desk",),
                backbones=(entry,),
                methods=tuple(MethodEntry(name=one, method=one, model=model) for one in _METHODS),
                tasks=tasks,
                steps=steps,
            )
        )
        failed = _play(LocalGridRun(grid, out))
        found = compared(out, sheet)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    taken = write_json(json_out, found)
    for line in _lines(found, max_dollars):
        click.echo(line, err=taken)
    for reason in dict.fromkeys(failed.values()):
        click.echo(f"not played to the end: {reason}", err=True)


def _play(playing: Any) -> dict[str, str]:
    failed: dict[str, str] = {}
    with progress(playing.total, playing.done) as tick:
        for outcome in playing.outcomes():
            if outcome.error:
                failed[outcome.key] = outcome.error
            tick(1, f"{len(failed)} failed" if failed else "")
    return failed


def _lines(found: dict[str, Any], max_dollars: float) -> list[str]:
    counted = f"${found['counted_dollars']:.4f} of ${max_dollars:g} counted"
    said = [f"{found['tasks']} tasks played both ways; {counted} over {found['calls']:,} calls"]
    for name, row in found["figures"].items():
        said.append(
            f"  {name:<8} everything {row['everything']:.4g}, AGORA {row['agora']:.4g}, "
            f"difference {row['difference']['value']:+.4g} "
            f"({row['difference']['low']:+.4g} to {row['difference']['high']:+.4g})"
        )
    if not found["figures"]:
        said.append("  nothing to compare yet: no task was played both ways")
    return said
