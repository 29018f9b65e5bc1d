"""The two pictures of docs/explanation/when-it-edits.md, drawn from the files of `benchmarks.bill`.

python -m benchmarks.pictures
"""

import json
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path("benchmarks/results/bill-claude-code.json")
PAGES = Path("docs/explanation")
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 300, 56, 36
GREY, BLUE, GREEN, ORANGE = "#8a8f98", "#2463b0", "#1d7f4e", "#c05f15"
COLOURS = {"free": GREEN, "warm": ORANGE, "window": "#a02040"}
ROWS = {
    "default": "default",
    "warm only": "warm edits only",
    "free only": "free edits only",
    "version before: h = 0, no free edits": "forgetting has no price, no free edits",
    "the provider's own clearing": "the provider's own clearing",
}


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#333") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'


def _svg(title: str, height: int, parts: list[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<style>text { font: 13px system-ui, sans-serif }</style>",
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def prompt(example: dict[str, Any]) -> str:
    """Return the picture of a session's prompt by call, without edits and with them."""
    whole, sent = example["whole"], example["sent"]
    top = 1.1 * max(whole)

    def at(call: float, tokens: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 20) * call / (len(whole) - 1)
        return x, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 24) * tokens / top

    parts = []
    for tokens in range(0, int(top), 50_000):
        x, y = at(0, tokens)
        parts.append(f'<path d="M{x:.0f} {y:.1f}H{WIDTH - 20}" stroke="#ddd"/>')
        parts.append(_text(x - 8, y + 4, f"{tokens // 1000}k", anchor="end"))
    for call, why in zip(example["edits"], example["kinds"], strict=True):
        x, low = at(call, 0)
        parts.append(
            f'<path d="M{x:.1f} 22V{low:.0f}" stroke="{COLOURS[why]}" stroke-dasharray="4 3"/>'
        )
        parts.append(_text(x, 16, why, anchor="middle", colour=COLOURS[why]))
    for sizes, colour in ((whole, GREY), (sent, BLUE)):
        points = " ".join("{:.1f},{:.1f}".format(*at(n, size)) for n, size in enumerate(sizes))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    x, y = at(len(whole) - 1, whole[-1])
    parts.append(_text(x, y - 8, "everything", anchor="end", colour=GREY))
    x, y = at(len(sent) - 1, sent[-1])
    parts.append(_text(x, y - 8, "sent", anchor="end", colour=BLUE))
    parts.append(
        _text(WIDTH / 2, HEIGHT - 8, f"{len(whole)} calls of one session", anchor="middle")
    )
    return _svg("Tokens of the prompt at every call of one Claude Code session", HEIGHT, parts)


def bill(rows: dict[str, dict[str, Any]]) -> str:
    """Return the picture of what each policy saves, and which share of actions finds its names."""
    most = max(rows[name]["saved"] for name in ROWS)
    parts = [_text(290, 20, "input bill saved"), _text(WIDTH - 20, 20, "names found", anchor="end")]
    for place, (name, label) in enumerate(ROWS.items()):
        y, row = 34 + 32 * place, rows[name]
        width = max(1.0, 290 * row["saved"] / most)
        parts.append(_text(280, y + 15, label, anchor="end"))
        parts.append(f'<rect x="290" y="{y}" width="{width:.0f}" height="20" fill="{BLUE}"/>')
        parts.append(_text(298 + width, y + 15, f"{row['saved']:.1%}"))
        parts.append(_text(WIDTH - 20, y + 15, f"{row['names']:.1%}", anchor="end"))
    title = "Share of the input bill that each policy saves on recorded Claude Code sessions"
    return _svg(title, 44 + 32 * len(ROWS), parts)


def main() -> None:
    """Write the pictures."""
    figures = json.loads(RESULTS.read_text(encoding="utf-8"))
    (PAGES / "prompt.svg").write_text(prompt(figures["example"]), encoding="utf-8")
    (PAGES / "bill.svg").write_text(bill(figures["groups"]["all"]), encoding="utf-8")


if __name__ == "__main__":
    main()
