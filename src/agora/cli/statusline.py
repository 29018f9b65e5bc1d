"""The `agora statusline` command."""

import json
import os
import sys
from contextlib import suppress

import click


@click.command()
def statusline() -> None:
    """Print the savings so far, for Claude Code's status line.

    Claude Code runs it after each answer, with its JSON on standard input. In
    ~/.claude/settings.json:

    \b
        {"statusLine": {"type": "command", "command": "agora statusline"}}

    In a session of `agora wrap claude` the line has the dollars saved, the calls
    and the share of the prompts that was read from the provider's cache.
    Elsewhere it says that nothing is compressed. It never fails: an error would
    leave the status line empty.
    """  # noqa: D301 - the mark that keeps click from joining the lines
    told: object = None
    with suppress(ValueError, OSError, RecursionError):
        told = json.load(sys.stdin)
    try:
        from agora.wrapping.status import session_of, status

        line = status(session_of(os.environ), told)
    except Exception as error:  # The status line itself shows it.
        line = f"agora: no figures ({type(error).__name__})"
    click.echo(line)
