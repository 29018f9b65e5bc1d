"""Writes what pages do not say by hand: figures, pictures and how to install.

    python docs/make_pages.py            # write
    python docs/make_pages.py --check    # name what would change

A figure is between `<!-- made: NAME -->` and `<!-- /made -->`. `FIGURES` makes it from a result
file that a command of this tree wrote. Each picture is two SVG files, for light and for dark pages.
Install lines name a checkout until `agora.errors.RELEASED` is true, and the package index then.
"""

import ast
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import agora
from agora.errors import RELEASED

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SESSION = ROOT / "src" / "agora" / "cli" / "demo" / "session.json"
BASELINE = "benchmarks/baseline-0.3.json"
Json = dict[str, Any]


def read(name: str) -> str:
    """Return the text of a file, by its path below the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def results(name: str) -> Any:
    """Return the content of a JSON file, by its path below the repository."""
    return json.loads(read(name))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def percent(share: float, digits: int = 0) -> str:
    """Return a share as people read it."""
    return f"{100 * share:.{digits}f}%"


def interval(value: float, low: float, high: float) -> str:
    """Return a value with its 95% interval."""
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def share(value: float, low: float, high: float) -> str:
    """Return a share with its 95% interval."""
    return f"{percent(value)} [{100 * low:.0f}, {100 * high:.0f}]"


# Bills of recorded sessions, from `python -m benchmarks.bill`

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


def groups(sessions: str) -> dict[str, dict[str, Json]]:
    """Return the rows of a bill by group and way; groups are all, by lifetime, by model."""
    found = results(f"benchmarks/results/bill-{sessions}.json")["groups"]
    return {
        name: found[name]
        for name in [*GROUPS, *sorted(found.keys() - GROUPS.keys())]
        if name in found and found[name]["default"]["sessions"] >= SMALLEST_GROUP
    }


def harm(environment: str) -> Callable[[], str]:
    """Return the maker of a table of harm, from `python -m lab.benchmarks.harm`."""

    def made() -> str:
        def both(figure: dict[str, Any], digits: int) -> str:
            low, high = figure["interval"]
            return f"{figure['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"

        rows = []
        for name, row in results(f"lab/results/harm-{environment}.json")["rows"].items():
            extra = row.get("extra calls per 1,000 removed")
            rows.append(
                [
                    name,
                    both(row["dollars, ratio"], 2),
                    both(row["calls, ratio"], 2),
                    both(row["outcome"], 3),
                    both(extra, 2) if extra else "",
                    f"{row['break-even']['value']:.2f}" if extra else "",
                ]
            )
        head = ["", "dollars", "calls", "outcome", "extra calls per 1,000 tokens", "break-even"]
        return table(head, rows)

    return made


def soak() -> str:
    """Return the hour of load, from `python -m benchmarks.gateway_soak`."""
    rows = []
    for part, what in (
        ("alone", "64 sessions"),
        ("beside", "the same beside three of 10,000 steps"),
    ):
        row = results("benchmarks/results/soak.json")[f"soak, {part}"]
        unwanted = max(0, row["prefix_breaks"] - row["new_edits"])
        figures = [f"{row[name]:,}" for name in ("calls", "failed")]
        times = [f"{row[name]:,.0f} ms" for name in ("p50_ms", "p99_ms", "worst_session_p99_ms")]
        memory = [f"{row[name]:,} MB" for name in ("envoy_mb", "filter_mb")]
        rows.append([what, *figures, f"{unwanted}", *times, *memory])
    head = ["", "calls", "failed", "unwanted breaks", "p50", "p99", "worst session's p99"]
    return table([*head, "Envoy", "filter and workers"], rows)


def break_even(row: Json) -> str:
    """Return the share of extra calls, each as dear as the mean one, that uses the saving up."""
    return "+" + percent((row["everything"] - row["dollars"]) / (row["dollars"] + row["output"]))


def bill_row(row: Json, way: str, title: str) -> list[str]:
    """Return a row of the table of bills; `title` names the group."""
    after = row["names_after_an_edit"]
    return [
        f"{title}: {row['sessions']}, ${row['everything']:,.0f}" if way == "default" else "",
        WAYS[way],
        percent(-row["saved"], 1),
        break_even(row) if row["saved"] > 0 else "–",
        percent(row["names"], 1),
        percent(after, 1) if after else "–",
        f"{row['worst_moment']:.3f}",
    ]


def bills(*shown: tuple[str, str]) -> str:
    """Return the table of bills of some files, each with a title, or with none for every group."""
    rows = [
        bill_row(ways[way], way, title or GROUPS.get(group, group))
        for sessions, title in shown
        for group, ways in groups(sessions).items()
        for way in WAYS
        if way in ways and (group == "all" or not title) and (group == "all" or way != "free only")
    ]
    head = ["sessions", "", "input bill", "break-even", "names", "after edit", "worst"]
    return table(head, rows)


def of_bill(sessions: str, field: str) -> str:
    """Return one figure of all sessions of a file."""
    ways = groups(sessions)["all"]
    row, clearing = ways["default"], ways["the provider's own clearing"]
    figures = {
        "sessions": str(row["sessions"]),
        "saved": percent(row["saved"], 1),
        "names": percent(row["names"], 1),
        "worst": f"{row['worst_moment']:.3f}",
        "nothing": percent(row["nothing_saved"]),
        "clearing": percent(clearing["saved"], 1),
        "clearing-names": percent(clearing["names"], 1),
        "clearing-worst": f"{clearing['worst_moment']:.2f}",
    }
    return figures[field]


def bill_check() -> str:
    """Return how far the simulation of sending everything is from the provider's bill."""
    bill = results("benchmarks/results/bill-claude-code.json")
    error = 100 * (bill["simulated"] / bill["billed"] - 1)
    return (
        f"{bill['recordings']} Claude Code recordings with {bill['calls']:,} calls: "
        f"${bill['simulated']:,.0f} simulated, ${bill['billed']:,.0f} billed ({error:+.1f}%)"
    )


def bound() -> str:
    """Return how many calls of drawn runs exceed the bound, from `python -m benchmarks.bound`."""
    drawn = results("benchmarks/results/bound.json")
    return f"{drawn['exceeded']} of {drawn['calls']:,} calls of {drawn['runs']:,} drawn runs"


# Models that bind their thinking


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
        if name.endswith("default plain"):
            direct = sessions[name.replace("plain", "direct")]["dollars"]
            row = [
                f"{session['title']} {session['version']}",
                f"`{session['models'][0]}`",
                f"${direct:.2f}, ${session['dollars']:.2f}",
                f"{100 * (session['dollars'] / direct - 1):+.0f}%",
                ", ".join(str(edit["blocks"]) for edit in session["edits"]),
                str(len(session["refused"])),
            ]
            rows.append(row)
    head = ["agent", "model", "direct, with AGORA", "change", "blocks removed by edit", "refused"]
    return table(head, rows)


# What an edit keeps: names in the prompt, and an evaluation model's view

METHODS = {
    "agora": ("default", "**AGORA**"),
    "window": ("sliding window", "sliding window"),
    "commands": ("commands first", "recent commands first"),
}
SOURCES = {"airline": "airline", "retail": "retail", "coding": "coding", "intercode": "InterCode"}


def names_kept(source: str, kept: float, method: str) -> Json:
    """Return the share of needed names in the prompt, from `python -m lab.benchmarks.presence`.

    The baselines do not depend on AGORA: they were measured once.
    """
    key = (source, kept, METHODS[method][0], "test")
    rows = [*results("lab/results/presence.json")["rows"], *results(BASELINE)["presence"]["rows"]]
    found = (r for r in rows if (r["source"], r["share"], r["method"], r["half"]) == key)
    names: Json = next(found)["names"]
    return names


def presence() -> str:
    """Return the table of needed names that are still in the prompt."""
    rows = []
    for source, title in SOURCES.items():
        for kept in (0.15, 0.25):
            cells = [names_kept(source, kept, method) for method in METHODS]
            first = f"{title} ({cells[0]['n']} prompts)" if kept == 0.15 else ""
            shares = [share(cell["mean"], *cell["interval"]) for cell in cells]
            rows.append([first, percent(kept), *shares])
    return table(["", "share kept", *(title for _, title in METHODS.values())], rows)


def of_presence(source: str, method: str) -> str:
    """Return one figure of that table, at a quarter kept."""
    return percent(names_kept(source, 0.25, method)["mean"])


JUDGED = {"tools": "airline and retail", "shells": "InterCode", "coding": "coding"}
RATED = {
    "newest": "sliding window",
    "commands_first": "recent commands first",
    "agora 0.3": "AGORA, version 0.3",
    "agora": "**AGORA**",
}
FEWEST_PROMPTS = 20
"""A method that was rated at fewer has no figure."""
Losses = Mapping[str, list[tuple[float, float]]]


def losses(run: str, method: str) -> Losses:
    """Return what a method and the floor lose against sending everything, by task.

    In nats of the recorded action, at a quarter of the unprotected tokens, from the runs of
    `agora lab fidelity run`.
    """
    lines = map(json.loads, read(f"lab/results/judge/{run}.jsonl").splitlines())
    rows = {
        (row["anchor"], row["method"]): row
        for row in lines
        if row["keep"] in {None, 0.25} and row["half"] == "test"
    }
    by_task: dict[str, list[tuple[float, float]]] = {}
    for (anchor, name), row in rows.items():
        floor, whole = rows.get((anchor, "floor")), rows[anchor, "everything"]["action"]
        if name == method and floor is not None:
            loss = row["action"] - whole, floor["action"] - whole
            by_task.setdefault(row["task"], []).append(loss)
    return by_task


def avoided(by_task: Losses) -> tuple[float, float, float]:
    """Return the share of the floor's loss that a method avoids, with a 95% interval by task."""
    tasks = [tuple(map(sum, zip(*pairs, strict=True))) for pairs in by_task.values()]
    chance = random.Random(0)

    def figure(sample: Sequence[tuple[float, ...]]) -> float:
        return 1 - sum(loss for loss, _ in sample) / sum(floor for _, floor in sample)

    samples = sorted(figure(chance.choices(tasks, k=len(tasks))) for _ in range(4_000))
    return figure(tasks), samples[100], samples[-101]


def prompts(by_task: Losses) -> int:
    """Return the number of prompts that were rated."""
    return sum(map(len, by_task.values()))


def judge() -> str:
    """Return the table of the evaluation model's figures."""
    most = {run: prompts(losses(run, "newest")) for run in JUDGED}

    def cell(run: str, method: str) -> str:
        found = losses(run, method)
        count = prompts(found)
        if count < FEWEST_PROMPTS:
            return f"{count} prompts: too few" if count else "–"
        return share(*avoided(found)) + (f", {count} prompts" if count < most[run] else "")

    head = ["", *(f"{title} ({most[run]} prompts)" for run, title in JUDGED.items())]
    rows = [[title, *(cell(run, method) for run in JUDGED)] for method, title in RATED.items()]
    return table(head, rows)


# Single figures


def experiment_errors() -> str:
    """Return how often an interval excluded the truth, from `benchmarks.experiment_errors`."""
    rows = results("benchmarks/results/experiment-errors.json")
    worst = max(max(row["left_out_the_truth"], row["typical_left_out_the_truth"]) for row in rows)
    return percent(worst, 1)


def extra_calls(world: str) -> str:
    """Return by how much the calls of scripted agents grew, with version 0.3."""
    return percent(results(BASELINE)[world]["figures"]["calls, default to everything"]["value"] - 1)


def scoreboard(contender: str, column: str) -> str:
    """Return a figure of the table that `agora lab scoreboard` makes of Claude Code sessions."""
    section = read("docs/evidence/scoreboard.md").partition("\n### Claude Code sessions\n")[2]
    lines = [line for line in section.partition("\n###")[0].splitlines() if line.startswith("|")]
    rows = [
        [cell.strip() for cell in line.replace("*", "").strip("|").split("|")] for line in lines
    ]
    [row] = [row for row in rows if row[0].startswith(f"{contender} (")]
    return row[rows[0].index(column)].partition(" ")[0]


def settings() -> str:
    """Return the example in the docstring of the settings, a whole file."""
    docstring = ast.get_docstring(ast.parse(read("src/agora/service/settings.py"))) or ""
    _, _, example = docstring.partition("\n\n")
    return f"\n```toml\n{example.strip()}\n```\n"


def where_to_install() -> str:
    """Return the sentence that says where the package comes from."""
    if RELEASED:
        return "Install from the package index:"
    return "No release has been published, so install from a checkout:"


DISTIL = "distil compress_messages(), default"
OURS = "AGORA, default"
_BILL = ("sessions", "saved", "names", "worst", "nothing")
_CLEARING = ("clearing", "clearing-names", "clearing-worst")
FIGURES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "install": where_to_install,
    **{f"all-{field}": partial(of_bill, "claude-code", field) for field in (*_BILL, *_CLEARING)},
    **{
        f"small-{field}": partial(of_bill, "claude-code-small", field)
        for field in (*_BILL, *_CLEARING)
    },
    "bill-check": bill_check,
    "bill-claude-code": partial(bills, ("claude-code", "")),
    "bill-gemini": partial(bills, ("gemini", "gemini-3-pro"), ("gemini-gpt-5", "gpt-5")),
    "bound": bound,
    "bound-saving": bound_saving,
    "bound-agents": bound_agents,
    "presence": presence,
    **{
        f"presence-{source}-{method}": partial(of_presence, source, method)
        for source in SOURCES
        for method in METHODS
    },
    **{
        f"presence-{source}-n": lambda source=source: str(names_kept(source, 0.25, "agora")["n"])
        for source in SOURCES
    },
    "judge": judge,
    "judge-coding-n": lambda: str(prompts(losses("coding", "newest"))),
    "judge-coding-agora": lambda: percent(avoided(losses("coding", "agora 0.3"))[0]),
    "judge-coding-commands": lambda: percent(avoided(losses("coding", "commands_first"))[0]),
    "experiment-errors": experiment_errors,
    "harm-desk": harm("desk"),
    "soak": soak,
    "extra-calls-desk": partial(extra_calls, "desk"),
    "distil-saved": partial(scoreboard, DISTIL, "saved"),
    "distil-names": partial(scoreboard, DISTIL, "found"),
    "distil-agora-saved": partial(scoreboard, OURS, "saved"),
    "distil-agora-names": partial(scoreboard, OURS, "found"),
    "distil-n": partial(scoreboard, OURS, "n"),
    "board-worst": partial(scoreboard, OURS, "worst moment"),
}


# Pictures, drawn for a width that a phone can show

WIDTH = 640


class Colors(NamedTuple):
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


def svg(height: float, title: str, body: Sequence[str], colors: Colors) -> str:
    """Return a whole picture."""
    style = (
        f"text{{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;fill:{colors.text}}}"
        ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
        f".quiet{{fill:{colors.quiet}}}.on{{fill:{colors.on_block}}}.bold{{font-weight:600}}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
    )
    return "\n".join([head, bar(0, 0, WIDTH, height, colors.ground), *body, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, size: int, css: str = "", length: int = 999) -> str:
    """Return a line of text, cut off after `length` characters."""
    words = words if len(words) <= length else words[: length - 1] + "…"
    css = f' class="{css}"' if css else ""
    return f'<text x="{x:g}" y="{y:.1f}" font-size="{size}"{css}>{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, color: str) -> str:
    """Return a filled rectangle."""
    return f'<rect x="{x:g}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def prompt_picture(colors: Colors) -> str:
    """Draw the demo's prompt before and after an edit: a block for each step, both at one scale."""
    body = json.loads(SESSION.read_text(encoding="utf-8"))
    compression = agora.compress(body["messages"], model=body["model"], tools=body.get("tools"))
    steps = agora.parse(body["messages"], tools=body.get("tools")).steps
    before, after = compression.tokens_before, compression.tokens_after
    count = agora.EstimatedTokens().count
    elided = [d for d in compression.decisions if d.outcome == "elided"]
    left = {d.number: float(count(d.text)) for d in elided}
    fixed = float(before - sum(step.tokens for step in steps))
    # Notes and the headings of markers count too: they are shared out among the lines.
    rest = after - fixed - sum(s.tokens for s in steps if s.number not in left)
    heading = max(0.0, rest - sum(left.values())) / max(1, len(left))
    top, tall, wide, right = 62.0, 400.0, 276.0, 348.0
    scale = tall / before
    drawn = [
        text(16, 26, "Before", 18, "bold"),
        text(16, 48, f"{before:,} tokens", 14, "quiet"),
        text(right, 26, "After an edit", 18, "bold"),
        text(right, 48, f"{after:,} tokens, {1 - after / before:.0%} fewer", 14, "quiet"),
        bar(16, top, wide, fixed * scale - 1, colors.protected),
        bar(right, top, wide, fixed * scale - 1, colors.protected),
    ]
    y = y_after = top + fixed * scale
    fill = {"protected": colors.protected, "kept": colors.kept, "elided": colors.removed}
    for step, decision in zip(steps, compression.decisions, strict=True):
        color, height = fill[decision.outcome], step.tokens * scale
        drawn.append(bar(16, y, wide, max(height - 1, 0.6), color))
        if height >= 14:
            label = decision.text.partition(" -> ")[0] or " ".join(step.action.split())
            drawn.append(text(22, y + height / 2 + 4, label, 11, "mono on", 39))
        y += height
        height = (left[step.number] + heading if step.number in left else step.tokens) * scale
        drawn.append(bar(right, y_after, wide, max(height - 0.5, 0.5), color))
        y_after += height
    legend = {
        "protected: instructions, newest steps": colors.protected,
        "old steps kept word for word": colors.kept,
        "old steps replaced by a line or a note": colors.removed,
    }
    for n, (words, color) in enumerate(legend.items()):
        drawn.append(bar(right, y_after + 24 * n + 24, 13, 13, color))
        drawn.append(text(right + 20, y_after + 24 * n + 35, words, 14))
    card = top + tall + 18
    drawn.append(bar(16, card, WIDTH - 32, 176, colors.card))
    drawn.append(text(28, card + 26, "What is left of the three largest:", 14, "bold"))
    largest = sorted(elided, key=lambda d: -steps[d.number - 1].tokens)[:3]
    for n, decision in enumerate(sorted(largest, key=lambda d: d.number)):
        call, _, facts = f"{decision.number} {decision.text}".partition(" -> ")
        drawn.append(text(28, card + 52 + 44 * n, call, 13, "mono", 74))
        drawn.append(text(28, card + 69 + 44 * n, f"-> {facts}", 13, "mono quiet", 74))
    return svg(card + 192, "A prompt before and after an edit", drawn, colors)


def bill_picture(colors: Colors) -> str:
    """Draw the input bill by model, and the share of extra calls that uses the saving up."""
    rows = [(g, ways["default"]) for g, ways in groups("claude-code").items() if "claude" in g]
    rows += [("gemini-3-pro", groups("gemini")["all"]["default"])]
    rows += [("same at gpt-5's prices", groups("gemini-gpt-5")["all"]["default"])]
    left, wide = 206.0, 200.0
    drawn = [
        text(16, 28, "Input bill of recorded sessions", 18, "bold"),
        text(16, 50, "whole bar: everything sent; green: saved", 14, "quiet"),
        text(left + wide + 24, 28, "Saved", 18, "bold"),
        text(left + wide + 112, 28, "Limit", 18, "bold"),
        text(left + wide + 112, 50, "in extra calls", 14, "quiet"),
    ]
    for n, (title, row) in enumerate(rows):
        y = 70.0 + 46 * n
        drawn += [
            text(16, y + 15, title, 14),
            text(16, y + 32, f"{row['sessions']} sessions, ${row['everything']:,.0f}", 12, "quiet"),
            bar(left, y + 4, wide, 26, colors.kept),
            bar(left, y + 4, wide * (1 - row["saved"]), 26, colors.protected),
            text(left + 8, y + 22, f"${row['dollars']:,.0f}", 14, "on"),
            text(left + wide + 24, y + 22, percent(row["saved"], 1), 16, "bold"),
            text(left + wide + 112, y + 22, break_even(row), 16),
        ]
    return svg(78 + 46 * len(rows), "Input bill with AGORA by model", drawn, colors)


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


# All of it

_FRAGMENT = re.compile(r"(<!-- made: ([\w-]+) -->)(.*?)(<!-- /made -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return a page with its figures of today."""

    def fill(fragment: re.Match[str]) -> str:
        # The table of tested releases is written by its own suite.
        figure = FIGURES.get(fragment[2])
        return fragment[1] + (figure() if figure else fragment[3]) + fragment[4]

    page = _FRAGMENT.sub(fill, page)
    return install_lines(page) if RELEASED else page


def made() -> Iterator[tuple[Path, str]]:
    """Yield each file with the content that it should have."""
    for folder in (ROOT, ROOT / "lab", ROOT / "lab/docs"):
        for page in sorted(folder.glob("*.md")):
            yield page, filled(page.read_text(encoding="utf-8"))
    for page in sorted((ROOT / "docs").rglob("*.md")):
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
