"""Draws a figure for each concept, from what the package does with one made-up trajectory.

Run without any extra installed but `cli`: python docs/images/make_concepts.py
"""

import importlib.util
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from agora import Budget, Compressor, load_scorer
from agora.adapters import make_request, parse
from agora.core.compression import Compression
from agora.core.scorer import Scorer

FOLDER = Path(__file__).parent.parent / "concepts"
WIDTH = 720
STYLE = """
.card{fill:#fff;stroke:#dfe3e8}.ink{fill:#1b1f27}.soft{fill:#565e6c}.line{stroke:#c4cad3}
.fixed{fill:#9aa3b0}.floor{fill:#2f7fb8}.kept{fill:#3f9a5f}.elided{fill:#e9a13b}
.markers{fill:#8f5bb0}.on{fill:#fff}.rule{stroke:#a3261b;fill:none}.warn{fill:#a3261b}
.well{fill:#eef1f5}
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.mono{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.b{font-weight:650}.end{text-anchor:end}.mid{text-anchor:middle}
@media (prefers-color-scheme:dark){
.card{fill:#1b2027;stroke:#313843}.ink{fill:#e8ebf0}.soft{fill:#a4adbb}.line{stroke:#49525f}
.fixed{fill:#717b8a}.floor{fill:#5aa9de}.kept{fill:#6cc48b}.elided{fill:#d98a1c}
.markers{fill:#b98ad8}.on{fill:#10141a}.rule{stroke:#ff9f92}.warn{fill:#ff9f92}.well{fill:#242a33}
}
"""


def text(x: float, y: float, words: str, kind: str = "ink") -> str:
    """Return a line of words."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, wide: float, high: float, kind: str, about: str = "") -> str:
    """Return a filled box, with a title where it says something."""
    title = f"<title>{escape(about)}</title>" if about else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="2" '
        f'class="{kind}">{title}</rect>'
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    """Return a thin line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def figure(name: str, height: float, parts: Sequence[str]) -> str:
    """Return a figure that brings its own paper, so that it can stand on any page."""
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(name)}">\n<style>{STYLE}</style>\n'
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:g}" rx="10" class="card"/>\n'
        f"{inside}\n</svg>\n"
    )


def short(words: str, most: int) -> str:
    """Return words on one line, cut where they are too long."""
    words = " ".join(words.split())
    return words if len(words) <= most else words[: most - 1] + "…"


def step() -> str:
    """Return how messages are read: each in its step, or in none."""
    messages = _parallel()
    parsed = parse(make_request(messages, format="openai"))
    parts = [text(20, 28, "Messages, and the step that each belongs to", "ink b")]
    top, high = 44, 27
    for place, (message, owner) in enumerate(zip(messages, parsed.owners, strict=True)):
        y = top + place * high
        number = abs(owner)
        kind = ("kept", "floor")[number % 2] if number else "fixed"
        parts.append(box(20, y, 5, high - 5, kind))
        parts.append(text(34, y + 15, str(message["role"]), "soft"))
        parts.append(text(112, y + 15, short(_said(message), 62), "ink mono"))
        said = f"step {number}" if number else "user text: stays" if place > 1 else "preamble"
        parts.append(text(WIDTH - 20, y + 15, said, "ink end" if number else "soft end"))
    bottom = top + len(messages) * high + 12
    parts.append(
        text(20, bottom, "Both calls of step 2 and both results go or stay together.", "soft")
    )
    return figure("Messages grouped into steps", bottom + 16, parts)


def _parallel() -> list[dict[str, Any]]:
    """Return a short history with parallel calls, answered out of order."""

    def call(key: str, name: str, argument: str) -> dict[str, Any]:
        return {"id": key, "type": "function", "function": {"name": name, "arguments": argument}}

    def asks(*calls: dict[str, Any]) -> dict[str, Any]:
        return {"role": "assistant", "content": None, "tool_calls": list(calls)}

    def result(key: str, content: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": key, "content": content}

    return [
        {"role": "system", "content": "You repair data pipelines."},
        {"role": "user", "content": "The nightly export fails. Find out why and fix it."},
        asks(call("a", "search", '{"query": "load_rates"}')),
        result("a", "export/rates.py:41 export/run.py:12"),
        asks(
            call("b", "read_file", '{"path": "export/rates.py"}'),
            call("c", "read_file", '{"path": "export/run.py"}'),
        ),
        result("c", "import load_rates …"),
        result("b", "def load_rates(day): …"),
        {"role": "user", "content": "Leave run.py alone, please."},
        asks(call("d", "run", '{"command": "pytest"}')),
        result("d", "2 passed"),
    ]


def _said(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    if calls:
        return "  ".join(f"{c['function']['name']} {c['function']['arguments']}" for c in calls)
    return str(message["content"])


def floor(compression: Compression) -> str:
    """Return what the prompt is made of, and what of it may go."""
    trajectory = compression.trajectory
    assert trajectory is not None  # noqa: S101 - it was read
    wide = WIDTH - 40
    scale = wide / compression.tokens_before
    parts = [text(20, 28, "One prompt, oldest on the left", "ink b")]
    x = 20 + trajectory.preamble_tokens * scale
    parts.append(box(20, 44, x - 21, 40, "fixed", "preamble"))
    for decision in compression.decisions:
        size = decision.tokens * scale
        kind = "floor" if decision.outcome == "floor" else "well"
        about = f"step {decision.number}: {decision.reason}"
        parts.append(box(x, 44, max(1.5, size - 1), 40, kind, about))
        if size > 14:
            ink = "on" if kind == "floor" else "ink"
            parts.append(text(x + size / 2, 69, str(decision.number), f"{ink} mid"))
        x += size
    held = [d for d in compression.decisions if d.outcome == "floor"]
    stays = trajectory.preamble_tokens + sum(d.tokens for d in held)
    budget = Budget(keep_ratio=0.35).of(compression.tokens_before)
    y = 122
    parts.append(
        text(20, y - 10, f"What always stays: {stays:,} of {compression.tokens_before:,}", "soft")
    )
    at = 20.0
    for size, kind, about in (
        (trajectory.preamble_tokens, "fixed", "preamble"),
        *((d.tokens, "floor", f"step {d.number}: {d.reason}") for d in held),
    ):
        parts.append(box(at, y, max(1.5, size * scale - 1), 30, kind, about))
        at += size * scale
    mark = 20 + budget * scale
    parts.append(line(mark, y - 4, mark, y + 40, "rule"))
    parts.append(
        text(mark + 6, y + 20, f"budget: {budget:,}; up to there the best of the rest", "warn")
    )
    y += 64
    for place, decision in enumerate(held):
        words = f"step {decision.number} is in the floor: {decision.reason}"
        parts.append(text(20, y + 18 * place, words, "ink"))
    y += 18 * len(held)
    parts.append(
        text(20, y + 4, "Grey is fixed: system text, the task, all that the user says.", "soft")
    )
    return figure("The floor of a prompt", y + 22, parts)


def scorer(compression: Compression) -> str:
    """Return what three scorers give the same steps."""
    trajectory = compression.trajectory
    assert trajectory is not None  # noqa: S101 - it was read
    steps = trajectory.steps
    anchor = trajectory.anchor(len(steps), newest=True)
    parts = [text(20, 28, "Scores of the same twelve steps, at the same call", "ink b")]
    slot = (WIDTH - 150) / len(steps)
    y = 44.0
    scorers: dict[str, Scorer] = {
        name: load_scorer(name) for name in ("recency", "lexical", "features")
    }
    for name, one in scorers.items():
        base = y + 70
        parts.append(text(20, base - 26, name, "ink b"))
        parts.append(line(120, base + 0.5, WIDTH - 20, base + 0.5))
        for place, score in enumerate(one.score(anchor, steps)):
            high = max(1.0, 62 * score)
            about = f"step {place + 1}: {score:.2f}"
            parts.append(box(120 + place * slot + 5, base - high, slot - 10, high, "kept", about))
        y += 82
    parts += [
        text(120 + (place + 0.5) * slot, y + 16, str(place + 1), "soft mid")
        for place in range(len(steps))
    ]
    parts.append(text(20, y + 16, "step", "soft"))
    return figure("What three scorers say of the same steps", y + 32, parts)


def marker(compression: Compression) -> str:
    """Return the steps before, and the marker that stands for some of them."""
    parts = [text(20, 28, "Before", "ink b"), text(292, 28, "After", "ink b")]
    widest = max(decision.tokens for decision in compression.decisions)
    y = 42.0
    for decision in compression.decisions:
        size = max(3.0, 190 * decision.tokens / widest)
        parts.append(text(38, y + 14, str(decision.number), "soft end"))
        parts.append(box(46, y, size, 18, decision.outcome, decision.reason))
        if decision.outcome == "elided":
            parts.append(line(30, y + 9, 46 + size + 6, y + 9, "rule"))
        y += 24
    right = 42.0
    for said, kind in _sent(compression):
        high = 17 * len(said) + 8
        parts.append(box(292, right, 6, high, kind))
        for place, words in enumerate(said):
            parts.append(text(308, right + 17 * (place + 1) - 2, short(words, 56), "ink mono"))
        right += high + 4
    below = max(y, right) + 18
    shorter = f"{compression.tokens_before:,} → {compression.tokens_after:,} tokens"
    parts.append(
        text(20, below, f"{shorter}. The marker stands inside a message that stays.", "soft")
    )
    return figure("What a marker looks like", below + 16, parts)


def _sent(compression: Compression) -> Iterator[tuple[list[str], str]]:
    kept = {decision.number: decision.outcome for decision in compression.decisions}
    number = 0
    for message, place in zip(compression.messages, compression.positions, strict=True):
        content = message.get("content")
        marked = isinstance(content, str) and " elided" in content and "[step" in content
        if marked:
            yield str(content)[str(content).index("[step") :].splitlines(), "markers"
        elif message["role"] == "assistant":
            number = place // 2
            yield [f"{number} {_said(message)}"], kept[number]


_NO_SCORE = "the scorer raised, was late, or gave no score"
_NO_MESSAGES = "unreadable, unknown, or it would come out illegal"


def ladder() -> str:
    """Return the three rungs, and what leads down."""
    rungs = (
        ("L0", "kept", "steps selected by the scorer you asked for", _NO_SCORE),
        ("L1", "floor", "steps selected by a rule that needs no package", _NO_MESSAGES),
        ("L2", "fixed", "your own messages, the same object", ""),
    )
    parts = [text(20, 28, "A failure moves down, never up", "ink b")]
    y = 44.0
    for name, kind, gets, down in rungs:
        parts.append(box(20, y, 52, 44, kind))
        parts.append(text(46, y + 27, name, "on b mid"))
        parts.append(text(88, y + 27, gets, "ink"))
        if down:
            parts.append(f'<path d="M46 {y + 46:g}v24m-5-7l5 7l5-7" class="rule"/>')
            parts.append(text(88, y + 64, down, "warn"))
        y += 76
    parts.append(text(20, y - 8, "With strict=True the error is raised instead.", "soft"))
    return figure("The degradation ladder", y + 8, parts)


def _trajectory() -> list[dict[str, Any]]:
    """Return the messages of `make_explain.py`, so that all pictures show the same agent."""
    path = Path(__file__).with_name("make_explain.py")
    spec = importlib.util.spec_from_file_location("make_explain", path)
    assert spec is not None  # noqa: S101 - the file is next to this one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    messages: list[dict[str, Any]] = module.messages()
    return messages


def figures() -> dict[str, str]:
    """Return each figure by its file name."""
    compressor = Compressor(budget=Budget(keep_ratio=0.35), schedule="every_call")
    compression = compressor.compress(_trajectory())
    return {
        "step.svg": step(),
        "floor.svg": floor(compression),
        "scorer.svg": scorer(compression),
        "marker.svg": marker(compression),
        "ladder.svg": ladder(),
    }


if __name__ == "__main__":
    for file, drawn in figures().items():
        (FOLDER / file).write_text(drawn, encoding="utf-8")
