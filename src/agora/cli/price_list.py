"""Price sheets as a list to read: each figure with where it comes from and how old it is."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from textwrap import wrap
from typing import Any

from agora.core.prices import PriceSheet

OLD_DAYS = 90
"""From this age on a figure is said to be old: providers change prices every few months."""
WIDTH = 80
_HEAD = ("", "input", "output", "read", "write", "kept", "minimum")
_WIDTHS = (25, 7, 8, 8, 16, 8, 8)


def age_days(sheet: PriceSheet, today: date) -> int | None:
    """Return how many days ago a sheet was held against its source, None if it does not say."""
    try:
        return (today - date.fromisoformat(sheet.date)).days
    except ValueError:
        return None


def lines(sheets: Sequence[PriceSheet], today: date) -> Iterator[str]:
    """Yield the sheets as lines of at most `WIDTH` columns, under the source they share."""
    yield "Dollars per million tokens; read and write are shares of the price of input."
    yield "A request may ask to keep it longer: `1h 2` is a write at twice the input."
    groups: dict[tuple[str, str], list[PriceSheet]] = {}
    for sheet in sheets:
        groups.setdefault((sheet.source, sheet.date), []).append(sheet)
    for (source, _), found in groups.items():
        yield ""
        yield from wrap(source or "no source is given", WIDTH)
        yield dated(found[0], today)
        yield _row(_HEAD)
        for sheet in found:
            yield from _rows(sheet)
    old = [sheet.name for sheet in sheets if (age_days(sheet, today) or 0) > OLD_DAYS]
    if old:
        yield ""
        said = f"{len(old)} of {len(sheets)} sheets are more than {OLD_DAYS} days old: upgrade "
        yield from wrap(said + "agora-context, or write [prices.NAME] in your settings.", WIDTH)


def dated(sheet: PriceSheet, today: date) -> str:
    """Return the date of a sheet and its age, in words.

    >>> sheet = PriceSheet(name="x", input=1, read=1, write=1, output=1, date="2026-11-01")
    >>> dated(sheet, date(2026, 11, 17)), dated(sheet, date(2027, 3, 1))
    ('2026-11-01, 16 days old', '2026-11-01, 120 days old: prices may have changed')
    """
    age = age_days(sheet, today)
    if age is None:
        return "no date is given: prices may have changed"
    if age < 0:
        return f"{sheet.date}, which is in the future: is this machine's clock right?"
    old = ": prices may have changed" if age > OLD_DAYS else ""
    days = f"{age} day{'' if age == 1 else 's'} old" if age else "today"
    return f"{sheet.date}, {days}{old}"


def value(sheet: PriceSheet, today: date) -> dict[str, Any]:
    """Return a sheet as JSON, with its age."""
    return {**asdict(sheet), "age_days": age_days(sheet, today)}


def kept(seconds: float) -> str:
    """Return a time to live in words.

    >>> kept(300), kept(86_400), kept(0)
    ('5 min', '24 h', '-')
    """
    if not seconds:
        return "-"
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"


def _rows(sheet: PriceSheet) -> Iterator[str]:
    writes = [f"{sheet.write:g}", *(f"{life.ttl} {life.write:g}" for life in sheet.lifetimes)]
    yield _row(
        (
            sheet.name,
            f"{sheet.input:g}",
            f"{sheet.output:g}",
            f"{sheet.read:g}",
            ", ".join(writes) if sheet.caches else "-",
            kept(sheet.ttl_seconds) if sheet.caches else "-",
            f"{sheet.minimum_prefix:,}" if sheet.caches else "-",
        )
    )
    for tier in sheet.tiers:
        yield f"  above {tier.above:,} tokens: input ×{tier.input:g}, output ×{tier.output:g}"
    if sheet.hit < 1 and sheet.caches:
        yield f"  {sheet.hit:.0%} of what is cached is read"
    if sheet.prefill_seconds_per_million:
        yield f"  {sheet.prefill_seconds_per_million:g} seconds for a million tokens of prompt"
    yield from (f"  {line}" for line in wrap(sheet.note, WIDTH - 2))


def _row(cells: Sequence[str]) -> str:
    first, *rest = zip(cells, _WIDTHS, strict=True)
    return (first[0].ljust(first[1]) + "".join(cell.rjust(width) for cell, width in rest)).rstrip()
