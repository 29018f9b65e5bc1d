"""A replay's report in words and tables, for the terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from agora.core.action_lines import printable
from agora.replay.report import Unit
from agora.replay.run import OWN
from agora.replay.simulate import Policy

_PLAIN_WIDTH = 100
"""Columns where the output is no terminal."""
_SHOWN = 3
"""How many reasons and examples of each kind are shown; all are on the page and in the JSON."""


def show(report: dict[str, Any], *, to_stderr: bool) -> None:
    """Print the report's summary: what was read, the verdict, the bill, what went wrong."""
    console = Console(stderr=to_stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    read = report["input"]
    console.print(
        f"{_many(report['trajectories'], 'trajectory', 'trajectories')}, "
        f"{_many(report['steps'], 'step')}, {_many(report['calls'], 'call')} "
        f"in {_many(read['files'], 'file')} ({_size(read['bytes'])})"
    )
    if report["trajectories"]:
        first = next(iter(report["totals"]))
        console.print(f"\n{verdict(report, first)}\n", style="bold")
        console.print(_bill(report, first))
        console.print()
        for text in _facts(report, first):
            console.print(printable(text))
        for text in _warnings(report, first):
            console.print(printable(text), style="yellow")
        if len(report["totals"]) > 1:
            console.print()
            console.print(_by_sheet(report))
    for text, style in _problems(report):
        console.print(printable(text), style=style, soft_wrap=True)


def verdict(report: dict[str, Any], key: str) -> str:
    """Return in a sentence what AGORA would have changed, whatever the sign."""
    totals = report["totals"][key]
    was, now = totals[Policy.AS_IT_WAS]["cost"], totals[Policy.AGORA]["cost"]
    unit = report["units"][key]
    if not totals[Policy.AGORA]["edits"]:
        return str(report["idle"])
    word, more = ("saved", "of") if now <= was else ("cost", "more than")
    return (
        f"AGORA would have {word} {amount(abs(was - now), unit)} {more} {amount(was, unit)} "
        f"({_share(abs(was - now), was)})."
    )


def amount(value: float, unit: Unit) -> str:
    """Return a cost with its unit, as many digits as say something.

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
    table = _table(
        *("", "input cost", "change", "tokens sent", "cached", "edits", "append-only"),
        "names still in prompt",
    )
    for policy in Policy:
        row = totals[policy]
        if row["offered"]:
            table.add_row(
                str(policy),
                amount(row["cost"], unit),
                "" if policy is Policy.AS_IT_WAS else _change(totals, policy),
                f"{row['tokens']:,}",
                _share(row["read"], row["tokens"]),
                f"{row['edits']:,}",
                f"{row['append_only_share']:.1%}",
                "-" if row["met_share"] is None else f"{row['met_share']:.1%}",
                style="green" if policy is Policy.AGORA else None,
            )
    return table


def _by_sheet(report: dict[str, Any]) -> Table:
    policies = [policy for policy in Policy if policy is not Policy.AS_IT_WAS]
    table = _table("by price sheet", *policies)
    for key, totals in report["totals"].items():
        sheet = report["sheets"].get(key)
        name = f"{key} ({sheet['read']:g}/{sheet['write']:g})" if sheet else "own model"
        table.add_row(
            name, *(_change(totals, one) if totals[one]["offered"] else "-" for one in policies)
        )
    return table


def _facts(report: dict[str, Any], key: str) -> Iterator[str]:
    """Yield what the figures rest on."""
    unit, totals, compared = report["units"][key], report["totals"][key], report["compared"]
    yield (
        f"AGORA is cheaper on {compared['cheaper']:,}, the same on {compared['same']:,} and more "
        f"expensive on {compared['costlier']:,}; at worst {compared['worst']:.3f}× the original "
        "cost."
    )
    if any(totals[policy]["needing"] for policy in Policy):
        yield (
            "Names still in prompt: of the actions that use a path or ID from an earlier step, the "
            "share whose prompt still has all of them."
        )
    offered = totals[Policy.CLEARING]["offered"]
    if 0 < offered < report["trajectories"]:
        yield (
            f"{Policy.CLEARING} exists for {offered:,} of {report['trajectories']:,} trajectories."
        )
    for part in report["not_shown"]:
        count = part["trajectories"]
        spread = "" if count == 1 else f" ({part['least']:,} to {part['most']:,})"
        yield (
            f"Not in the log: {part['what']}, about {part['tokens']:,} tokens{spread} of every "
            f"call in {_many(count, 'trajectory', 'trajectories')}. Inferred from usage; in every "
            "bill."
        )
    billed = report["billed"]
    if billed["calls"]:
        yield (
            f"Billed by the provider for {_many(billed['calls'], 'call')} with usage in the log: "
            f"{amount(billed['cost'], unit)}, {_share(billed['read'], billed['prompt'])} cached. "
            f"Simulated: {amount(billed['simulated_cost'], unit)} ({billed['error']:+.1%}), "
            f"{_share(billed['simulated_read'], billed['prompt'])} cached."
        )
    if report["lost"]:
        yield (
            f"The provider's cache expired {_many(report['lost'], 'time')}; every row includes "
            "that."
        )
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
    """Yield lines about what could not be read or replayed, each with its style."""
    read = report["input"]
    if read["bad"]:
        yield f"\n{_many(read['bad'], 'record')} could not be read:", "yellow"
        for bad in read["bad_examples"][:_SHOWN]:
            yield f"  {bad['where']} {bad['problem']}", ""
        if read["bad"] > _SHOWN:
            yield "  …", ""
    for what, group in (
        ("could not be replayed", "failed"),
        ("would be refused by a provider as they are, so AGORA leaves them alone", "left_alone"),
        ("had been shortened before, so they are billed as they were", "shortened"),
    ):
        reasons = report[group]["reasons"]
        if reasons:
            count = _many(report[group]["count"], "trajectory", "trajectories")
            yield f"\n{count} {what}:", "yellow"
        for reason in reasons[:_SHOWN]:
            example = reason["examples"][0]
            yield f"  {reason['count']:,} × {reason['reason']} ({example})", ""
        if len(reasons) > _SHOWN:
            yield "  …", ""
    for reason, count in list(read["skipped"].items())[:_SHOWN]:
        yield f"Skipped {count:,}: {reason}", "dim"


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
