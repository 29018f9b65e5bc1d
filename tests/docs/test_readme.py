"""What a newcomer meets first: its length, its figures, its pictures, its commands as printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agora
from tests.docs.pages import DOCS, ROOT, blocks, words

README = ROOT / "README.md"
MOST_WORDS = 900
AGORA = "from agora.cli import main; main()"


def text() -> str:
    return README.read_text(encoding="utf-8")


def run_file(name: str) -> Any:
    return json.loads((DOCS / "results" / name).read_text(encoding="utf-8"))


def test_the_readme_has_at_most_900_words_as_wc_counts_them() -> None:
    assert len(text().split()) <= MOST_WORDS


def test_words_are_those_that_a_reader_reads() -> None:
    page = (
        '<!-- a mark -->\n# One *two*\n\n<img alt="not" src="read">\n'
        "[three four](docs/x.md) ![not read](y.svg) — `five six`\n\n"
        "```sh\nagora demo   # eight\n```\n\n| nine | ten |\n|---|---|\n"
    )

    assert words(page) == "One two three four five six agora demo eight nine ten".split()


def test_every_picture_of_the_readme_is_there_light_and_dark() -> None:
    light = re.findall(r'<img\b[^>]*\bsrc="([^"]+)"', text())
    dark = re.findall(r'<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"', text())

    assert [path for path in (*light, *dark) if not (ROOT / path).is_file()] == []
    assert [path.replace("-light.", "-dark.") for path in light] == dark


def test_the_bill_of_the_recorded_runs_is_the_one_that_was_measured() -> None:
    found = run_file("replay-swe-bench.json")
    totals, compared = found["totals"]["own"], found["compared"]["own"]
    saved = 1 - totals["AGORA"]["cost"] / totals["as it was"]["cost"]

    for page in (README, DOCS / "index.md"):
        said = page.read_text(encoding="utf-8")
        assert f"billed ${found['billed']['cost']:.2f} for input" in said
        assert f"{saved:.1%}".replace("%", " %") + " less" in said
    assert f"{found['trajectories']} recorded coding runs" in text()
    assert f"cheaper on {compared['cheaper']} runs, the same on {compared['same']}" in text()
    worst = f"{compared['worst'] - 1:.1%}".replace("%", " %")
    assert f"on {compared['costlier']} it cost more, by at most {worst}" in text()


def test_what_the_floor_alone_forgets_is_what_was_measured() -> None:
    found = run_file("replay-swe-bench.json")["totals"]["own"]
    floor, ours = (f"{found[name]['met_share']:.0%}"[:-1] for name in ("floor only", "AGORA"))

    assert f"{floor} % of the actions that need an old name still find it, with AGORA" in text()
    assert f"with AGORA {ours} %" in text()


def test_the_ratios_of_other_prices_are_those_that_were_measured() -> None:
    found = run_file("replay-swe-bench.json")["by_sheet"]
    saved = {
        name: f"{1 - costs['AGORA'] / costs['as it was']:.1%}".replace("%", " %")
        for name, costs in found.items()
    }

    assert f"{saved['gpt-5']} less at gpt-5's prices and {saved['claude-sonnet-5']} at " in text()


def test_the_savings_by_model_are_those_that_were_measured() -> None:
    rows = {(row["source"], row["sheet"]): row for row in run_file("by-model.json")["rows"]}
    table = text().partition("<!-- models -->")[2].partition("<!-- /models -->")[0]
    told = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]

    assert len(told) > 5
    for model, *cells in told:
        for source, cell in zip(("coding", "Claude Code"), cells, strict=True):
            row = rows[source, model]
            saved, best = 100 * (1 - row["bill"]), 100 * (1 - row["hindsight"])
            assert cell == f"{saved:.0f} ({best:.0f})", (model, source)


def test_the_ratios_of_coding_agents_are_those_that_were_measured() -> None:
    sessions = run_file("wrap.json")["sessions"].values()
    ratio = {one["title"]: [] for one in sessions}  # type: dict[str, list[float]]
    for one in sessions:
        ratio[one["title"]].append(one["dollars_through"] / one["dollars_direct"])
    compact = ratio.pop("Claude Code, /compact")
    edited = {title: values for title, values in ratio.items() if title != "aider"}
    every = [value for values in edited.values() for value in values]

    assert f"{min(every):.2f} to {max(every):.2f} of direct" in text()
    assert len(edited) == 8
    assert "for eight agents" in text()
    assert f"With an early `/compact` it was {compact[0]:.2f}" in text()


def test_the_step_before_and_after_is_what_the_demo_makes_of_it() -> None:
    pytest.importorskip("click", reason="the demo is part of the extra cli")
    from agora.cli.demo import recorded

    before, after = (block.text.strip() for block in blocks(README) if block.language == "text")
    session = json.loads(recorded())
    shorter = json.dumps(agora.compress(session["messages"], model=session["model"]).messages)
    number = int(after.split()[0])
    [step] = [step for step in agora.parse(session["messages"]).steps if step.number == number]

    assert before.removeprefix("$ ") in step.action
    assert f"One step of the demo, {step.tokens:,} tokens" in text()
    assert json.dumps(after)[1:-1] in shorter, "the default has changed: put the new line there"


@pytest.fixture
def newcomer(tmp_path: Path) -> dict[str, str]:
    """Return what somebody has who has installed everything and nothing else: a shell and a home.

    A program named claude stands in for the agent, and does nothing.
    """
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    for name, lines in {
        "agora": f"exec {sys.executable} -P -c '{AGORA}' \"$@\"",
        "claude": "echo claude was here",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONIOENCODING": "utf-8",
        "OPENAI_API_KEY": "none-needed",
    }


@pytest.mark.skipif(shutil.which("sh") is None, reason="the lines are for a shell")
def test_the_lines_of_the_readme_run_as_printed_in_an_empty_folder(
    newcomer: dict[str, str], tmp_path: Path
) -> None:
    for extra in ("click", "rich", "aiohttp", "msgspec", "uvicorn"):
        pytest.importorskip(extra, reason="needs the extra wrap")
    folder = tmp_path / "empty"
    folder.mkdir()
    said = ""
    for block in blocks(README):
        if block.language != "sh":
            continue
        for line in block.text.splitlines():
            if line.startswith("pip install"):
                continue  # what `tests.release.first_minutes` does, with a wheel
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=folder,
                env=newcomer,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            said += done.stdout + done.stderr

    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {
        "agora-demo/session.json",
        "agora-demo/explain.html",
        "agora-demo/replay.html",
        "replay.html",
    }
    assert "AGORA would have saved" in said
    assert "claude was here" in said
    assert "agora: " in said


def test_the_block_of_python_in_the_readme_runs(newcomer: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="the group clients has it")
    [block] = [block for block in blocks(README) if block.language == "python"]
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=tmp_path,
        env=newcomer,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_recorded_terminal_is_light_and_ends_with_the_bill_that_the_readme_names() -> None:
    drawn = DOCS / "images" / "wrap.svg"
    told = text().split("(docs/images/wrap.svg)")[1].splitlines()[2]
    paid, without = map(float, re.findall(r"\$(\d+\.\d\d)", told))
    shown = re.sub(r"<[^>]+>", " ", drawn.read_text(encoding="utf-8"))
    ended = re.search(r"\$(\d+\.\d\d) by [\w-]+, +\$(\d+\.\d\d)\s+less than without", shown)

    assert ended, shown[-2_000:]
    assert (float(ended[1]), round(float(ended[1]) + float(ended[2]), 2)) == (paid, without)
    assert drawn.stat().st_size < 150_000
    for asked in ("prefers-reduced-motion:reduce", "prefers-color-scheme:light"):
        assert f"@media({asked})" in drawn.read_text(encoding="utf-8")


def test_the_recorded_terminal_is_what_was_recorded() -> None:
    pytest.importorskip("pyte", reason="a terminal draws the recording: pip install pyte")
    drawn = DOCS / "images" / "wrap.svg"
    before = drawn.read_bytes()
    subprocess.run([sys.executable, str(DOCS / "images" / "make_recording.py")], check=True)

    assert drawn.read_bytes() == before, "run: python docs/images/make_recording.py"
