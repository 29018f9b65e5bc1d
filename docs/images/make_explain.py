"""Draws `explain.svg`: what `agora explain` shows, on a trajectory made up for it.

Run with the `cli` extra installed: python docs/images/make_explain.py
"""

import io
import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme

from agora import Budget, Compressor
from agora.cli.picture import Look, Picture

WIDTH = 100
THEME: TerminalTheme = MONOKAI

TASK = (
    "The nightly export fails since Tuesday. Find out why and fix it. "
    "The error names load_rates and currency XDR."
)
ROUTE = """    {name}:
      schedule: "{minute} 2 * * *"
      retries: 3
      owner: data-platform
"""


def tool_calls() -> list[tuple[str, dict[str, Any], str]]:
    """Return what the agent did, and what came back."""
    jobs = "".join(ROUTE.format(name=f"job_{n:02}", minute=n) for n in range(40))
    log = "".join(f"02:{n:02} INFO export row batch {n} written\n" for n in range(60))
    code = "def load_rates(day):\n    table = fetch(RATES_URL, day)\n    return table['XDR']\n"
    diff = "commit 9f31c2e\n+CURRENCIES = ('EUR', 'USD', 'XDR')\n" + " context line\n" * 90
    test = "def test_load_rates():\n    assert load_rates('2024-05-20')\n"
    rates = {"EUR": 1, "USD": 1.08, "note": "XDR left out since v2.3"}
    return [
        ("list_files", {"path": "."}, "README.md\nexport/\nconfig/jobs.yaml\ntests/\nsetup.cfg"),
        ("read_file", {"path": "config/jobs.yaml"}, f"jobs:\n{jobs}"),
        ("search", {"query": "load_rates"}, "export/rates.py:41\nexport/run.py:12"),
        ("read_file", {"path": "export/run.py"}, "import load_rates\n" + "# step\n" * 120),
        ("run", {"command": "tail -n 60 /var/log/export.log"}, f"{log}ERROR 'XDR' run 8841"),
        ("read_file", {"path": "export/rates.py"}, code * 8),
        ("run", {"command": "git log -3 --format=%h export/rates.py"}, "9f31c2e\n51bd0aa\nc7740d1"),
        ("run", {"command": "git show 9f31c2e"}, diff),
        ("read_file", {"path": "tests/test_rates.py"}, test * 14),
        ("fetch", {"url": "https://rates.test/v2/2024-05-20"}, json.dumps(rates)),
        ("edit_file", {"path": "export/rates.py", "line": 44}, "ok, 1 line changed: table.get(c)"),
        ("run", {"command": "pytest tests/test_rates.py"}, "2 passed in 0.31s"),
    ]


def messages() -> list[dict[str, Any]]:
    """Return the trajectory as chat messages."""
    sent: list[dict[str, Any]] = [
        {"role": "system", "content": "You repair data pipelines. Change as little as you can."},
        {"role": "user", "content": TASK},
    ]
    for n, (name, arguments, result) in enumerate(tool_calls()):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        sent += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{n}", "content": result},
        ]
    return sent


def draw(width: int = WIDTH) -> str:
    """Return the picture as SVG."""
    compressor = Compressor(budget=Budget(keep_ratio=0.35))
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    picture = Picture(
        compression=compressor.compress(messages()), name="request.json", budget=compressor.budget
    )
    for line in picture.lines(Look(width=width)):
        console.print(line, highlight=False)
    console.print()  # room below the last line, which is cut off otherwise
    svg = console.export_svg(title="agora explain request.json --keep-ratio 0.35", theme=THEME)
    # A picture in a page fetches no font: every line is stretched to its width anyway.
    svg = re.sub(r"@font-face \{[^}]*\}\s*", "", svg)
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


if __name__ == "__main__":
    Path(__file__).with_name("explain.svg").write_text(draw(), encoding="utf-8")
