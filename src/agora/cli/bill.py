"""A replay's report in words and columns, for the terminal."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agora.replay.report import Unit
from agora.replay.run import OWN
from agora.replay.simulate import Policy

_WIDTH = 96
_CHANGE = 7
"""How wide a change may be: +132.9%."""
_REASONS = 3
"""How many reasons and examples of each kind are shown; all are in the page and the JSON."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and the style a terminal that has styles may give it."""

    text: str
    style: str = ""


def lines(report: dict[str, Any]) -> Iterator[Line]:
    """Yield the report's summary: what was read, the verdict, the bill, what went wrong."""
    read = report["input"]
    yield Line(
        f"{_many(report['trajectories'], 'trajectory', 'trajectories')}, "
        f"{_many(report['steps'], 'step')}, {_many(report['calls'], 'call')} "
        f"in {_many(read['files'], 'file')} ({_size(read['bytes'])})"
    )
    if report["trajectories"]:
        first = report["sheet_keys"][0]
        yield Line("")
        yield Line(verdict(report, first), "bold")
        yield Line("")
        yield from _bill(report, first)
        yield Line("")
        yield from _compared(report, first)
        yield from _in_prompt(report, first)
        yield from _not_shown(report)
        yield from _billed(report, first)
        yield from _rereads(report)
        yield from _compactions(report, first)
        yield from _prices(report, first)
        if len(report["sheet_keys"]) > 1:
            yield Line("")
            yield from _by_sheet(report)
    yield from _problems(report)


def verdict(report: dict[str, Any], key: str) -> str:
    """Return in a sentence what AGORA would have changed, whatever the sign."""
    totals = report["totals"][key]
    was, now = totals[Policy.AS_IT_WAS]["cost"], totals[Policy.AGORA]["cost"]
    unit = report["units"][key]
    if not totals[Policy.AGORA]["edits"]:
        idle: str = report["idle"]
        return idle
    saved, before = was - now, amount(was, unit)
    if saved >= 0:
        return f"AGORA would have saved {amount(saved, unit)} of {before} ({_share(saved, was)})."
    more = amount(-saved, unit)
    return f"AGORA would have cost {more} more than {before} ({_share(-saved, was)})."


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


def _bill(report: dict[str, Any], key: str) -> Iterator[Line]:
    totals = report["totals"][key]
    unit = report["units"][key]
    was = totals[Policy.AS_IT_WAS]["cost"]
    head = (
        "",
        "input cost",
        "change",
        "tokens sent",
        "cached",
        "edits",
        "append-only",
        "in prompt",
    )
    rows = [
        (
            str(policy),
            amount(one["cost"], unit),
            "" if policy is Policy.AS_IT_WAS else _change(one["cost"], was),
            f"{one['tokens']:,}",
            _share(one["read"], one["tokens"]),
            f"{one['edits']:,}",
            f"{one['append_only_share']:.1%}",
            "-" if one["met_share"] is None else f"{one['met_share']:.1%}",
        )
        for policy in Policy
        for one in (totals[policy],)
        if one["offered"]
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        style = "green" if row[0] == Policy.AGORA else "dim" if row is head else ""
        yield Line("  ".join(cells), style)


def _in_prompt(report: dict[str, Any], key: str) -> Iterator[Line]:
    """Yield what the last column is of, and the same share of all actions."""
    totals = {policy: one for policy, one in report["totals"][key].items() if one["offered"]}
    if not any(one["needing"] for one in totals.values()):
        return
    yield Line("In prompt: actions that still find all names they need from earlier steps.", "dim")
    shares = ", ".join(
        f"{policy} {one['found_share']:.1%}"
        for policy, one in totals.items()
        if policy != Policy.AS_IT_WAS
    )
    text = f"Of all actions, including those that need no such name: {shares}."
    yield from (Line(line, "dim") for line in textwrap.wrap(text, _WIDTH))
    some = totals.get(Policy.CLEARING)
    if some is not None and some["offered"] < report["trajectories"]:
        yield Line(
            f"Provider's clearing is available for {some['offered']:,} of "
            f"{_many(report['trajectories'], 'trajectory', 'trajectories')}.",
            "dim",
        )


def _compactions(report: dict[str, Any], key: str) -> Iterator[Line]:
    """Yield what agents' own summaries cost, and what was done again after them."""
    one, unit = report["compactions"], report["units"][key]
    if not one["count"]:
        return
    where = f", at {one['least']:,} to {one['most']:,} tokens" if one["most"] else ""
    text = f"Compacted by the agent itself: {_many(one['count'], 'time')}{where}."
    if one["calls"]:
        text += (
            f" The log has {_many(one['calls'], 'call')} for it: "
            f"{amount(one['input_cost'], unit)} of input, included in every bill, and about "
            f"{one['output_tokens']:,} tokens of output, {amount(one['output_cost'], 'dollars')}, "
            "included in none."
        )
    text += (
        f" Of {_many(one['steps'], 'step')} after it, {one['repeated']:,} repeated an earlier one "
        f"and {one['reread']:,} read a file again."
    )
    if one["needing"]:
        text += (
            f" Of {_many(one['needing'], 'action')} that need an older name, "
            f"{one['met_share']:.1%} find it in the summary or in what was read since."
        )
    yield from map(Line, textwrap.wrap(text, _WIDTH))


def _not_shown(report: dict[str, Any]) -> Iterator[Line]:
    """Yield what the logs do not show of every call, and how large it is."""
    for one in report["not_shown"]:
        count = one["trajectories"]
        spread = "" if count == 1 else f" ({one['least']:,} to {one['most']:,})"
        text = (
            f"Not in the log: {one['what']}, about {one['tokens']:,} tokens{spread} of every call "
            f"in {_many(count, 'trajectory', 'trajectories')}. Inferred from usage; in every bill."
        )
        yield from map(Line, textwrap.wrap(text, _WIDTH))


def _billed(report: dict[str, Any], key: str) -> Iterator[Line]:
    """Yield what the provider billed next to what is simulated, if the log says."""
    billed = report["billed"]
    if not billed["calls"]:
        return
    unit = report["units"][key]
    yield Line(
        f"Billed by the provider for {_many(billed['calls'], 'call')} with usage in the log: "
        f"{amount(billed['cost'], unit)}, {_share(billed['read'], billed['prompt'])} cached."
    )
    yield Line(
        f"Simulated: {amount(billed['simulated_cost'], unit)} ({billed['error']:+.1%}), "
        f"{_share(billed['simulated_read'], billed['prompt'])} cached; a single call is off by "
        f"{billed['call_error']:.0%} on average."
    )
    if report["lost"]:
        yield Line(
            f"At {_many(report['lost'], 'call')} usage shows that the cache had expired; "
            "every policy is billed that way."
        )


def _rereads(report: dict[str, Any]) -> Iterator[Line]:
    again, steps = report["rereads"], report["steps"]
    if not again["count"]:
        return
    after, before = again["after_edit"], again["count"] - again["after_edit"]
    steps_after = again["steps_after_edit"]
    yield Line(
        f"Repeated word for word: {_many(again['count'], 'step')}, "
        f"{before:,} of {steps - steps_after:,} before AGORA's first edit "
        f"and {after:,} of {steps_after:,} after it."
    )


def _by_sheet(report: dict[str, Any]) -> Iterator[Line]:
    keys = report["sheet_keys"]
    width = max(len(_named(report, key)) for key in keys)
    policies = [policy for policy in Policy if policy is not Policy.AS_IT_WAS]
    heads = [policy.rjust(_CHANGE) for policy in policies]
    yield Line("  ".join(["by price sheet".ljust(width), *heads]), "dim")
    for key in keys:
        totals = report["totals"][key]
        was = totals[Policy.AS_IT_WAS]["cost"]
        cells = [
            (_change(one["cost"], was) if one["offered"] else "-").rjust(len(head))
            for policy, head in zip(policies, heads, strict=True)
            for one in (totals[policy],)
        ]
        yield Line("  ".join([_named(report, key).ljust(width), *cells]))


def _compared(report: dict[str, Any], key: str) -> Iterator[Line]:
    compared = report["compared"][key]
    yield Line(
        f"AGORA is cheaper on {compared['cheaper']:,}, the same on {compared['same']:,} and more "
        f"expensive on {compared['costlier']:,}; at worst {compared['worst']:.3f}× the original "
        "cost."
    )


def _prices(report: dict[str, Any], key: str) -> Iterator[Line]:
    if key != OWN:
        yield Line(f"Prices: {key}. Input only.")
        return
    used: dict[str, int] = {}
    for model in report["models"].values():
        used[model["sheet"]] = used.get(model["sheet"], 0) + model["trajectories"]
    sheets = ", ".join(f"{name} ({count:,})" for name, count in used.items())
    yield Line(f"Prices of each trajectory's own model: {sheets}. Input only.")
    families = [name for name in used if report["sheets"][name]["family"]]
    if families:
        models = [m for m, one in report["models"].items() if one["sheet"] in families]
        yield Line(
            f"No price sheet for {', '.join(models[:_REASONS])}: priced as the family "
            f"{', '.join(families)}. Name another with --sheet.",
            "yellow",
        )
    unknown = [name for name in used if not report["sheets"][name]["known"]]
    if unknown:
        yield Line(
            f"No price sheet is known for {_many(used[unknown[0]], 'trajectory', 'trajectories')}: "
            "$1 per million tokens is a placeholder. Name one with --sheet.",
            "yellow",
        )


def _problems(report: dict[str, Any]) -> Iterator[Line]:
    read = report["input"]
    if read["bad"]:
        yield Line("")
        yield Line(f"{_many(read['bad'], 'record')} could not be read:", "yellow")
        for bad in read["bad_examples"][:_REASONS]:
            yield Line(f"  {bad['where']} {bad['problem']}")
        if read["bad"] > _REASONS:
            yield Line("  …")
    for what, reasons in (
        ("could not be replayed", report["failed"]),
        (
            "would be refused by a provider as they are, so AGORA leaves them alone",
            report["left_alone"],
        ),
        (
            "had been shortened before, so they are billed as they were",
            report["shortened"],
        ),
    ):
        if reasons["count"]:
            yield Line("")
            yield Line(f"{_many(reasons['count'], 'trajectory', 'trajectories')} {what}:", "yellow")
            for reason in reasons["reasons"][:_REASONS]:
                yield Line(f"  {reason['count']:,} × {reason['reason']} ({reason['examples'][0]})")
            if len(reasons["reasons"]) > _REASONS:
                yield Line("  …")
    for reason, count in list(read["skipped"].items())[:_REASONS]:
        yield Line(f"{count:,} left out: {reason}", "dim")


def _named(report: dict[str, Any], key: str) -> str:
    if key == OWN:
        return "own model"
    sheet = report["sheets"].get(key)
    return f"{key} ({sheet['read']:g}/{sheet['write']:g})" if sheet else key


def _change(cost: float, was: float) -> str:
    if not was:
        return "-"
    change = cost / was - 1
    return f"{change:+.1%}" if abs(change) >= 0.0005 else "same"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
