"""The `agora lab` commands: play episodes, report on them, inspect one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agora import AgoraError
from agora_lab.cli.evaluate import COMMANDS
from agora_lab.cli.fidelity import COMMANDS as FIDELITY
from agora_lab.cli.scoreboard import COMMANDS as SCOREBOARD

if TYPE_CHECKING:
    from agora_lab.episodes import Episode


@click.group()
def lab() -> None:
    """Compare ways to shorten prompts on real environments."""


for _command in (*COMMANDS, *FIDELITY, *SCOREBOARD):
    lab.add_command(_command)


@lab.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("task", required=False)
@click.option(
    "--step", type=click.IntRange(1), help="Show the whole prompt the backbone saw at this step."
)
def show(run: Path, task: str | None, step: int | None) -> None:
    """Print an episode of RUN in readable form.

    TASK is a task id or a prefix of one; without it, all episodes are listed.
    """
    from agora_lab.episodes import read_episodes

    try:
        episodes = [one for one in read_episodes(run) if task is None or one.task.startswith(task)]
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not episodes:
        raise click.ClickException(f"no episode of {task!r} in {run}")
    if task is None:
        for one in episodes:
            click.echo(
                f"{one.reward:5.2f}  {len(one.moves):3} steps  {one.ended:5}  {one.cell.method:18} "
                f"{one.task}"
            )
        return
    for one in episodes:
        _show(one, step)


def _show(episode: "Episode", step: int | None) -> None:
    from agora_lab.chats import message_text

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
