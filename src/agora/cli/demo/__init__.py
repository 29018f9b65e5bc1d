"""The `agora demo` command: a recorded session for users without logs."""

from importlib.resources import files
from pathlib import Path

import click

SESSION = "session.json"


@click.command()
@click.argument(
    "folder",
    default="agora-demo",
    metavar="[FOLDER]",
    type=click.Path(file_okay=False, path_type=Path),
)
@click.pass_context
def demo(ctx: click.Context, folder: Path) -> None:
    """Write a recorded coding session and its pages into FOLDER, to look at.

    The session is a real one: an agent finds out why a test of this project
    passes on one machine and fails on another, in 37 commands. FOLDER is
    agora-demo if not given. Nothing is sent anywhere.
    """
    from agora.cli.explain import explain
    from agora.cli.replay import replay

    folder.mkdir(parents=True, exist_ok=True)
    session = folder / SESSION
    session.write_bytes(recorded())
    explained, replayed = folder / "explain.html", folder / "replay.html"
    click.echo("The last prompt of the session, before and after its edit, in tokens:")
    ctx.invoke(explain, source=str(session), html=explained, json_out=None)
    click.echo("\nThe dollars of all its calls, most of whose tokens the provider had cached:")
    ctx.invoke(replay, paths=(session,), html=replayed)
    click.echo(
        f"\nOpen {explained} and {replayed} in a browser. Then try your own logs:\n"
        f"  agora explain {session}\n"
        "  agora replay ~/.claude/projects --html replay.html"
    )


def recorded() -> bytes:
    """Return the recorded session: an OpenAI chat request with 37 steps."""
    return (files(__package__) / SESSION).read_bytes()
