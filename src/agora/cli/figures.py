"""The JSON output of commands: the option `--json`, and the account of an edit."""

import json
from collections.abc import Callable
from typing import Any

import click

from agora.core.compression import Compression

Command = Callable[..., None]
STDOUT = "-"


def json_option(what: str, *, dash: bool = True) -> Callable[[Command], Command]:
    """Return the option `--json FILE`, given to the command as `json_out`.

    With `-` nothing but the JSON goes to standard output; where that has something of its own
    (`dash=False`) a file has to be named.
    """
    said = "; - for standard output." if dash else "."
    return click.option(
        "--json",
        "json_out",
        type=click.Path(dir_okay=False, allow_dash=dash),
        metavar="FILE",
        callback=None if dash else _a_file,
        help=f"Write {what} as JSON{said}",
    )


def write_json(json_out: str | None, value: Any, *, indent: int | None = None) -> bool:
    """Write a value to the file of an option. Return True if that is standard output."""
    if json_out is None:
        return False
    with click.open_file(json_out, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=indent)
        out.write("\n")
    return json_out == STDOUT


def account_of(compression: Compression, name: str) -> dict[str, Any]:
    """Return the decisions on a prompt and their reasons, without the prompt."""
    return {
        "source": name,
        "format": compression.format,
        "changed": compression.changed,
        "reason": str(compression.reason),
        "detail": compression.detail,
        "rule": compression.rule,
        "fallback_level": int(compression.fallback_level),
        "tokens_before": compression.tokens_before,
        "tokens_after": compression.tokens_after,
        "epoch": compression.last_edit,
        "steps": [decision._asdict() for decision in compression.decisions],
    }


def _a_file(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given == STDOUT:
        raise click.BadParameter(
            "standard output has the messages; name a file, or use agora explain --json -",
            ctx,
            param,
        )
    return given
