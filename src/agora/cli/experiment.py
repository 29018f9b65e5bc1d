"""The `agora experiment` commands: begin one, look at it, end it."""

import re
import time
from pathlib import Path
from typing import Any

import click

from agora.cli.figures import json_option, write_json
from agora.errors import AgoraError
from agora.experiment import store
from agora.experiment.planning import conversations_needed
from agora.experiment.report import lines, report
from agora.experiment.rules import alpha_each, parse_rule
from agora.gateway.config import Config, load_config, parse_config
from agora.pages import write_page

_MODE = re.compile(r"^mode\s*=.*$", re.MULTILINE)
_COMPRESSION = re.compile(r"^\[compression\][^\n]*\n", re.MULTILINE)
_TABLE = re.compile(r"^\[", re.MULTILINE)
_EXPERIMENT = re.compile(r"^\[experiment\]", re.MULTILINE)

config_argument = click.argument(
    "config",
    default="gateway.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="[CONFIG]",
)


@click.group()
def experiment() -> None:
    """Compare AGORA with sending everything on your own traffic, and stop if it does harm.

    CONFIG is the gateway's file. docs/guides/experiment.md has all the steps: shadow mode, an
    experiment, then on.
    """


@experiment.command()
@config_argument
@click.option("--folder", type=click.Path(path_type=Path), help="Folder for its figures.")
@click.option("--name", help="Its name; another name draws different arms.")
@click.option(
    "--share",
    type=click.FloatRange(0, 50, min_open=True),
    default=5.0,
    show_default=True,
    help="Percent of the conversations that are edited; as many are compared with them.",
)
@click.option(
    "--effect",
    type=click.FloatRange(0.1, 95),
    default=10.0,
    show_default=True,
    help="The effect to plan for, in percent of the mean.",
)
@click.option(
    "--spread",
    type=click.FloatRange(0.05, 20),
    default=1.0,
    show_default=True,
    help="The standard deviation of the figure, as a ratio to its mean.",
)
@click.option("--per-day", type=click.IntRange(min=1), help="Conversations per day.")
def start(
    config: Path,
    *,
    folder: Path | None,
    name: str | None,
    share: float,
    effect: float,
    spread: float,
    per_day: int | None,
) -> None:
    """Add an experiment to CONFIG, and say how many conversations it needs.

    A running gateway starts it at SIGHUP. An experiment that was stopped is resumed.
    """
    loaded = _load(config)
    if loaded.compression.mode == "experiment" and loaded.experiment.folder is not None:
        store.resume(Path(loaded.experiment.folder))
        click.echo(f"{config} already has an experiment, and it runs. Change its share there.")
        return
    if folder is None:
        raise click.UsageError("--folder is missing: the folder for the experiment's figures")
    text = config.read_text(encoding="utf-8")
    if _EXPERIMENT.search(text):
        raise click.ClickException(
            f"{config} has an [experiment] that is not in use: remove the table, or write "
            'mode = "experiment" under [compression]'
        )
    name = name or time.strftime("experiment-%Y-%m-%d")
    written = with_experiment(text, name=name, folder=folder, share=share / 100)
    try:
        rules = parse_config(written, file=str(config)).experiment.stop_when
    except AgoraError as error:
        raise click.ClickException(f"nothing was written: {error}") from error
    config.write_text(written, encoding="utf-8")
    click.echo(f"{config}: {name} edits {share:g} % of the conversations and compares as many.")
    click.echo(f"It stops by itself at: {', '.join(rules)}.")
    click.echo(_plan(effect, spread, len(rules), share, per_day))
    click.echo("Set AGORA_TENANT_SECRET, the same for all replicas, and send the gateway SIGHUP.")


@experiment.command()
@config_argument
def status(config: Path) -> None:
    """Print the state of an experiment in one line; the exit code is 1 if it is stopped."""
    found = _report(config, ())
    counts = " + ".join(f"{count:,} {arm}" for arm, count in found["conversations"].items())
    verdicts = ", ".join(f"{each['bound']} {each['verdict']}" for each in found["bounds"])
    state = f"stopped ({found['stopped']})" if found["stopped"] else "running"
    click.echo(f"{found['name']}: {state}; {counts} conversations; {verdicts}")
    if found["stopped"]:
        raise SystemExit(1)


@experiment.command("report")
@config_argument
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of another replica to include; may be repeated.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report as an HTML page that fetches nothing.",
)
@json_option("the report")
def report_command(
    config: Path, *, folders: tuple[Path, ...], html: Path | None, json_out: str | None
) -> None:
    """Show both arms, figure by figure, with intervals that hold however often you look."""
    found = _report(config, folders)
    if html is not None:
        page = write_page("agora.cli", "experiment_page.html", found)
        html.write_text(page, encoding="utf-8")
    taken = write_json(json_out, found)
    for line in lines(found):
        click.echo(line, err=taken)


@experiment.command()
@config_argument
@click.option("--reason", default="stopped by hand", show_default=True, help="Why, for the log.")
def stop(config: Path, *, reason: str) -> None:
    """Turn editing off within seconds, in all processes that share the folder. No restart."""
    folder = _folder(config, _load(config))
    store.stop(folder, reason)
    click.echo(f"stopped: {reason}. `agora experiment start {config}` goes on with it.")


def with_experiment(text: str, *, name: str, folder: Path, share: float) -> str:
    r"""Return a gateway's file with an experiment in it; all else stays as it was written.

    >>> text = "[compression]\nmode = 'shadow'\n"
    >>> print(with_experiment(text, name="e", folder=Path("f"), share=0.05))
    [compression]
    mode = "experiment"
    <BLANKLINE>
    [experiment]
    name = "e"
    folder = "f"
    share = 0.05
    <BLANKLINE>
    """
    mode = 'mode = "experiment"'
    found = _COMPRESSION.search(text)
    if found is None:
        text = f"{text.rstrip()}\n\n[compression]\n{mode}\n"
    else:
        ends = _TABLE.search(text, found.end())
        end = ends.start() if ends else len(text)
        table = text[found.end() : end]
        told = _MODE.sub(mode, table, count=1) if _MODE.search(table) else f"{mode}\n{table}"
        text = text[: found.end()] + told + text[end:]
    table = f"[experiment]\nname = {_quoted(name)}\nfolder = {_quoted(str(folder))}\n"
    return f"{text.rstrip()}\n\n{table}share = {share:g}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plan(effect: float, spread: float, rules: int, share: float, per_day: int | None) -> str:
    needed = conversations_needed(effect / 100, spread, alpha_each(rules))
    if needed is None:
        return "No number of conversations can show an effect this small."
    said = (
        f"It takes about {needed:,} conversations in both arms together to see an effect of "
        f"{effect:g} % in four of five experiments, if the standard deviation is {spread:g} times "
        "the mean."
    )
    if per_day is not None:
        days = needed / (per_day * 2 * share / 100)
        said += f" At {per_day:,} a day that is {days:,.1f} days."
    return said


def _report(config: Path, folders: tuple[Path, ...]) -> dict[str, Any]:
    loaded = _load(config)
    folder = _folder(config, loaded)
    try:
        accounts = [store.read_account(each) for each in (folder, *folders)]
        rules = [parse_rule(text) for text in loaded.experiment.stop_when]
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    return report(accounts, rules, store.stopped(folder))


def _load(config: Path) -> Config:
    try:
        return load_config(config)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


def _folder(config: Path, loaded: Config) -> Path:
    if loaded.experiment.folder is None:
        raise click.ClickException(
            f"{config} has no experiment: `agora experiment start {config} --folder DIR` writes one"
        )
    return Path(loaded.experiment.folder)
