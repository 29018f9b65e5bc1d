"""A replay's report for the terminal: the files, the bill, and three lines to pass on."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from agora.core.action_lines import printable
from agora.replay.report import Unit
from agora.replay.run import OWN
from agora.replay.simulate import Policy

_PLAIN_WIDTH = 100
"""Columns if the output is not a terminal."""
_SHOWN = 3
"""How many reasons and examples of each kind are shown; all are on the page and in the JSON."""
_MOMENTS = {
    "free": "when the cache was gone anyway",
    "warm": "by edits that paid for the rewritten cache",
    "window": "when the window was full",
    "every call": "at every call",
}


def show(report: dict[str, Any], *, to_stderr: bool) -> None:
    """Print the files that were read, the bill, the problems, and the verdict in three lines."""
    console = Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    read = report["input"]
    console.print(
        f"{_many(report['trajectories'], 'trajectory', 'trajectories')}, "
        f"{_many(report['steps'], 'step')}, {_many(report['calls'], 'call')} "
        f"in {_many(read['files'], 'file')} ({_size(read['bytes'])})\n"
    )
    for text, style in _problems(report):
        console.print(printable(text), style=style, soft_wrap=True)
    if not report["trajectories"]:
        return
    first = next(iter(report["totals"]))
    console.print(_bill(report, first))
    console.print()
    for text in _facts(report, first):
        console.print(printable(text), style="dim")
    for text in _warnings(report, first):
        console.print(printable(text), style="yellow")
    if len(report["totals"]) > 1:
        console.print()
        console.print(_by_sheet(report))
    console.print()
    for text in verdict(report, first):
        console.print(text, style="bold")


def verdict(report: dict[str, Any], key: str) -> Iterator[str]:
    """Yield the saving, its sources and its price, each in a sentence."""
    totals, unit = report["totals"][key], report["units"][key]
    agora = totals[Policy.AGORA]
    was, now = totals[Policy.AS_IT_WAS]["cost"], agora["cost"]
    if not agora["edits"]:
        yield str(report["idle"])
        return
    word, more = ("saved", "of") if now <= was else ("cost", "more than")
    yield (
        f"AGORA would have {word} {amount(abs(was - now), unit)} {more} {amount(was, unit)} of "
        f"input ({_share(abs(was - now), was)}), with {_many(agora['edits'], 'edit')} in "
        f"{_many(agora['calls'], 'call')}."
    )
    parts = [
        f"{amount(dollars, 'dollars')} {_MOMENTS[why]}"
        for why, dollars in sorted(agora["saved"].items(), key=lambda pair: -pair[1])
        if dollars >= 0.00005
    ]
    idle = [name for name, model in report["models"].items() if not model["edits"]]
    still = f" No edit pays at {', '.join(idle[:_SHOWN])}." if idle and key == OWN else ""
    if parts:
        yield f"Saved {', '.join(parts)}.{still}"
    if agora["needing"]:
        asks = f"{agora['extra_calls']:,} of {agora['needing']:,} actions"
        price = amount(agora["extra_dollars"], "dollars")
        yield (
            f"The price is memory: {asks} that use an earlier path or ID would no longer see it. "
            f"If each asks again, that is {price} of further calls. As recorded, "
            f"{_many(agora['again'], 'call')} repeated a step that would have been shortened."
        )


def amount(value: float, unit: Unit) -> str:
    """Return a cost with its unit, in its significant digits.

    >>> amount(1234.5, "dollars"), amount(0.01234, "dollars"), amount(90, "seconds")
    ('$1,234.50', '$0.0123', '90.0 s')
    """
    if unit == "seconds":
        return f"{value:,.1f} s"
    if value >= 1 or not value:
        return f"${value:,.2f}"
    return f"${value:.4f}" if value >= 0.001 else f"${value:.2g}"


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for column in table.columns[1:]:
        column.justify = "right"
    table.columns[0].no_wrap = True
    return table


def _bill(report: dict[str, Any], key: str) -> Table:
    unit, totals = report["units"][key], report["totals"][key]
    table = _table("", "input cost", "change", "million tokens", "cached", "edits", "names kept")
    for policy in Policy:
        row = totals[policy]
        if row["offered"]:
            table.add_row(
                str(policy),
                amount(row["cost"], unit),
                "" if policy is Policy.AS_IT_WAS else _change(totals, policy),
                f"{row['tokens'] / 1e6:,.1f}",
                _share(row["read"], row["tokens"]),
                f"{row['edits']:,}",
                "-" if row["met_share"] is None else f"{row['met_share']:.1%}",
                style="green" if policy is Policy.AGORA else None,
            )
    return table


def _by_sheet(report: dict[str, Any]) -> Table:
    policies = [policy for policy in Policy if policy is not Policy.AS_IT_WAS]
    table = _table("by price sheet", *policies)
    for key, totals in report["totals"].items():
        sheet = report["sheets"].get(key)
        name = f"{key} (read {sheet['read']:g}, write {sheet['write']:g})" if sheet else "own model"
        table.add_row(
            name, *(_change(totals, one) if totals[one]["offered"] else "-" for one in policies)
        )
    return table


def _facts(report: dict[str, Any], key: str) -> Iterator[str]:
    """Yield the assumptions behind the figures."""
    unit, totals, compared = report["units"][key], report["totals"][key], report["compared"]
    yield (
        f"AGORA is cheaper on {_many(compared['cheaper'], 'trajectory', 'trajectories')}, "
        f"the same on {compared['same']:,}, dearer on {compared['costlier']:,}; at worst "
        f"{compared['worst']:.3f} times the original cost."
    )
    if any(totals[policy]["needing"] for policy in Policy):
        yield "Names kept: actions whose paths and IDs from earlier steps are still in the prompt."
    for part in report["not_shown"]:
        count = part["trajectories"]
        yield (
            f"Not in the log: {part['what']}, about {part['tokens']:,} tokens of every call in "
            f"{_many(count, 'trajectory', 'trajectories')}. Inferred from usage; in every bill."
        )
    billed = report["billed"]
    if billed["calls"]:
        yield (
            f"The provider billed {amount(billed['cost'], unit)} for "
            f"{_many(billed['calls'], 'call')} with usage; the simulation says "
            f"{amount(billed['simulated_cost'], unit)} ({billed['error']:+.1%})."
        )
    if report["lost"]:
        yield f"The provider's cache expired {_many(report['lost'], 'time')}, in every row."
    if key != OWN:
        yield f"Prices: {key}. Input only."
        return
    counts: dict[str, int] = {}
    for model in report["models"].values():
        counts[model["sheet"]] = counts.get(model["sheet"], 0) + model["trajectories"]
    sheets = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    yield f"Prices of each trajectory's own model: {sheets}. Input only."


def _warnings(report: dict[str, Any], key: str) -> Iterator[str]:
    """Yield which models have no price sheet of their own."""
    models = report["models"].items() if key == OWN else ()
    sheets = report["sheets"]
    families = {name: one["sheet"] for name, one in models if sheets[one["sheet"]]["family"]}
    if families:
        yield (
            f"No price sheet for {', '.join(list(families)[:_SHOWN])}: priced as the family "
            f"{', '.join(dict.fromkeys(families.values()))}. Name another with --model."
        )
    unknown = sum(one["trajectories"] for _, one in models if not sheets[one["sheet"]]["known"])
    if unknown:
        yield (
            f"No price sheet is known for {_many(unknown, 'trajectory', 'trajectories')}: "
            "$1 per million tokens is a placeholder. Name a model with --model."
        )


def _problems(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines about unreadable files and failed replays, each with its style."""
    read = report["input"]
    if read["bad"]:
        yield f"{_many(read['bad'], 'record')} could not be read:", "yellow"
        for bad in read["bad_examples"][:_SHOWN]:
            yield f"  {bad['where']} {bad['problem']}", ""
    for what, group in (
        ("could not be replayed", "failed"),
        ("would be refused by a provider as recorded, so AGORA leaves them alone", "left_alone"),
        ("had been shortened before, so they are billed as they were", "shortened"),
    ):
        reasons = report[group]["reasons"]
        if reasons:
            count = _many(report[group]["count"], "trajectory", "trajectories")
            yield f"{count} {what}:", "yellow"
        for reason in reasons[:_SHOWN]:
            example = reason["examples"][0]
            yield f"  {reason['count']:,} × {reason['reason']} ({example})", ""
    skipped = list(read["skipped"].items())[:_SHOWN]
    for reason, count in skipped:
        yield f"Skipped {count:,}: {reason}", "dim"
    if skipped or read["bad"]:
        yield "", ""


def _change(totals: dict[str, Any], policy: Policy) -> str:
    was = totals[Policy.AS_IT_WAS]["cost"]
    if not was:
        return "-"
    change = totals[policy]["cost"] / was - 1
    return f"{change:+.1%}" if abs(change) >= 0.0005 else "same"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
