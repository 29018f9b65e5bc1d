"""The `agora prices` command."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agora.cli.figures import json_option, write_json
from agora.cli.options import complete_model
from agora.core.prices import (
    FAMILIES,
    UNKNOWN,
    PriceSheet,
    load_sheets,
    sheet_for,
    shipped_sheets,
)
from agora.errors import PriceSheetError

if TYPE_CHECKING:
    from rich.table import Table

OLD_DAYS = 90
"""A sheet older than this is called old: providers change prices every few months."""


@click.command()
@click.argument("models", metavar="[MODEL]...", nargs=-1, shell_complete=complete_model)
@click.option(
    "--prices",
    "own",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with your own price sheets, searched first.",
)
@json_option("the sheets, with the age of each,")
def prices(models: tuple[str, ...], *, own: Path | None, json_out: str | None) -> None:
    """List price sheets: each figure with its source, its date and its age.

    Without MODEL, all shipped sheets are listed. With models, the sheet used for
    each; a prefix says where the model is served (azure/, openrouter/).
    """
    known: dict[str, PriceSheet] = {}
    if own is not None:
        try:
            known = load_sheets(own.read_text(encoding="utf-8"))
        except (PriceSheetError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{own}: {error}") from error
    today = datetime.now(tz=UTC).date()
    if models:
        sheets = [sheet_for(model, known) for model in models]
    else:
        sheets = [*known.values(), *shipped_sheets().values()]
    value = [{**asdict(sheet), "age_days": _age_days(sheet, today)} for sheet in sheets]
    if write_json(json_out, value, indent=1):
        return
    for model, sheet in zip(models, sheets, strict=False):
        if sheet.name in (*FAMILIES, UNKNOWN):
            click.echo(f"{model} has no sheet of its own: priced as {sheet.name}.", err=True)
    _show(sheets, today)


def _show(sheets: Sequence[PriceSheet], today: date) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print("Dollars per million tokens; read and write are shares of the price of input.")
    console.print("A request may ask to keep it longer: `1h 2` is a write at twice the input.")
    groups: dict[tuple[str, str], list[PriceSheet]] = {}
    for sheet in sheets:
        groups.setdefault((sheet.source, sheet.date), []).append(sheet)
    for (source, _), members in groups.items():
        console.print(f"\n{source or 'no source is given'}")
        console.print(dated(members[0], today))
        console.print(_table(members))
        for sheet in members:
            for remark in _remarks(sheet):
                console.print(f"  {sheet.name}: {remark}", style="dim")
    old = sum((_age_days(sheet, today) or 0) > OLD_DAYS for sheet in sheets)
    if old:
        console.print(
            f"\n{old} of {len(sheets)} sheets are more than {OLD_DAYS} days old: upgrade "
            "agora-context, or write [prices.NAME] in your settings."
        )


def _table(sheets: Sequence[PriceSheet]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "input", "output", "read", "write", "kept", "minimum"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for sheet in sheets:
        writes = [f"{sheet.write:g}", *(f"{life.ttl} {life.write:g}" for life in sheet.lifetimes)]
        table.add_row(
            sheet.name,
            f"{sheet.input:g}",
            f"{sheet.output:g}",
            f"{sheet.read:g}",
            ", ".join(writes) if sheet.caches else "-",
            _kept(sheet.ttl_seconds) if sheet.caches else "-",
            f"{sheet.minimum_prefix:,}" if sheet.caches else "-",
        )
    return table


def _remarks(sheet: PriceSheet) -> Iterator[str]:
    for tier in sheet.tiers:
        yield f"above {tier.above:,} tokens: input ×{tier.input:g}, output ×{tier.output:g}"
    if sheet.hit < 1 and sheet.caches:
        yield f"{sheet.hit:.0%} of what is cached is read"
    if sheet.prefill_seconds_per_million:
        yield f"{sheet.prefill_seconds_per_million:g} seconds for a million tokens of prompt"
    if sheet.note:
        yield sheet.note


def dated(sheet: PriceSheet, today: date) -> str:
    """Return the date of a sheet and its age, in words.

    >>> sheet = PriceSheet(name="x", input=1, read=1, write=1, output=1, date="2026-11-01")
    >>> dated(sheet, date(2026, 11, 17)), dated(sheet, date(2027, 3, 1))
    ('2026-11-01, 16 days old', '2026-11-01, 120 days old: prices may have changed')
    """
    age = _age_days(sheet, today)
    if age is None:
        return "no date is given: prices may have changed"
    if age < 0:
        return f"{sheet.date}, which is in the future: is this machine's clock right?"
    old = ": prices may have changed" if age > OLD_DAYS else ""
    days = f"{age} day{'' if age == 1 else 's'} old" if age else "today"
    return f"{sheet.date}, {days}{old}"


def _age_days(sheet: PriceSheet, today: date) -> int | None:
    """Return the days since a sheet was compared with its source, or None without a date."""
    try:
        return (today - date.fromisoformat(sheet.date)).days
    except ValueError:
        return None


def _kept(seconds: float) -> str:
    """Return a time to live in words.

    >>> _kept(300), _kept(86_400), _kept(0)
    ('5 min', '24 h', '-')
    """
    if not seconds:
        return "-"
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"
