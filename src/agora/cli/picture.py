"""A compression in the terminal: one row for each step, with the reason of its decision."""

import json
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agora.core.action_lines import printable
from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, FallbackLevel, Reason
from agora.core.trajectory import Call, Step, Trajectory

_STYLES = {"protected": "cyan", "kept": "green", "elided": "yellow"}
_SHOWN_OF_A_TEXT = 400
"""How many characters of an action are looked at: more than a row can hold."""
_UNCHANGED = {
    Reason.WITHIN_BUDGET: "the prompt already fits the budget.",
    Reason.NOTHING_TO_ELIDE: "every step belongs to the floor.",
    Reason.NOTHING_GAINED: "with its markers the edited prompt would not be shorter.",
    Reason.NOT_WORTH_IT_YET: "so far an edit would cost more than it saves."
    " See what one would do: --edits every_call",
    Reason.ILLEGAL_INPUT: "the provider would refuse these messages as they are.",
    Reason.GUARD: "the edited messages would have broken a rule. Please report this.",
    Reason.UNREADABLE: "no format fits.",
    Reason.FAILED: "something went wrong.",
    Reason.SHADOW: "an edit is due, and in shadow mode none is made.",
    Reason.OWN_SUMMARY: "the agent has its own conversation summarised.",
    Reason.REFUSED_BEFORE: "the provider refused an edit of this conversation.",
    Reason.LATE: "there was no time for an edit.",
    Reason.SERVER_SIDE_HISTORY: "the provider holds earlier messages itself.",
}


def show(
    compression: Compression,
    console: Console,
    *,
    name: str,
    place: str = "",
    budget: Budget,
    unseen_tokens: int = 0,
    most_rows: int | None = None,
) -> None:
    """Print a compression: its totals, a row per step, and notes for the reader.

    Args:
        compression: The compression to show.
        console: The console to print to.
        name: The name of the source.
        place: Which trajectory of a log that is.
        budget: The budget it was compressed by.
        unseen_tokens: How much of the preamble is not in the log.
        most_rows: How many steps are shown, the first and the last of them; all if None.
    """
    console.print(" | ".join(filter(None, map(printable, (name, place, compression.format)))))
    trajectory = compression.trajectory
    if trajectory is not None:
        console.print(_totals(compression, budget))
        console.print(_fixed(compression, trajectory, budget, unseen_tokens), style="dim")
        if compression.decisions:
            console.print()
            console.print(_steps(compression, trajectory, budget.unit, most_rows))
    for text in _remarks(compression, budget):
        console.print(f"\n{printable(text)}")


def _totals(compression: Compression, budget: Budget) -> str:
    before, after = compression.tokens_before, compression.tokens_after
    counts = Counter[str](decision.outcome for decision in compression.decisions)
    parts = ", ".join(f"{counts[kind]:,} {kind}" for kind in _STYLES if counts[kind])
    steps = f"{len(compression.decisions):,} steps{': ' if parts else ''}{parts}"
    if not compression.changed:
        return f"{steps}; {before:,} {budget.unit}"
    return f"{steps}; {before:,} -> {after:,} {budget.unit}, {1 - after / before:.0%} less"


def _fixed(
    compression: Compression, trajectory: Trajectory, budget: Budget, unseen_tokens: int
) -> str:
    """Describe the fixed parts of the prompt and the budget."""
    said = sum(utterance.tokens for utterance in trajectory.utterances)
    sizes = {"preamble": trajectory.preamble_tokens, "said between steps": said}
    sizes["pending"] = trajectory.pending_tokens
    fixed = ", ".join(f"{part} {size:,}" for part, size in sizes.items() if size)
    hidden = f" ({unseen_tokens:,} of it not in the log)" if unseen_tokens else ""
    share = "" if budget.keep_ratio is None else f" ({budget.keep_ratio:.0%})"
    allowed = budget_of(budget, trajectory, compression.last_edit)
    return f"fixed: {fixed or 0}{hidden}; budget {allowed:,}{share}"


def _steps(
    compression: Compression, trajectory: Trajectory, unit: str, most_rows: int | None
) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    table.add_column("step", justify="right")
    table.add_column(unit, justify="right")
    table.add_column("before", no_wrap=True, ratio=1)
    table.add_column("after", no_wrap=True, ratio=1)
    table.add_column("why", no_wrap=True)
    decisions = compression.decisions
    hidden = range(0)
    if most_rows is not None and len(decisions) > most_rows:
        hidden = range(-(-most_rows // 2), len(decisions) - most_rows // 2)
    for at, (decision, step) in enumerate(zip(decisions, trajectory.steps, strict=False)):
        if at in hidden:
            if at == hidden.start:
                count = f"{len(hidden):,} more steps"
                table.add_row("...", "", count, "--all shows them", style="dim italic")
            continue
        style = _STYLES[decision.outcome]
        table.add_row(
            f"{decision.number}",
            f"{decision.tokens:,}",
            _one_line(in_short(step)),
            Text(_after(decision), style),
            Text(decision.reason.replace("_", " "), "dim"),
        )
    return table


def _after(decision: Decision) -> str:
    """Return the rest of a step in the edited prompt."""
    if decision.kind == "whole":
        return "whole"
    text = _one_line(decision.text)
    if decision.kind == "note":
        return f"its call, and: {text}" if text else "its call"
    return f"a line: {text}" if text else "its number"


def _remarks(compression: Compression, budget: Budget) -> Iterator[str]:
    """Yield notes that no row of a step has."""
    trajectory = compression.trajectory
    if not compression.changed:
        yield f"Unchanged: {why_unchanged(compression)}"
        if compression.detail:
            yield compression.detail
        if trajectory is not None and not trajectory.steps and trajectory.utterances:
            yield (
                "If the agent acts by text, --observations user reads all answers as steps; "
                "without it only those in a known frame are."
            )
        return
    if trajectory is None or not any(one.outcome == "elided" for one in compression.decisions):
        yield f"{compression.summary()}."
        return
    if compression.fallback_level is FallbackLevel.PARTIAL:
        yield f"The scorer failed, so newer steps came first: {compression.detail}"
    protected = sum(one.tokens for one in compression.decisions if one.outcome == "protected")
    stays = trajectory.fixed_tokens - trajectory.pending_tokens + protected
    if stays > budget_of(budget, trajectory, compression.last_edit):
        yield (
            f"Above the budget: what always stays (fixed and protected) takes {stays:,}, "
            "so nothing else had room"
        )


def why_unchanged(compression: Compression) -> str:
    """Return in a sentence why the messages came back as they are."""
    if compression.trajectory is not None and not compression.trajectory.steps:
        return "no step was found, only text that always stays."
    return _UNCHANGED[compression.reason]


def in_short(step: Step) -> str:
    """Return a step's action for people: each call with its values, or a line of the text.

    For a text with a fenced block, as agents write that act by text, it is the block's first line.

    >>> call = Call("find_flight", '{"from": "JFK", "to": "SEA"}')
    >>> in_short(Step(number=1, action="", observation="", tokens=1, calls=(call,)))
    'find_flight(JFK, SEA)'
    """
    if step.calls:
        return " + ".join(_call_in_short(call) for call in step.calls[:8])
    before, _, block = step.action[: 8 * _SHOWN_OF_A_TEXT].partition("```")
    # The rest of the fence's line is the language.
    return _first_line(block.partition("\n")[2]) or _first_line(before)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip(" \t`")), "")


def _call_in_short(call: Call) -> str:
    if len(call.arguments) > 8 * _SHOWN_OF_A_TEXT:
        return f"{call.name}({call.arguments[:_SHOWN_OF_A_TEXT]})"
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        value = call.arguments
    values = list(value.values()) if isinstance(value, dict) else [value]
    texts = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in values)
    return f"{call.name}({', '.join(text[:_SHOWN_OF_A_TEXT] for text in texts)})"


def _one_line(text: str) -> str:
    return printable(" ".join(text[:_SHOWN_OF_A_TEXT].split()))


def budget_of(budget: Budget, trajectory: Trajectory, epoch: int) -> int:
    """Return the compressor's budget for the prompt at its last edit."""
    seen = epoch or len(trajectory.steps)
    said = sum(u.tokens for u in trajectory.utterances if u.after <= seen)
    taken = sum(step.tokens for step in trajectory.steps[:seen])
    return budget.of(trajectory.preamble_tokens + said + taken)
