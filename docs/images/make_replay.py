"""Draws `replay-*.png`: the page that `agora replay --html` writes, on trajectories made up for it.

Needs Chromium and Pillow: python docs/images/make_replay.py [PAGE.html]
With a path the page stays there to be looked at.
"""

import io
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agora.core.prices import shipped_sheets
from agora.logs import Tally, read_logs
from agora.replay.page import page
from agora.replay.report import Report
from agora.replay.run import Pricing, run

SHEETS = ("claude-sonnet-5", "claude-opus-5-5", "gpt-5", "gpt-4o", "self-hosted")
SHOTS = {
    "replay-light": (1180, 1640, "theme=light&open=0"),
    "replay-dark": (1180, 1640, "theme=dark&open=0"),
    "replay-phone": (390, 1800, "theme=light&open=0"),
}
COLOURS = 256
PARTS = "rates export ledger invoice customer refund currency schedule report archive".split()
TASKS = (
    "The nightly export fails since Tuesday. Find out why and fix it.",
    "Refunds above 500 are booked twice. Repair the ledger and add a test.",
    "Move the invoice service to the new currency table.",
    "The monthly report takes two hours. Make it fast.",
)


def trajectory(seed: int, steps: int, model: str) -> dict[str, Any]:
    """Return the last request of a made-up coding agent, with what it had done by then."""
    rng = random.Random(seed)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You repair data pipelines. " + "Change little. " * 400},
        {"role": "user", "content": TASKS[seed % len(TASKS)]},
    ]
    for number in range(steps):
        name, arguments, result = action(rng)
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]
    messages.append({"role": "assistant", "content": "Done. The tests pass."})
    name = f"repair-{seed:03}"
    task = TASKS[seed % len(TASKS)]
    return {"trajectory_id": name, "task": task, "model": model, "messages": messages}


def action(rng: random.Random) -> tuple[str, dict[str, Any], str]:
    """Return a tool call with its result."""
    part = rng.choice(PARTS)
    lines = 5 + int(rng.expovariate(1 / 70))
    match rng.randrange(4):
        case 0:
            code = "\n".join(
                f"    total_{i} = {part}_table.lookup({rng.randrange(9999)}, day={i})"
                for i in range(lines)
            )
            return "read_file", {"path": f"src/{part}.py"}, f"def load_{part}(day):\n{code}"
        case 1:
            hits = "\n".join(
                f"src/{rng.choice(PARTS)}.py:{rng.randrange(900)}: load_{part}(day)"
                for _ in range(lines)
            )
            return "search", {"query": f"load_{part}"}, hits
        case 2:
            log = "\n".join(
                f"02:{i % 60:02} INFO {part} batch {rng.randrange(9999)} written"
                for i in range(lines)
            )
            return "run", {"command": f"tail -n {lines} /var/log/{part}.log"}, log
        case _:
            return "run", {"command": f"pytest tests/test_{part}.py"}, "4 passed in 0.31s"


def log_lines() -> Iterator[str]:
    """Yield the log: long repairs and short ones, by two models."""
    for seed in range(36):
        steps = (4, 11, 26, 45, 80, 130)[seed % 6]
        model = "gpt-5" if seed % 3 == 2 else "claude-sonnet-5"
        yield json.dumps(trajectory(seed, steps, model))
    yield '{"model": "gpt-5", "messages": [{"role": "us'


def make_page() -> str:
    """Return the page of the made-up log."""
    pricing = Pricing(others=tuple(shipped_sheets()[name] for name in SHEETS))
    tally, report = Tally(), Report(pricing)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "requests.jsonl")
        log.write_text("\n".join(log_lines()), encoding="utf-8")
        for outcome in run(read_logs([log], tally), pricing):
            if outcome.error:
                raise SystemExit(f"{outcome.id}: {outcome.error}")
            report.add(outcome)
    return page(report.value(tally, ["requests.jsonl"]))


def shoot(source: Path, target: Path, width: int, height: int, view: str) -> None:
    """Write a picture of the page, with as few colours as show no difference."""
    from PIL import Image

    browser = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "shot.png")
        # Chromium has no window narrower than 500: a narrow page is drawn in a frame.
        narrow = width < 500
        shown = source
        if narrow:
            shown = Path(folder, "frame.html")
            shown.write_text(
                f'<body style="margin:0"><iframe style="border:0;width:{width}px;height:{height}px"'
                f' src="{source.resolve().as_uri()}#{view}"></iframe>',
                encoding="utf-8",
            )
        subprocess.run(  # noqa: S603 - the browser, on a page of ours
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--virtual-time-budget=6000",
                "--run-all-compositor-stages-before-draw",
                f"--user-data-dir={folder}/profile",
                f"--window-size={max(width, 500)},{height}",
                f"--screenshot={shot}",
                f"{shown.resolve().as_uri()}#{view}",
            ],
            check=True,
            capture_output=True,
        )
        with Image.open(io.BytesIO(shot.read_bytes())) as image:
            cut = image.convert("RGB").crop((0, 0, width, height))
        few = cut.quantize(COLOURS, kmeans=4, dither=Image.Dither.NONE)
        few.save(target, optimize=True)


def shoot_all(source: Path, shots: Mapping[str, tuple[int, int, str]]) -> None:
    """Write the pictures of a page, by name each with its width, height and view."""
    for name, (width, height, view) in shots.items():
        target = Path(__file__).with_name(f"{name}.png")
        shoot(source, target, width, height, view)
        sys.stdout.write(f"{target.name}: {target.stat().st_size / 1000:.0f} kB\n")


def main() -> None:
    """Write the page and its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/replay.html")
        source.write_text(make_page(), encoding="utf-8")
        shoot_all(source, SHOTS)


if __name__ == "__main__":
    main()
