"""Draws `terminal-*.svg`: commands as a terminal shows them, run on the session of `agora demo`.

Run with the `cli` extra installed: python docs/images/make_terminal.py
Each command is run in an empty folder, and what it prints is drawn, light and dark.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 104
COMMANDS = {
    "demo": "agora demo",
    "explain": "agora explain agora-demo/session.json --rows 16",
    "replay": "agora replay agora-demo/session.json",
}
"""What is drawn; each runs in the folder that those before it have written to."""
THEMES = {
    "light": TerminalTheme(
        (246, 248, 250),
        (36, 41, 47),
        [
            (36, 41, 47),
            (179, 38, 30),
            (26, 127, 55),
            (154, 103, 0),
            (9, 105, 218),
            (130, 80, 223),
            (27, 124, 131),
            (110, 119, 129),
        ],
    ),
    "dark": TerminalTheme(
        (13, 17, 23),
        (230, 237, 243),
        [
            (72, 79, 88),
            (255, 123, 114),
            (63, 185, 80),
            (210, 153, 34),
            (88, 166, 255),
            (188, 140, 255),
            (57, 197, 207),
            (177, 186, 196),
        ],
    ),
}
_FONT = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono"


def printed(command: str, folder: Path, *, width: int = WIDTH, **known: str) -> str:
    """Return what a command prints into a terminal of this width, colours and all.

    `known` are more variables of its environment.
    """
    terminal = {
        "FORCE_COLOR": "1",
        "COLORTERM": "truecolor",
        "COLUMNS": str(width),
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": "utf-8",
        # A progress bar is erased again, and would stay in what is drawn.
        "TTY_INTERACTIVE": "0",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(  # noqa: S603 - a command of ours
        [sys.executable, "-m", "agora.cli", *command.split()[1:]],
        cwd=folder,
        env=inherited | terminal | known,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def draw(name: str, command: str, text: str, *, width: int = WIDTH) -> None:
    """Write the pictures of a command and what it printed."""
    for shade, theme in THEMES.items():
        target = Path(__file__).with_name(f"terminal-{name}-{shade}.svg")
        target.write_text(drawn(name, command, text, theme, width), encoding="utf-8")


def drawn(name: str, command: str, text: str, theme: TerminalTheme, width: int) -> str:
    """Return a terminal's text as SVG that fetches nothing."""
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text(f"$ {command}", "bold"), highlight=False)
    console.print(Text.from_ansi(text), highlight=False)
    console.print()  # room below the last line, which is cut off otherwise
    svg = console.export_svg(title="", theme=theme, unique_id=f"agora-{name}")
    # A picture in a page fetches no font: every line is stretched to its width anyway.
    svg = re.sub(r"@font-face \{[^}]*\}\s*|<!--.*?-->\s*", "", svg)
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    return svg.replace("Fira Code", _FONT)


def main() -> None:
    """Run the commands and write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        for name, command in COMMANDS.items():
            draw(name, command, printed(command, Path(folder)))


if __name__ == "__main__":
    main()
