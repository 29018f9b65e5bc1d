"""A compression as a picture in the terminal: every step one row, and why it stayed or went."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, Reason, Rung
from agora.core.reading.cutting import printable
from agora.core.trajectory import Call, Step, Trajectory

LEAST_WIDTH = 60
_EIGHTHS = "▏▎▍▌▋▊▉"
_STYLES = {
    "fixed": "bright_black",
    "floor": "cyan",
    "kept": "green",
    "elided": "yellow",
    "markers": "magenta",
}
_SIGNS = {"fixed": "=", "floor": "#", "kept": "+", "elided": ".", "markers": "~"}
"""What bars are made of where there is no colour to tell them apart."""
_SHOWN_OF_A_TEXT = 400
"""How many characters of an action are looked at: more than a row can hold."""
_UNCHANGED = {
    Reason.WITHIN_BUDGET: "the prompt already fits the budget.",
    Reason.NOTHING_TO_ELIDE: "every step belongs to the floor.",
    Reason.NOTHING_GAINED: "with its markers the edited prompt would not be shorter.",
    Reason.NOT_WORTH_IT_YET: "so far an edit would cost more than it saves."
    " See what one would do: --schedule every-call",
    Reason.ILLEGAL_INPUT: "the provider would refuse these messages as they are.",
    Reason.GUARD: "the edited messages would have broken a rule. Please report this.",
    Reason.UNREADABLE: "no format fits.",
    Reason.FAILED: "something went wrong.",
    Reason.SHADOW: "an edit is due, and in shadow mode none is made.",
    Reason.SERVER_SIDE_HISTORY: "the provider holds earlier messages itself.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a picture is drawn."""

    width: int = 80
    plain: bool = False
    """ASCII bars that differ by their sign, for where colour does not show."""
    rows: int | None = None
    """How many steps are shown, the first and the last of them; all when None."""

    def words(self, text: str) -> str:
        """Return text of ours as this look writes it."""
        if not self.plain:
            return text
        for fine, ascii_only in (("→", "->"), ("…", "..."), ("·", "|"), ("↳", "`-"), ("─", "-")):
            text = text.replace(fine, ascii_only)
        return text

    def fit(self, text: str, width: int) -> str:
        """Return `text` on one line, cut to `width` cells."""
        if width <= 0:
            return ""
        # A cell holds at least one character, combining ones aside.
        line = printable(" ".join(text[:_SHOWN_OF_A_TEXT].split()))
        if cell_len(line) <= width:
            return line
        end = self.words("…")
        return set_cell_size(line, max(0, width - len(end))).rstrip() + end[:width]

    def bar(self, share: float, width: int, kind: str) -> Text:
        """Return a bar of `share` of `width` cells; what is more than nothing shows."""
        eighths = min(width * 8, round(share * width * 8))
        if share > 0:
            eighths = max(1, eighths)
        if self.plain:
            return Text((_SIGNS[kind] * -(-eighths // 8)).ljust(width))
        full, part = divmod(eighths, 8)
        blocks = "█" * full + (_EIGHTHS[part - 1] if part else "")
        return Text(blocks.ljust(width), _STYLES[kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What is drawn: a compression, and what it was made from."""

    compression: Compression
    name: str
    place: str = ""
    budget: Budget
    unseen_tokens: int = 0
    """What of the preamble is not in the log."""

    def lines(self, look: Look) -> Iterator[Text]:
        """Yield the picture line by line."""
        yield from self._head(look)
        if self.compression.decisions:
            yield Text()
            yield from self._rows(look)
        foot = list(self._foot(look))
        if foot:
            yield Text()
            yield from foot

    def _head(self, look: Look) -> Iterator[Text]:
        compression = self.compression
        about = "".join(f" · {part}" for part in (self.place, compression.format) if part)
        name = look.fit(self.name, look.width - len(look.words(about)))
        yield Text(name + look.words(about), "bold")
        trajectory = compression.trajectory
        if trajectory is None:
            return
        yield from _wrapped("", self._totals(), look, "")
        yield Text()
        yield from self._balance(look, trajectory)

    def _totals(self) -> str:
        compression = self.compression
        unit = self.budget.unit
        before, after = compression.tokens_before, compression.tokens_after
        counts = Counter[str](decision.outcome for decision in compression.decisions)
        parts = [f"{counts[kind]:,} {kind}" for kind in _SIGNS if counts[kind]]
        steps = _number(len(compression.decisions), "step")
        size = f"{before:,} {unit}"
        if compression.changed:
            size = f"{before:,} → {after:,} {unit}, {1 - after / before:.0%} less"
        return f"{steps}: {', '.join(parts)} · {size}" if parts else f"{steps} · {size}"

    def _allowed(self, trajectory: Trajectory) -> str:
        size = f"budget {budget_of(self.budget, trajectory, self.compression.epoch):,}"
        ratio = self.budget.keep_ratio
        notes = [] if ratio is None else [f"{ratio:.0%}"]
        if trajectory.pending_tokens:
            notes.append("pending aside")
        return f"{size} ({', '.join(notes)})" if notes else size

    def _balance(self, look: Look, trajectory: Trajectory) -> Iterator[Text]:
        """Yield what the prompt was made of before and after, as two bars to one scale."""
        compression = self.compression
        sizes = Counter({"fixed": trajectory.fixed_tokens})
        for decision in compression.decisions:
            sizes[decision.outcome] += decision.tokens
        before = [(kind, sizes[kind]) for kind in ("fixed", "floor", "kept", "elided")]
        left = compression.tokens_after - sum(sizes[kind] for kind in ("fixed", "floor", "kept"))
        after = [*before[:3], ("markers", left)]
        number = f"{compression.tokens_before:,}"
        width = look.width - len("before  ") - len(number) - 2
        bars = {"before": before, "after": after} if compression.changed else {"prompt": before}
        for label, parts in bars.items():
            total = sum(size for _, size in parts)
            bar = _stacked(parts, compression.tokens_before, width, look)
            yield Text.assemble((f"{label:8}", "dim"), bar, f"  {total:>{len(number)},}")
        shown = [*before, ("markers", left)] if compression.changed else before
        yield from _legend([(kind, size) for kind, size in shown if size], look)
        said = sum(utterance.tokens for utterance in trajectory.utterances)
        hidden = f" ({self.unseen_tokens:,} not in the log)" if self.unseen_tokens else ""
        fixed = [
            f"preamble {trajectory.preamble_tokens:,}{hidden}",
            f"said between steps {said:,}" if said else "",
            f"pending {trajectory.pending_tokens:,}" if trajectory.pending_tokens else "",
        ]
        made_of = f"fixed: {', '.join(part for part in fixed if part)}"
        allowed = self._allowed(trajectory)
        room = look.width - 8
        yield Text(" " * 8 + look.fit(look.words(f"{made_of} · {allowed}"), room), "dim")

    def _rows(self, look: Look) -> Iterator[Text]:
        decisions = self.compression.decisions
        table = _Table.of(decisions, self.budget.unit, look)
        steps = self.compression.trajectory.steps if self.compression.trajectory else ()
        yield table.header()
        yield Text(look.words("─") * look.width, "dim")
        hidden = range(0)
        if look.rows is not None and len(decisions) > look.rows:
            hidden = range(-(-look.rows // 2), len(decisions) - look.rows // 2)
        at = 0
        while at < len(decisions):
            if hidden and at == hidden.start:
                yield _more([decisions[n] for n in hidden], look)
                at = hidden.stop
                continue
            yield from table.row(decisions[at], steps[at])
            at += 1

    def _foot(self, look: Look) -> Iterator[Text]:
        compression = self.compression
        trajectory = compression.trajectory
        if not compression.changed:
            yield from _wrapped("Unchanged: ", why_unchanged(compression), look, "bold")
            if compression.detail:
                yield from _wrapped("", compression.detail, look, "")
            if trajectory is not None and not trajectory.steps and trajectory.utterances:
                hint = (
                    "if the agent acts by text, --observations user reads all answers as steps;"
                    " without it only those in a frame that is known are"
                )
                yield from _wrapped("Hint: ", hint, look, "dim")
            if compression.reason is Reason.ILLEGAL_INPUT:
                yield from _wrapped("Hint: ", "agora validate lists every broken rule", look, "dim")
            return
        if compression.reason is Reason.THINKING_REMOVED:
            yield from _wrapped("Thinking: ", f"{compression.summary()}.", look, "bold")
            return
        if compression.reason is Reason.SHORTENED_AT_ARRIVAL:
            yield from _wrapped("At arrival: ", f"{compression.summary()}.", look, "bold")
            return
        if compression.rung is Rung.RULE:
            yield from _wrapped("Scored by the fallback rule: ", compression.detail, look, "yellow")
        if trajectory is None:
            return
        held = sum(d.tokens for d in compression.decisions if d.outcome == "floor")
        stays = trajectory.fixed_tokens - trajectory.pending_tokens + held
        if stays > budget_of(self.budget, trajectory, compression.epoch):
            why = f"what always stays (fixed and floor) takes {stays:,}, so nothing else had room"
            yield from _wrapped("Above the budget: ", why, look, "yellow")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The columns of the step rows."""

    look: Look
    unit: str
    widest: int
    number_width: int
    bar_width: int
    tokens_width: int
    reason_width: int

    @classmethod
    def of(cls, decisions: Sequence[Decision], unit: str, look: Look) -> "_Table":
        widest = max(decision.tokens for decision in decisions)
        longest = max(len(decision.reason) for decision in decisions)
        return cls(
            look=look,
            unit="tokens" if unit == "tokens" else "chars",
            widest=max(1, widest),
            number_width=max(4, len(f"{decisions[-1].number}")),
            bar_width=min(24, max(8, (look.width - 60) // 2)),
            tokens_width=max(6, len(f"{widest:,}")),
            # In a narrow terminal the one long reason pushes its row aside, not every row.
            reason_width=min(longest, 12 if look.width < 120 else 20),
        )

    def header(self) -> Text:
        return Text(
            f"{'step':>{self.number_width}} {' ' * self.bar_width} {self.unit:>{self.tokens_width}}"
            f"  score  {'':6}  {'why':{self.reason_width}}  action",
            "dim",
        )

    def row(self, decision: Decision, step: Step) -> Iterator[Text]:
        kind = decision.outcome
        score = f"{decision.score:.2f}" if decision.score is not None else "-"
        line = Text(f"{decision.number:>{self.number_width}} ")
        line.append(self.look.bar(decision.tokens / self.widest, self.bar_width, kind))
        line.append(f" {decision.tokens:>{self.tokens_width},}  {score:>5}  ")
        line.append(f"{kind:6}  ", _STYLES[kind])
        reason = decision.reason.replace("_", " ")
        if decision.form in ("action", "command"):
            reason = f"{decision.form} stays"
        elif decision.form == "line":
            reason = f"{reason}, in a line"
        line.append(f"{self.look.fit(reason, 40):{self.reason_width}}  ", "dim")
        room = self.look.width - cell_len(line.plain)
        line.append(self.look.fit(in_short(step), room), "dim" if kind == "elided" else "")
        line.rstrip()
        yield line
        if decision.text:
            indent = self.number_width + self.bar_width + 2
            mark = self.look.words("↳ ")
            text = self.look.fit(decision.text, self.look.width - indent - len(mark))
            yield Text(f"{' ' * indent}{mark}{text}", "dim")


def why_unchanged(compression: Compression) -> str:
    """Return in a sentence why the messages came back as they are."""
    if compression.trajectory is not None and not compression.trajectory.steps:
        return "no step was found, only text that always stays."
    return _UNCHANGED[compression.reason]


def in_short(step: Step) -> str:
    """Return a step's action for people: each call with its values, or a line of the text.

    Of a text with a fenced block, as agents write that act by text, it is the
    block's first line.

    >>> call = Call("find_flight", '{"from": "JFK", "to": "SEA"}')
    >>> in_short(Step(number=1, action="", observation="", tokens=1, calls=(call,)))
    'find_flight(JFK, SEA)'
    """
    if step.calls:
        return " + ".join(_call_in_short(call) for call in step.calls[:8])
    before, _, block = step.action[: 8 * _SHOWN_OF_A_TEXT].partition("```")
    # What follows the fence on its own line is the language.
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


def budget_of(budget: Budget, trajectory: Trajectory, epoch: int) -> int:
    """Return what may stay of the prompt as it was at the epoch, as the compressor reckons it."""
    seen = epoch or len(trajectory.steps)
    said = sum(u.tokens for u in trajectory.utterances if u.after <= seen)
    taken = sum(step.tokens for step in trajectory.steps[:seen])
    return budget.of(trajectory.preamble_tokens + said + taken)


def _stacked(parts: Sequence[tuple[str, int]], total: int, width: int, look: Look) -> Text:
    """Return one bar of coloured parts, of which even the smallest shows."""
    bar = Text()
    reached = 0
    cells = 0
    for kind, size in parts:
        reached += size
        end = round(reached / max(1, total) * width)
        if size:
            end = min(width, max(end, cells + 1))
        bar.append((_SIGNS[kind] if look.plain else "█") * (end - cells), _STYLES[kind])
        cells = max(cells, end)
    bar.append(" " * (width - cells))
    return bar


def _legend(parts: Sequence[tuple[str, int]], look: Look) -> Iterator[Text]:
    line = Text(" " * 8)
    for kind, size in parts:
        entry = Text.assemble(
            (_SIGNS[kind] if look.plain else "█", _STYLES[kind]), f" {kind} {size:,}  "
        )
        if line.cell_len + entry.cell_len - 2 > look.width:
            line.rstrip()
            yield line
            line = Text(" " * 8)
        line.append(entry)
    line.rstrip()
    yield line


def _more(hidden: Sequence[Decision], look: Look) -> Text:
    counts = Counter(decision.outcome for decision in hidden)
    parts = [f"{count:,} {outcome}" for outcome, count in counts.most_common()]
    tokens = sum(decision.tokens for decision in hidden)
    what = f"     … {_number(len(hidden), 'more step')}: {', '.join(parts)} · {tokens:,}"
    return Text(look.words(f"{what} (--all shows them)"), "dim italic")


def _wrapped(label: str, text: str, look: Look, style: str) -> Iterator[Text]:
    """Yield a sentence over as many lines as it takes, a few at most."""
    words = printable(look.words(text))[:_SHOWN_OF_A_TEXT].split()
    line, first = label, True
    for word in words:
        gap = "" if line in ("", label) else " "
        if cell_len(line + gap + word) > look.width and line.strip():
            yield _labelled(line, label if first else "", style)
            line, gap, first = "", "", False
        line += gap + word
    yield _labelled(line, label if first else "", style)


def _labelled(line: str, label: str, style: str) -> Text:
    return Text.assemble((line[: len(label)], style), line[len(label) :])


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
