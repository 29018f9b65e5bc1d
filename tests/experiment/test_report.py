"""`agora experiment`: written into the file, planned, reported, stopped."""

import json
import random
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

from agora.cli.experiment import with_experiment
from agora.cli.group import agora
from agora.experiment.assignment import Arm
from agora.experiment.conversations import FIGURES, Conversation
from agora.experiment.report import WIDTH, lines, report
from agora.experiment.rules import parse_rule
from agora.experiment.store import Account, Store, stopped

UPSTREAM = '[[upstreams]]\nbase_url = "https://a.test"\nformats = ["openai"]\n'


def run(*arguments: object) -> Result:
    return CliRunner().invoke(agora, ["experiment", *map(str, arguments)])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gateway.toml"
    file.write_text(UPSTREAM)
    return file


def play(folder: Path, name: str, count: int, factor: float = 0.7) -> None:
    chance, part = random.Random(1), {}
    for at in range(count):
        arm = chance.choice((Arm.AGORA, Arm.EVERYTHING))
        size = chance.lognormvariate(0, 0.7)
        part[str(at)] = Conversation(
            arm=arm,
            model=chance.choice(("gpt-5", "claude-opus-5")),
            born=True,
            affected=True,
            calls=round(3 + 10 * size),
            answered=10,
            dollars=size * (factor if arm is Arm.AGORA else 1),
            prompt_tokens=int(1_000 * size),
            output_tokens=100,
            waited_ms=1_000 * size,
            errors={"429": 1} if chance.random() < 0.05 else {},
            outcome=chance.random(),
            seen_at=1.0,
        )
    store = Store(folder, name)
    store.hand_in(part)
    store.add_up(10.0, 1.0)
    store.close()


def test_an_experiment_goes_from_start_to_stop(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    begun = run("start", config, "--folder", folder, "--name", "first", "--per-day", "500")
    assert begun.exit_code == 0, begun.output
    assert "edits 5 % of the conversations" in begun.output
    assert re.search(
        r"about [\d,]+ conversations .* At 500 a day that is [\d,.]+ days", begun.output
    )
    assert tomllib.loads(config.read_text())["experiment"]["name"] == "first"
    none_yet = run("report", config)
    assert none_yet.exit_code == 1
    assert "no experiment has run" in none_yet.output

    play(folder, "first", 3_000)
    told = run("report", config)
    assert told.exit_code == 0, told.output
    assert max(map(len, told.output.splitlines())) <= WIDTH
    assert all(name in told.output for name in FIGURES)
    assert "dollars > +5%                cleared" in told.output
    assert "errors, agora: 429" in told.output
    found = json.loads(
        CliRunner().invoke(agora, ["experiment", "report", str(config), "--json", "-"]).stdout
    )
    dollars = next(row for row in found["figures"] if row["figure"] == "dollars")
    assert dollars["ratio"]["low"] < 0.7 < dollars["ratio"]["high"] < 1
    assert dollars["difference"]["high"] < 0
    assert set(found["by_model"]) == {"gpt-5", "claude-opus-5"}

    page = tmp_path / "page.html"
    assert run("report", config, "--html", page).exit_code == 0
    inside = re.search(r'id="data">(.*?)</script>', page.read_text())
    assert inside is not None
    assert json.loads(inside[1]) == found
    assert "http" not in page.read_text().replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    )

    assert "running; " in run("status", config).output
    assert run("stop", config, "--reason", "enough seen").exit_code == 0
    assert stopped(folder) == "enough seen"
    now = run("status", config)
    assert now.exit_code == 1
    assert "stopped (enough seen)" in now.output
    assert "STOPPED, nothing is edited: enough seen" in run("report", config).output
    assert "it runs" in run("start", config).output
    assert stopped(folder) == ""


def test_replicas_with_folders_of_their_own_are_reported_together(
    config: Path, tmp_path: Path
) -> None:
    run("start", config, "--folder", tmp_path / "a", "--name", "n")
    play(tmp_path / "a", "n", 100)
    play(tmp_path / "b", "n", 150)
    found = run("report", config, "--folder", tmp_path / "b", "--json", tmp_path / "out.json")

    assert found.exit_code == 0, found.output
    told = json.loads((tmp_path / "out.json").read_text())
    assert sum(told["conversations"].values()) == 250


def test_what_cannot_be_done_is_said_with_its_remedy(config: Path, tmp_path: Path) -> None:
    assert "--folder is missing" in run("start", config).output
    assert "has no experiment" in run("stop", config).output
    assert "no such file" in run("status", tmp_path / "none.toml").output
    config.write_text(f'{UPSTREAM}[experiment]\nfolder = "x"\n')
    assert "remove the table" in run("start", config, "--folder", "x").output
    config.write_text(f"{UPSTREAM}[compression]\nkeep_ratio = 0.5 # [x\n")
    tiny = run("start", config, "--folder", "x", "--effect", "0.1", "--spread", "20")
    assert "No number of conversations" in tiny.output


@given(
    st.sampled_from(["", "# mode = 1\n", "[compression]\n", "[compression]\nmode = 'shadow'\n"]),
    st.sampled_from(["", "[log]\nlevel = 'info'\n", "[compression.x]\ny = 1\n"]),
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1),
)
def test_the_file_keeps_everything_else(before: str, after: str, name: str) -> None:
    text = UPSTREAM + before + after
    was = tomllib.loads(text)
    now = tomllib.loads(with_experiment(text, name=name, folder=Path("f"), share=0.25))

    assert now.pop("experiment") == {"name": name, "folder": "f", "share": 0.25}
    assert now["compression"].pop("mode") == "experiment"
    was.setdefault("compression", {}).pop("mode", None)
    assert now == was


def test_a_report_of_nothing_says_so() -> None:
    found = report([Account(name="n")], [parse_rule("calls > +5%")], "")

    assert found["figures"] == []
    assert any("more conversations are needed" in line for line in lines(found))
    one = Account(name="n")
    one.tally.add(Conversation(arm="agora", born=True, affected=True, calls=2), now=0.0)
    assert any("not known yet" in line for line in lines(report([one], [], "")))
