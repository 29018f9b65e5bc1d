"""The `agora validate` command."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from agora.adapters import FORMATS, Broken
from agora.cli.figures import json_option, write_json
from agora.cli.options import source_options
from agora.cli.source import Source, read_source
from agora.core.reading.cutting import printable

_ONLY_RULES = ("mistral", "deepseek")
"""Dialects of chat completions: they have rules of their own and are compressed as `openai`."""
_LOOK_BACK = frozenset(("R2",))
"""Rules about items that may be with the provider, where it keeps earlier ones."""


@click.command()
@source_options((*FORMATS, *_ONLY_RULES))
@click.option("--strict", is_flag=True, help="Also check rules that only some models enforce.")
@json_option("the broken rules")
def validate(
    source: str, format: str | None, log_index: int | None, strict: bool, json_out: str | None
) -> None:
    """List the provider's rules that the messages in SOURCE break.

    The exit code is 0 when they are legal, 1 when they are not, and 2 when
    SOURCE cannot be read.
    """
    import agora

    read = read_source(source, format=format, log_index=log_index)
    for note in read.notes:
        click.echo(note, err=True)
    request = read.request
    broken = agora.validate(
        request.messages,
        format=request.format,
        system=request.system,
        tools=request.tools,
        thinking=request.thinking,
        strict=strict,
    )
    if request.server_side:
        broken = [rule for rule in broken if rule.code not in _LOOK_BACK]
    taken = write_json(json_out, _figures(broken, read))
    if not broken:
        click.echo(f"legal: {_what(read)}", err=taken)
        return
    if taken:
        raise click.exceptions.Exit(1)
    if sys.stdout.isatty():
        _show_table(broken, read)
    else:
        for rule in broken:
            click.echo(printable(f"{rule}{_strictly(rule)}"))
    raise click.exceptions.Exit(1)


def _figures(broken: Sequence[Broken], read: Source) -> dict[str, Any]:
    messages = read.request.messages
    return {
        "source": read.name,
        "format": read.request.format,
        "messages": len(messages) if isinstance(messages, list) else None,
        "legal": not broken,
        "broken": [
            {
                "rule": rule.code,
                "position": rule.position,
                "error": rule.error,
                "strict": rule.strict,
            }
            for rule in broken
        ],
    }


def _what(read: Source) -> str:
    messages = read.request.messages
    if isinstance(messages, list):
        noun = "message" if len(messages) == 1 else "messages"
        return f"{len(messages):,} {noun}, {read.request.format}"
    return f"a text, {read.request.format}"


def _strictly(rule: Broken) -> str:
    return " (some models only)" if rule.strict else ""


def _show_table(broken: Sequence[Broken], read: Source) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("rule", no_wrap=True)
    table.add_column("message", no_wrap=True)
    table.add_column("what the provider says", overflow="fold")
    for rule in broken:
        style = "yellow" if rule.strict else "red"
        table.add_row(
            Text(rule.code, style),
            Text(_place(rule, read)),
            Text(printable(f"{rule.error}{_strictly(rule)}")),
        )
    console.print(Text.assemble(("illegal", "bold red"), f": {_what(read)}"))
    console.print(table)


def _place(rule: Broken, read: Source) -> str:
    """Return where a rule is broken: the message's position, and whose it is."""
    if rule.position < 0:
        return "system"
    messages = read.request.messages
    message = messages[rule.position] if isinstance(messages, list) and messages else None
    if not isinstance(message, dict):
        return str(rule.position)
    who = message.get("role") or message.get("type")
    return printable(f"{rule.position} {who}") if isinstance(who, str) else str(rule.position)
