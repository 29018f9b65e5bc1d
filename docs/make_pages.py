"""Writes what pages do not say by hand: figures, pictures and how to install.

    python docs/make_pages.py            # write
    python docs/make_pages.py --check    # name what would change

A figure is between `<!-- made: NAME -->` and `<!-- /made -->`. Its function below reads a result
file of `benchmarks/results` or `lab/results`, which a command of this tree wrote. Each picture is
two SVG files, for light and for dark pages. Install lines name a checkout until `RELEASED` in
`agora.errors` is true, and the package index from then on.
"""

import ast
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import agora
from agora.errors import RELEASED

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SESSION = ROOT / "src" / "agora" / "cli" / "demo" / "session.json"
_FRAGMENT = re.compile(r"(<!-- made: ([\w-]+) -->)(.*?)(<!-- /made -->)", re.DOTALL)


# Figures


def results(name: str) -> Any:
    """Return a result file, by its path below the repository."""
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percent(share: float, digits: int = 0) -> str:
    """Return a share as people read it."""
    return f"{100 * share:.{digits}f}%"


def change(ratio: float, digits: int = 1) -> str:
    """Return a ratio to sending everything as a change.

    >>> change(0.651)
    '-34.9%'
    """
    return f"{100 * (ratio - 1):+.{digits}f}%"


def interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """Return a value with its 95% interval."""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def share(figure: dict[str, float]) -> str:
    """Return a share with its interval, as a table has it."""
    low, high = percent(figure["low"]), percent(figure["high"])
    return f"{percent(figure['value'])} [{low[:-1]}, {high[:-1]}]"


def bound_saving() -> str:
    """Return the bill of models that bind thinking, from `python -m benchmarks.bound_saving`."""
    rows = [
        [
            f"`{model}`",
            interval(*row["removed"]),
            interval(*row["masked"]),
            f"{row['edits'][0]:.2f}",
            f"{row['blocks'][0]:.0f}",
        ]
        for model, row in results("benchmarks/results/bound-saving.json").items()
    ]
    head = ["model", "steps removed", "steps only masked", "edits per session", "blocks per edit"]
    return table(head, rows)


def bound_agents() -> str:
    """Return real agents before a provider that signs, from `python -m benchmarks.bound_agents`."""
    sessions = results("benchmarks/results/bound-agents.json")["sessions"]
    rows = []
    for name, session in sessions.items():
        if not name.endswith("default plain"):
            continue
        direct = sessions[name.replace("plain", "direct")]
        blocks = ", ".join(str(edit["blocks"]) for edit in session["edits"])
        agent = f"{session['title']} {session['version']}"
        dollars = f"${direct['dollars']:.2f}, ${session['dollars']:.2f}"
        ratio = change(session["dollars"] / direct["dollars"], 0)
        refused = str(len(session["refused"]))
        rows.append([agent, f"`{session['models'][0]}`", dollars, ratio, blocks, refused])
    head = ["agent", "model", "direct, with AGORA", "change", "blocks removed by edit", "refused"]
    return table(head, rows)


def judge_rows(name: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return, by method and task, what a method and the floor lose against sending everything.

    In nats of the recorded action, at a quarter of the unprotected tokens.
    """
    lines = (ROOT / "lab/results/judge" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {
        (row["anchor"], row["method"]): row for row in map(json.loads, lines) if at_quarter(row)
    }
    losses: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (anchor, method), row in rows.items():
        whole, floor = rows[anchor, "everything"], rows.get((anchor, "floor"))
        if floor is not None and method not in {"everything", "floor"}:
            loss = row["action"] - whole["action"], floor["action"] - whole["action"]
            losses.setdefault(method, {}).setdefault(row["task"], []).append(loss)
    return losses


def at_quarter(row: dict[str, Any]) -> bool:
    """Return True for rows at the share of the table, and for the two bounds."""
    return row["keep"] in {None, 0.25} and row["half"] == "test"


def avoided(losses: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Return the share of the floor's loss that a method avoids, with a 95% interval by task."""
    tasks = [tuple(map(sum, zip(*pairs, strict=True))) for pairs in losses.values()]
    chance = random.Random(0)

    def figure(sample: Sequence[tuple[float, ...]]) -> float:
        return 1 - sum(loss for loss, _ in sample) / sum(floor for _, floor in sample)

    samples = sorted(figure(chance.choices(tasks, k=len(tasks))) for _ in range(4_000))
    return {"value": figure(tasks), "low": samples[100], "high": samples[-101]}


PRESENCE = {"airline": "airline", "retail": "retail", "coding": "coding", "intercode": "InterCode"}


def presence_rows() -> dict[tuple[str, float, str], dict[str, Any]]:
    """Return the share of needed names in the prompt, by source, share kept and method.

    From `lab.benchmarks.presence`. The baselines do not depend on AGORA: they were measured once.
    """
    rows = [
        *results("benchmarks/baseline-0.3.json")["presence"]["rows"],
        *results("lab/results/presence.json")["rows"],
    ]
    tests = (row for row in rows if row["half"] == "test")
    return {(row["source"], row["share"], row["method"]): row["names"] for row in tests}


METHODS = {
    "agora": ("default", "**AGORA**"),
    "window": ("sliding window", "sliding window"),
    "commands": ("commands first", "recent commands first"),
}


def presence() -> str:
    """Return the table of needed names that are still in the prompt."""
    names = presence_rows()
    body = []
    for source, title in PRESENCE.items():
        for kept in (0.15, 0.25):
            points = [names[source, kept, method] for method, _ in METHODS.values()]
            shares = [
                share({"value": p["mean"], "low": p["interval"][0], "high": p["interval"][1]})
                for p in points
            ]
            first = f"{title} ({points[0]['n']} prompts)" if kept == 0.15 else ""
            body.append([first, percent(kept), *shares])
    return table(["", "share kept", *(title for _, title in METHODS.values())], body)


def presence_of(source: str, method: str) -> Callable[[], str]:
    """Return a function that gives one figure of that table, at a quarter kept."""
    return lambda: percent(presence_rows()[source, 0.25, method]["mean"])


JUDGED = ("airline and retail", "InterCode", "coding")
FEWEST_PROMPTS = 20
"""A method that was rated at fewer has no figure."""


def judge() -> str:
    """Return the evaluation model's figures, from the runs of `agora lab fidelity run`."""
    runs = [judge_rows(name) for name in ("tools", "shells", "coding")]
    methods = {
        "newest": "sliding window",
        "commands_first": "recent commands first",
        "agora 0.3": "AGORA, version 0.3",
        "agora": "**AGORA**",
    }
    prompts = [sum(map(len, run["newest"].values())) for run in runs]

    def cell(run: dict[str, dict[str, list[tuple[float, float]]]], name: str, most: int) -> str:
        if name not in run:
            return "–"
        count = sum(map(len, run[name].values()))
        if count < FEWEST_PROMPTS:
            return f"{count} prompts: too few"
        return share(avoided(run[name])) + (f", {count} prompts" if count < most else "")

    head = [
        "",
        *(f"{title} ({count} prompts)" for title, count in zip(JUDGED, prompts, strict=True)),
    ]
    body = [
        [title, *(cell(run, name, most) for run, most in zip(runs, prompts, strict=True))]
        for name, title in methods.items()
        if any(name in run for run in runs)
    ]
    return table(head, body)


def experiment_errors() -> str:
    """Return how often an interval excluded the truth, from `benchmarks.experiment_errors`."""
    rows = results("benchmarks/results/experiment-errors.json")
    worst = max(max(row["left_out_the_truth"], row["typical_left_out_the_truth"]) for row in rows)
    return percent(worst, 1)


WAYS = {
    "default": "**AGORA**",
    "free only": 'AGORA, `edits="free"`',
    "the provider's own clearing": "Anthropic's context editing",
}
GROUPS = {
    "all": "all",
    "60 calls or more": "60 calls or more",
    "5 minutes": "cache of 5 minutes",
    "1 hour": "cache of 1 hour",
}
SMALLEST_GROUP = 5
"""Groups with fewer sessions are not shown."""


def break_even(row: dict[str, Any]) -> float:
    """Return the share of extra calls, each as dear as the mean one, that uses the saving up."""
    return float((row["everything"] - row["dollars"]) / (row["dollars"] + row["output"]))


def bill_rows(path: str, title: str = "") -> list[list[str]]:
    """Return the bill of recorded sessions by group and way, from `python -m benchmarks.bill`."""
    rows = []
    groups = results(f"benchmarks/results/{path}")["groups"]
    for group in [*GROUPS, *sorted(groups.keys() - GROUPS.keys())]:
        ways = groups.get(group, {})
        if not ways or ways["default"]["sessions"] < SMALLEST_GROUP or (title and group != "all"):
            continue
        for way, words in WAYS.items():
            row = ways.get(way)
            if row is None or (way == "free only" and group != "all"):
                continue
            name = title or GROUPS.get(group, group)
            after = row["names_after_an_edit"]
            rows.append(
                [
                    f"{name}: {row['sessions']}, ${row['everything']:,.0f}"
                    if way == "default"
                    else "",
                    words,
                    percent(-row["saved"], 1),
                    f"+{percent(break_even(row))}" if row["saved"] > 0 else "–",
                    percent(row["names"], 1),
                    percent(after, 1) if after else "–",
                    f"{row['worst_moment']:.3f}",
                ]
            )
    return rows


BILL_HEAD = ["sessions", "", "input bill", "break-even", "names", "after edit", "worst"]


def bill_claude_code() -> str:
    """Return the bill of the Claude Code sessions: all, by lifetime of the cache, by model."""
    return table(BILL_HEAD, bill_rows("bill-claude-code.json"))


def bill_gemini() -> str:
    """Return the bill of the 500 coding runs, at the prices they were billed at and at others."""
    rows = []
    for path in sorted((ROOT / "benchmarks/results").glob("bill-gemini*.json"), reverse=True):
        model = path.stem.removeprefix("bill-gemini").removeprefix("-") or "gemini-3-pro"
        rows += bill_rows(path.name, model)
    return table(BILL_HEAD, rows)


def bill_check() -> str:
    """Return how far the simulation of sending everything is from the provider's bill."""
    made = results("benchmarks/results/bill-claude-code.json")
    error = made["simulated"] / made["billed"] - 1
    return (
        f"{made['recordings']} Claude Code recordings with {made['calls']:,} calls: "
        f"${made['simulated']:,.0f} simulated, ${made['billed']:,.0f} billed ({100 * error:+.1f}%)"
    )


def bound() -> str:
    """Return how many calls of drawn runs exceed the bound, from `python -m benchmarks.bound`."""
    made = results("benchmarks/results/bound.json")
    return f"{made['exceeded']} of {made['calls']:,} calls of {made['runs']:,} drawn runs"


def of_all(field: str, path: str = "bill-claude-code.json") -> Callable[[], str]:
    """Return a function that gives one figure of all Claude Code sessions of a file."""

    def figure() -> str:
        ways = results(f"benchmarks/results/{path}")["groups"]["all"]
        row, clearing = ways["default"], ways["the provider's own clearing"]
        figures = {
            "sessions": f"{row['sessions']}",
            "saved": percent(row["saved"], 1),
            "names": percent(row["names"], 1),
            "break-even": f"+{percent(break_even(row))}",
            "worst": f"{row['worst_moment']:.3f}",
            "nothing": percent(row["nothing_saved"]),
            "clearing": percent(clearing["saved"], 1),
            "clearing-names": percent(clearing["names"], 1),
            "clearing-worst": f"{clearing['worst_moment']:.2f}",
        }
        return figures[field]

    return figure


def settings() -> str:
    """Return the example in the docstring of the settings, a whole file."""
    module = ast.parse((ROOT / "src/agora/service/settings.py").read_text(encoding="utf-8"))
    _, _, example = (ast.get_docstring(module) or "").partition("\n\n")
    return f"\n```toml\n{example.strip()}\n```\n"


FIGURES: dict[str, Callable[[], str]] = {
    "settings": settings,
    **{
        f"all-{field}": of_all(field)
        for field in (
            *("sessions", "saved", "names", "break-even", "worst", "nothing"),
            *("clearing", "clearing-names", "clearing-worst"),
        )
    },
    **{
        f"small-{field}": of_all(field, "bill-claude-code-small.json")
        for field in ("sessions", "saved", "names", "clearing", "clearing-names")
    },
    "bill-check": bill_check,
    "bound": bound,
    "presence": presence,
    **{
        f"presence-{source}-{key}": presence_of(source, method)
        for source in PRESENCE
        for key, (method, _) in METHODS.items()
    },
    "bill-claude-code": bill_claude_code,
    "bill-gemini": bill_gemini,
    "bound-saving": bound_saving,
    "bound-agents": bound_agents,
    "judge": judge,
    "experiment-errors": experiment_errors,
}


# Pictures

WIDTH = 860


@dataclass(frozen=True, slots=True)
class Colors:
    """The colours of one scheme."""

    text: str
    quiet: str
    ground: str
    card: str
    protected: str
    kept: str
    removed: str
    on_block: str


SCHEMES = {
    "light": Colors(
        "#1f2328", "#59636e", "#ffffff", "#f6f8fa", "#2f6fd0", "#3c8c5a", "#b8651b", "#ffffff"
    ),
    "dark": Colors(
        "#e6edf3", "#9198a1", "#0d1117", "#161b22", "#4c8be8", "#4aa36c", "#e0913f", "#0d1117"
    ),
}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the prompt: its tokens before and after an edit, its kind and its words."""

    before: int
    after: int
    kind: str
    label: str
    line: str = ""


def svg(height: int, title: str, body: Sequence[str], colors: Colors) -> str:
    """Return a whole picture."""
    style = (
        f"text{{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;fill:{colors.text}}}"
        ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
        f".quiet{{fill:{colors.quiet}}}.on{{fill:{colors.on_block}}}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{colors.ground}"/>'
    title = f"<title>{escape(title)}</title><style>{style}</style>"
    return "\n".join([head, title, ground, *body, "</svg>"]) + "\n"


def text(
    x: float, y: float, words: str, size: int = 14, css: str = "", *, bold: bool = False
) -> str:
    """Return a line of text."""
    weight = ' font-weight="600"' if bold else ""
    css = f' class="{css}"' if css else ""
    return f'<text x="{x:g}" y="{y:.1f}" font-size="{size}"{css}{weight}>{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, color: str) -> str:
    """Return a filled rectangle."""
    return f'<rect x="{x:g}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def cut(words: str, length: int) -> str:
    """Return a text that fits."""
    return words if len(words) <= length else words[: length - 1] + "…"


def session_blocks() -> tuple[list[Block], int, int]:
    """Return the demo session's parts in order, and its tokens before and after."""
    body = json.loads(SESSION.read_text(encoding="utf-8"))
    tools = body.get("tools")
    compression = agora.compress(body["messages"], model=body["model"], tools=tools)
    steps = agora.parse(body["messages"], tools=tools).steps
    count = agora.EstimatedTokens().count
    instructions = compression.tokens_before - sum(step.tokens for step in steps)
    blocks = [Block(instructions, instructions, "protected", "system, user, tools")]
    for step, decision in zip(steps, compression.decisions, strict=True):
        if decision.outcome == "elided":
            label = decision.text.partition(" -> ")[0] or " ".join(step.action.split())
            line = f"{step.number} {decision.text}"
            blocks.append(Block(step.tokens, count(decision.text), "removed", label, line))
        else:
            kind = "protected" if decision.outcome == "protected" else "kept"
            label = " ".join(step.action.split())
            blocks.append(Block(step.tokens, step.tokens, kind, label))
    return blocks, compression.tokens_before, compression.tokens_after


def prompt_picture(colors: Colors) -> str:
    """Draw a prompt before and after an edit: a block for each step, both at one scale."""
    blocks, before, after = session_blocks()
    fill = {"protected": colors.protected, "kept": colors.kept, "removed": colors.removed}
    top, tall, wide = 64, 456, 300
    scale = tall / before
    # Notes and the headings of markers count too: they are shared out among the lines.
    lines = sum(block.kind == "removed" for block in blocks)
    heading = max(after - sum(block.after for block in blocks), 0) / max(lines, 1)
    body = [
        text(20, 28, "Before", 18, bold=True),
        text(20, 50, f"{before:,} tokens", 14, "quiet"),
        text(400, 28, "After an edit", 18, bold=True),
        text(400, 50, f"{after:,} tokens, {100 - round(100 * after / before)}% fewer", 14, "quiet"),
    ]
    left = right = float(top)
    for block in blocks:
        height = block.before * scale
        body.append(bar(20, left, wide, max(height - 1, 0.6), fill[block.kind]))
        if height >= 13:
            body.append(text(27, left + height / 2 + 3.5, cut(block.label, 46), 10, "mono on"))
        left += height
        height = (block.after + (heading if block.kind == "removed" else 0)) * scale
        body.append(bar(400, right, wide, max(height - 0.5, 0.5), fill[block.kind]))
        right += height
    body += _legend(colors, right + 34)
    body += _largest([block for block in blocks if block.kind == "removed"], colors, right + 120)
    return svg(top + tall + 20, "A prompt before and after an edit", body, colors)


def _legend(colors: Colors, y: float) -> Iterator[str]:
    entries = (
        (colors.protected, "protected: instructions, user text, the newest steps"),
        (colors.kept, "old steps that stay word for word"),
        (colors.removed, "old steps that become a line or a note"),
    )
    for n, (color, words) in enumerate(entries):
        yield bar(400, y + 22 * n - 10, 12, 12, color)
        yield text(420, y + 22 * n, words, 13)


def _largest(removed: Sequence[Block], colors: Colors, y: float) -> Iterator[str]:
    largest = sorted(sorted(removed, key=lambda block: -block.before)[:3], key=removed.index)
    height = 38 + 44 * len(largest)
    yield f'<rect x="400" y="{y:.0f}" width="440" height="{height}" rx="6" fill="{colors.card}"/>'
    yield text(414, y + 24, "What is left of the three largest:", 13, bold=True)
    for n, block in enumerate(largest):
        call, _, facts = block.line.partition(" -> ")
        yield text(414, y + 50 + 44 * n, cut(call, 62), 11, "mono")
        yield text(414, y + 66 + 44 * n, f"-> {cut(facts, 58)}", 11, "mono quiet")


def bills() -> list[tuple[str, dict[str, Any]]]:
    """Return the recorded sessions by model, from the files of `python -m benchmarks.bill`."""
    rows = []
    for path, title in (
        ("bill-claude-code.json", ""),
        ("bill-gemini.json", "gemini-3-pro"),
        ("bill-gemini-gpt-5.json", "the same at gpt-5's prices"),
        ("bill-gemini-claude-opus-5-5.json", "the same at claude-opus-5-5's"),
    ):
        if not (ROOT / "benchmarks/results" / path).exists():
            continue
        groups = results(f"benchmarks/results/{path}")["groups"]
        for group in sorted(groups):
            row = groups[group]["default"]
            is_shown = group == "all" if title else group.startswith("claude")
            if is_shown and row["sessions"] >= SMALLEST_GROUP:
                rows.append((title or group, row))
    return rows


def bill_picture(colors: Colors) -> str:
    """Draw the input bill with AGORA beside everything, and how many extra calls use it up."""
    rows, step, left, wide = bills(), 46, 240, 300
    body = [
        text(20, 30, "Input bill of recorded sessions", 18, bold=True),
        text(20, 52, "whole bar: everything sent; green: saved", 13, "quiet"),
        text(left + wide + 30, 30, "Saved", 18, bold=True),
        text(left + wide + 130, 30, "Limit", 18, bold=True),
        text(left + wide + 130, 52, "used up by extra calls", 13, "quiet"),
    ]
    for n, (title, row) in enumerate(rows):
        y = 72 + step * n
        size = f"{row['sessions']} sessions, ${row['everything']:,.0f}"
        body.append(text(20, y + 15, title, 14))
        body.append(text(20, y + 31, size, 11, "quiet"))
        body.append(bar(left, y + 4, wide, 24, colors.kept))
        body.append(bar(left, y + 4, wide * (1 - row["saved"]), 24, colors.protected))
        body.append(text(left + 8, y + 21, f"${row['dollars']:,.0f}", 12, "on"))
        body.append(text(left + wide + 30, y + 21, percent(row["saved"], 1), 15, bold=True))
        body.append(text(left + wide + 130, y + 21, f"+{percent(break_even(row))} calls", 14))
    return svg(72 + step * len(rows) + 14, "Input bill with AGORA by model", body, colors)


PICTURES: dict[str, Callable[[Colors], str]] = {"prompt": prompt_picture, "bill": bill_picture}


# Install lines

_INSTALL = re.compile(r"(?m)^(.*?\bpip install )(.*?)(`.*|\s*#.*)?$")
_CHECKOUT = (
    (re.compile(r"(?<=\s)'\./lab(\[[\w,-]+\])'"), r"'agora-lab\1'"),
    (re.compile(r"(?<=\s)\./lab(?=\s|$)"), "agora-lab"),
    (re.compile(r"(?<=\s)'\.(\[[\w,-]+\])'"), r"'agora-context\1'"),
    (re.compile(r"(?<=\s)\.(?=\s|$)"), "agora-context"),
)


def install_lines(page: str) -> str:
    """Return a page with install lines for the package index.

    >>> install_lines("pip install '.[wrap]'     # in a checkout")
    "pip install 'agora-context[wrap]'"
    """

    def line(match: re.Match[str]) -> str:
        packages = f" {match[2]}"
        for local, published in _CHECKOUT:
            packages = local.sub(published, packages)
        rest = match[3] or ""
        return match[1] + packages[1:] + ("" if "checkout" in rest and "#" in rest else rest)

    return _INSTALL.sub(line, page)


def where_to_install() -> str:
    """Return the sentence that says where the package comes from."""
    if RELEASED:
        return "Install from the package index:"
    return "No release has been published, so install from a checkout:"


FIGURES["install"] = where_to_install


# All of it


def pages() -> list[Path]:
    """Return the pages with made parts."""
    outside = [ROOT / "README.md", *(ROOT / "lab").glob("*.md"), *(ROOT / "lab/docs").glob("*.md")]
    return [*outside, *sorted((ROOT / "docs").rglob("*.md"))]


def filled(page: str) -> str:
    """Return a page with its figures of today."""
    page = _FRAGMENT.sub(_fill, page)
    return install_lines(page) if RELEASED else page


def _fill(fragment: re.Match[str]) -> str:
    # The table of tested releases is written by its own suite.
    figure = FIGURES.get(fragment[2])
    return fragment[1] + (figure() if figure else fragment[3]) + fragment[4]


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file with what it should hold."""
    for page in pages():
        yield page, filled(page.read_text(encoding="utf-8"))
    for name, draw in PICTURES.items():
        for scheme, colors in SCHEMES.items():
            yield IMAGES / f"{name}-{scheme}.svg", draw(colors)


def main() -> int:
    """Write every file that differs, or only name it."""
    check = "--check" in sys.argv[1:]
    stale = 0
    for path, content in made():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            stale += 1
            sys.stdout.write(f"{path.relative_to(ROOT)}{' is out of date' if check else ''}\n")
            if not check:
                path.write_text(content, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
