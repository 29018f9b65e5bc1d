"""Draws `wrap.svg`, a terminal that moves, from `wrap.cast`: see `record_wrap.py`.

    pip install pyte && python docs/images/make_recording.py

Screens stand side by side, and one animation shows them in turn; a line that several screens share
is drawn once. Waiting is shortened and the agent's work is shown faster, nothing else is changed.
The picture follows the reader's light or dark, and whoever asks for no motion sees the last screen.
"""

import colorsys
import html
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyte

HERE = Path(__file__).parent
CELL_W, CELL_H, PAD, BAR = 8.4, 17, 14, 28
WORK_SECONDS, LAST_SECONDS = 14.0, 7.0
"""How long the agent's work is shown, and the last screen."""
LONGEST_WAIT = 0.7
SHORTEST_FRAME = 0.12
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
GROUND, TEXT = {"light": "#f6f8fa", "dark": "#0d1117"}, {"light": "#24292f", "dark": "#e6edf3"}
_KEYS = re.compile(r"\x1b\[[<>=?][0-9;]*u")
"""How programs ask for a newer keyboard protocol; the emulator would print the last letter."""
_RARE = str.maketrans("⏵⎿", "▸└")
"""Signs that many fonts lack."""
_OTHER = re.compile(r"\x1b\[\?1049([hl])")
_NAMED = {
    "black": "484f58",
    "red": "ff7b72",
    "green": "3fb950",
    "brown": "d29922",
    "blue": "58a6ff",
    "magenta": "bc8cff",
    "cyan": "39c5cf",
    "white": "b1bac4",
}

Style = tuple[str, str, bool]
"""Colour of the letters, of the ground, and whether they are bold."""
Line = tuple[tuple[int, str, Style], ...]
Frame = tuple[Line, ...]


def main() -> None:
    """Draw the recording."""
    head, *events = map(json.loads, (HERE / "wrap.cast").read_text("utf-8").splitlines())
    frames = list(screens(events, head["width"], head["height"]))
    (HERE / "wrap.svg").write_text(drawn(frames, head["width"], head["height"]), "utf-8")


def screens(events: Sequence[list], width: int, height: int) -> Iterator[tuple[float, Frame]]:
    """Yield each screen that is shown, with the seconds it stays."""
    main_screen, other = pyte.Screen(width, height), pyte.Screen(width, height)
    current = main_screen
    shown: Frame = ()
    held = stays = previous = 0.0
    for at, (_, kind, text) in zip(paced(events), events, strict=True):
        stays += at - previous
        previous = at
        if kind != "o":
            continue
        if stays >= SHORTEST_FRAME:
            frame = tuple(map(line_of, rows(current)))
            if frame != shown:
                if shown:
                    yield held, shown
                shown, held = frame, 0.0
            held += stays
            stays = 0.0
        pieces = _OTHER.split(_KEYS.sub("", text))
        for n, piece in enumerate(pieces):
            if n % 2:
                current = other if piece == "h" else main_screen
                other = pyte.Screen(width, height) if piece == "l" else other
            else:
                pyte.Stream(current).feed(piece)
    yield held + stays, shown
    yield LAST_SECONDS, tuple(map(line_of, rows(current)))


def paced(events: Sequence[list]) -> Iterator[float]:
    """Yield when each event is shown: waits cut short, the agent's work within its seconds."""
    entered = [n for n, (_, kind, text) in enumerate(events) if kind == "i" and text == "\r"]
    begins, ends = (
        entered[1],
        next(n for n, (_, kind, _) in enumerate(events) if kind == "i" and n > entered[1]),
    )
    work = events[ends][0] - events[begins][0]
    now, before = 0.0, 0.0
    for n, (at, _, _) in enumerate(events):
        gap, before = at - before, at
        working = begins < n <= ends
        now += gap * WORK_SECONDS / work if working else min(gap, LONGEST_WAIT)
        yield now


def rows(screen: pyte.Screen) -> Iterator[list]:
    """Yield the cells of each line."""
    for y in range(screen.lines):
        yield [screen.buffer[y][x] for x in range(screen.columns)]


def line_of(cells: Sequence) -> Line:
    """Return the runs of a line that look alike, without blanks at its end."""
    found = []
    at = 0
    for style, run in groupby(cells, key=style_of):
        text = "".join(cell.data for cell in run).translate(_RARE)
        if text.strip() or style[1]:
            lead = len(text) - len(text.lstrip()) if not style[1] else 0
            shown = text if style[1] else text.strip()
            found.append((at + lead, shown, style))
        at += len(text)
    return tuple(found)


def style_of(cell: pyte.screens.Char) -> Style:
    """Return what a cell looks like."""
    front, back = hexed(cell.fg), hexed(cell.bg)
    if cell.reverse:
        front, back = back or "ground", front or "text"
    return front, back, cell.bold


def hexed(colour: str) -> str:
    """Return a colour as six digits; nothing for the terminal's own."""
    return "" if colour == "default" else _NAMED.get(colour.removeprefix("bright"), colour)


def turned(colour: str) -> str:
    """Return a colour made for a dark ground as one for a light ground."""
    red, green, blue = (int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    rgb = colorsys.hls_to_rgb(hue, min(1 - light, 0.42) if light > 0.4 else 1 - light, full)
    return "".join(f"{round(255 * part):02x}" for part in rgb)


def drawn(frames: Sequence[tuple[float, Frame]], width: int, height: int) -> str:
    """Return the animation."""
    wide, high = round(width * CELL_W + 2 * PAD), height * CELL_H + 2 * PAD + BAR
    colours = sorted(
        {c for _, frame in frames for line in frame for run in line for c in run[2][:2]}
    )
    names = {
        c: f"c{n}" for n, c in enumerate(c for c in colours if c not in ("", "ground", "text"))
    }
    names |= {"ground": "g", "text": "t"}
    lines: dict[Line, int] = {}
    shown = []
    for n, (_, frame) in enumerate(frames):
        used = [
            f'<use href="#l{lines.setdefault(line, len(lines))}" y="{y * CELL_H}"/>'
            for y, line in enumerate(frame)
            if line
        ]
        shown.append(f'<g transform="translate({n * wide})">{"".join(used)}</g>')
    kept = "".join(f'<g id="l{n}">{text_of(line, names)}</g>' for line, n in lines.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-label="agora wrap claude in a terminal">'
        f"<style>{css(frames, names, wide)}</style>"
        f'<rect class="g edge" x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="8"/>'
        '<circle cx="20" cy="18" r="5.5" fill="#ff5f57"/><circle cx="38" cy="18" r="5.5" '
        'fill="#febc2e"/><circle cx="56" cy="18" r="5.5" fill="#28c840"/>'
        f"<defs>{kept}</defs>"
        f'<svg y="{BAR + PAD / 2}" x="{PAD}" width="{wide - PAD}" height="{high - BAR}">'
        f'<g class="film">{"".join(shown)}</g></svg></svg>\n'
    )


def text_of(line: Line, names: dict[str, str]) -> str:
    """Return a line as text that fills its cells whatever font there is."""
    made = []
    for at, text, (front, back, bold) in line:
        x, wide = round(at * CELL_W, 1), round(len(text) * CELL_W, 1)
        if back:
            made.append(f'<rect class="{names[back]}" x="{x}" width="{wide}" height="{CELL_H}"/>')
        if text.strip():
            look = f' class="{names[front]}"' if front else ""
            thick = ' font-weight="700"' if bold else ""
            # Blanks inside are kept: each letter has a cell.
            made.append(
                f'<text{look}{thick} x="{x}" y="13" textLength="{wide}">{html.escape(text)}</text>'
            )
    return "".join(made)


def css(frames: Sequence[tuple[float, Frame]], names: dict[str, str], wide: int) -> str:
    """Return the colours of both grounds, and the one animation."""
    total = sum(seconds for seconds, _ in frames)
    at, stops = 0.0, []
    for n, (seconds, _) in enumerate(frames):
        stops.append(f"{at / total:.2%}{{transform:translateX({-n * wide}px)}}")
        at += seconds
    last = -(len(frames) - 1) * wide
    own = {c: n for c, n in names.items() if c not in ("ground", "text")}
    dark = "".join(f".{n}{{fill:#{c}}}" for c, n in own.items())
    light = "".join(f".{n}{{fill:#{turned(c)}}}" for c, n in own.items())
    base = "text{{fill:{t};white-space:pre}}.t{{fill:{t}}}.g{{fill:{g}}}.edge{{stroke:{e}}}"
    return (
        f"text{{font:14px {FONT}}}"
        + base.format(t=TEXT["dark"], g=GROUND["dark"], e="#30363d")
        + dark
        + "@media(prefers-color-scheme:light){"
        + base.format(t=TEXT["light"], g=GROUND["light"], e="#d0d7de")
        + light
        + "}"
        + f".film{{animation:film {total:.1f}s step-end infinite}}"
        + f"@keyframes film{{{''.join(stops)}}}"
        + "@media(prefers-reduced-motion:reduce){.film{animation:none;"
        + f"transform:translateX({last}px)}}}}"
    )


if __name__ == "__main__":
    main()
