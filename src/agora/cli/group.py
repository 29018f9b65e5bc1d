"""The `agora` group: which commands there are, each loaded when it is asked for."""

import importlib
import logging

import click

import agora as package
from agora.errors import MissingExtraError

_COMMANDS = {
    "compress": "Print messages or a request body, compressed.",
    "explain": "Draw what becomes of every step, and why.",
    "lab": "Play episodes and compare methods on real environments.",
    "label": "Find out which past steps were needed, for training a scorer.",
    "replay": "Tell what would have been elided and saved on your logs.",
    "scorer": "Compare scorers on labels of your own.",
    "serve": "Run the gateway: one base URL for every agent.",
    "top": "Watch a running gateway.",
    "train": "Train a scorer of your own on labels.",
    "validate": "List the provider's rules that messages break.",
}


class _LazyGroup(click.Group):
    """Lists its commands without importing them, so that help and completion are quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        try:
            command = getattr(importlib.import_module(f"agora.cli.{cmd_name}"), cmd_name)
        except MissingExtraError as error:
            raise click.ClickException(str(error)) from error
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="agora")
def agora() -> None:
    """Shorten what an LLM agent sends to its model, by whole steps.

    SOURCE is a file or - for standard input: chat messages, a whole request
    body (both as JSON), a role-marker transcript or ReAct text. The format is
    found out.
    """
    # What the library would log, the commands say themselves.
    logging.getLogger("agora").addHandler(logging.NullHandler())
