"""The `agora` group, which loads each command on demand."""

import importlib
import logging
from importlib.metadata import EntryPoint, entry_points

import click

import agora as package
from agora.errors import MissingExtraError, install_command, nearest

_COMMANDS = {
    "compress": "Print messages or a request body, compressed.",
    "demo": "Write a recorded session with its report pages, to try AGORA on.",
    "doctor": "Check this machine for `agora wrap`; every problem comes with its remedy.",
    "experiment": "Compare AGORA with sending everything, from the log.",
    "proxy": "Run a proxy on this machine that shortens your agents' prompts.",
    "filter": "Run AGORA as an external processor for Envoy.",
    "explain": "Show what happens to every step, and why.",
    "prices": "List price sheets, each figure with its source and age.",
    "replay": "Show what AGORA would have elided and saved on your logs.",
    "serve": "Run Envoy with the filter on this machine: one base URL for every agent.",
    "statusline": "Print the savings so far, for Claude Code's status line.",
    "wrap": "Run a coding agent through AGORA.",
}

_INTERRUPTED = 130


_LAB = {
    "lab": "Play episodes and compare methods on real environments.",
    "label": "Label which past steps were needed, for training a scorer.",
    "train": "Train your own scorer on labels.",
}
"""Commands of the distribution `agora-lab`, for a message if it is not installed."""
WORDS = {**_COMMANDS, **_LAB}
"""The summary of each command, installed or not."""
GROUP = "agora.commands"
"""The group of entry points by which other distributions add commands."""


class _LazyGroup(click.Group):
    """Lists its commands without importing them, so that help and completion are quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS.keys() | _added().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        added = _added()
        try:
            if cmd_name in _COMMANDS:
                command = getattr(importlib.import_module(f"agora.cli.{cmd_name}"), cmd_name)
            elif cmd_name in added:
                command = added[cmd_name].load()
            elif cmd_name in _LAB:
                raise click.ClickException(
                    f"`agora {cmd_name}` is part of another package: "
                    f"{install_command(distribution='agora-lab')}"
                )
            else:
                return None
        except MissingExtraError as error:
            raise click.ClickException(str(error)) from error
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = nearest(args[0], self.list_commands(ctx))
        if near and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}{near}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Ctrl-C ends it with the exit code that shells expect.

        Report a file that cannot be read or written as a message, not as a traceback.
        """
        try:
            return super().invoke(ctx)
        except click.Abort:
            click.echo("Aborted!", err=True)
            ctx.exit(_INTERRUPTED)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror or error}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        added = _added()
        rows = [
            (name, WORDS.get(name) or f"Added by {_origin(added[name])}.")
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _added() -> dict[str, EntryPoint]:
    """Return the commands of other distributions by name, without those that exist here."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: point for name, point in found.items() if name not in _COMMANDS}


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="agora")
def agora() -> None:
    """Cut the input bill of LLM agents by shortening old steps of the prompt.

    SOURCE is a file, or - for standard input: chat messages or a whole request
    body as JSON, or a role-marker transcript. The format is detected.
    """
    # The commands report the library's warnings themselves.
    logging.getLogger("agora").addHandler(logging.NullHandler())
