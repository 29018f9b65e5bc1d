"""The `agora report` command."""

import json
import os
from pathlib import Path

import click

from agora.gateway.config import ConfigError
from agora.wrapping.doctor import examine
from agora.wrapping.report import bundle
from agora.wrapping.settings import Tables, find, read


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    default="agora-report.json",
    show_default=True,
    help="Where to write it; - is standard output.",
)
@click.option(
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take settings from this file instead of ./agora.toml or ~/.config/agora/agora.toml.",
)
def report(out: Path, settings: Path | None) -> None:
    """Write a report about this installation, to attach to an issue.

    It has versions, your settings without their texts, the names of variables
    that are set, and what `agora doctor` found. Nothing is sent anywhere. No
    prompt, key, address or name of yours is in it: only what is known to be
    AGORA's own gets in. Read it before you share it.
    """
    home, here = Path.home(), Path.cwd()
    tables: Tables | None = None
    try:
        tables = read(settings or find(here, home, os.environ))
    except ConfigError:
        click.echo("The settings cannot be read; agora doctor says why.", err=True)
    found = bundle(tables, os.environ, examine(os.environ, home, here, settings))
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if str(out) == "-":
        click.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    click.echo(f"Written: {out}. Read it, then attach it to your issue.")
