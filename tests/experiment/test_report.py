"""`agora experiment`: both arms compared, by the lines of logs."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from agora.experiment import Arm

# Private: the list of figures that a report has.
from agora.experiment.report import FIGURES
from tests import command

BEGAN = datetime(2026, 11, 19, 12, tzinfo=UTC)


def line(minute: float, conversation: str, arm: Arm, **more: Any) -> dict[str, Any]:
    """Return a line of a call, as the service writes it."""
    when = (BEGAN + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    call: dict[str, Any] = {"time": when, "route": "chat"}
    call |= {"experiment": "first", "arm": arm, "conversation": conversation, "status": 200}
    return call | {"reason": "kept", "dollars": 0.01, **more}


def conversation(minute: float, name: str, arm: Arm, **more: Any) -> list[dict[str, Any]]:
    """Return the lines of a conversation of two calls that can be compared."""
    first = line(minute, name, arm, reason="too_short")
    return [first, line(minute + 1, name, arm, **more)]


LATER = line(1e6, "later", Arm.AGORA)
"""Of a conversation that began so late that all others are over."""


def run(*arguments: object, typed: str = "") -> Result:
    return command.run("experiment", *arguments, typed=typed or None)


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def reported(path: Path, rows: list[dict[str, Any]], *options: object) -> list[dict[str, Any]]:
    ran = run(written(path, rows), "--json", "-", *options)
    assert ran.exit_code == 0, ran.output
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def counts(path: Path, rows: list[dict[str, Any]], *options: object) -> tuple[int, int, int]:
    (found,) = reported(path, rows, *options)
    return found["conversations"]["agora"], found["conversations"]["everything"], found["open"]


def test_the_effect_of_an_arm_is_within_its_interval(tmp_path: Path) -> None:
    chance, rows = random.Random(1), []
    for number in range(3_000):
        arm = chance.choice((Arm.AGORA, Arm.EVERYTHING))
        size = chance.lognormvariate(0, 0.7)
        rows += conversation(
            number,
            f"c{number}",
            arm,
            dollars=size * (0.7 if arm is Arm.AGORA else 1.0),
            outcome=chance.random(),
            extra_calls=chance.choice((0.0, 4.0)) if arm is Arm.AGORA else 0.0,
            **({"status": 429} if chance.random() < 0.05 else {}),
        )
    # Two replicas, each with a log of its own, neither in order.
    chance.shuffle(rows)
    one, other = (written(tmp_path / name, part) for name, part in
                  (("a.log", rows[:2_000]), ("b.log", [*rows[2_000:], LATER])))  # fmt: skip
    ran = run(one, other)
    (found,) = json.loads(run(one, other, "--json", "-").stdout)
    figures = {row["figure"]: row for row in found["figures"]}

    assert ran.exit_code == 0, ran.output
    assert max(map(len, ran.output.splitlines())) <= 80
    assert "errors, agora: 429" in ran.output
    assert sum(found["conversations"].values()) == 3_000
    assert list(figures) == list(FIGURES)
    dollars = figures["dollars"]
    assert dollars["ratio"]["low"] < 0.71 < dollars["ratio"]["high"] < 1
    typical = figures["typical_dollars"]
    assert dollars["ratio"]["low"] < typical["ratio"]["low"] < 0.71 < typical["ratio"]["high"] < 1
    assert typical["agora"] < dollars["agora"]
    for same in ("errors", "outcome"):
        assert figures[same]["difference"]["low"] < 0 < figures[same]["difference"]["high"], same
    extra = figures["extra_calls"]["difference"]
    assert 1 < extra["low"] < 2 < extra["high"]
    assert figures["errors"]["agora"] == pytest.approx(0.025, abs=0.01)


def test_only_conversations_that_can_be_compared_are_counted(tmp_path: Path) -> None:
    rows = [
        *conversation(0, "whole", Arm.AGORA),
        line(0, "waited at first", Arm.WAITING),
        line(1, "waited at first", Arm.AGORA),
        line(0, "short", Arm.EVERYTHING, reason="too_short"),
        *conversation(0, "other arm", Arm.EVERYTHING),
        line(1e6 - 10, "still open", Arm.EVERYTHING),
        LATER,
    ]

    assert counts(tmp_path / "log", rows) == (1, 1, 2)


def test_what_comes_after_the_end_of_a_conversation_changes_nothing(tmp_path: Path) -> None:
    rows = [*conversation(0, "a", Arm.AGORA), line(60, "a", Arm.AGORA, dollars=9.0), LATER]
    (found,) = reported(tmp_path / "log", rows)
    (patient,) = reported(tmp_path / "log", rows, "--idle-minutes", 90)

    dollars, patient_dollars = (each["figures"][0]["agora"] for each in (found, patient))
    assert (dollars, patient_dollars) == (pytest.approx(0.02), pytest.approx(9.02))


def test_a_file_of_ones_own_says_how_conversations_ended(tmp_path: Path) -> None:
    log = written(
        tmp_path / "log",
        [
            *conversation(0, "a", Arm.AGORA, outcome=0.25),
            *conversation(0, "b", Arm.EVERYTHING),
            LATER,
        ],
    )
    own = [{"conversation": "a", "outcome": 1}, {"conversation": "b", "outcome": False}]
    own += [{"conversation": "nobody", "outcome": 1}, {"conversation": "b", "outcome": "good"}]
    (found,) = json.loads(run(log, written(tmp_path / "own.jsonl", own), "--json", "-").stdout)

    outcome = found["figures"][-1]
    assert (outcome["figure"], outcome["agora"], outcome["everything"]) == ("outcome", 1.0, 0.0)


def test_each_experiment_of_a_log_is_reported_by_itself(tmp_path: Path) -> None:
    rows = [*conversation(0, "a", Arm.AGORA), *conversation(0, "b", Arm.EVERYTHING)]
    rows += [{**row, "experiment": "second"} for row in conversation(0, "c", Arm.AGORA)]

    first, second = reported(tmp_path / "log", [*rows, LATER])
    assert (first["experiment"], second["experiment"]) == ("first", "second")
    assert second["conversations"] == {"agora": 1, "everything": 0}


def test_other_lines_are_passed_over_and_what_a_collector_puts_before_them(tmp_path: Path) -> None:
    rows = [*conversation(0, "a", Arm.AGORA), LATER]
    typed = 'Traceback\n{ "conversation"\n[1]\n' + "".join(
        f"2026-11-19T12:00:00Z stderr F {json.dumps(row)}\n" for row in rows
    )
    ran = run("-", typed=typed)

    assert ran.exit_code == 0, ran.output
    assert "first: 1 conversations with AGORA, 0 with everything, 1 still open" in ran.output
    assert "not known yet" in ran.output


def test_without_a_line_of_an_experiment_it_is_said_what_writes_them(tmp_path: Path) -> None:
    ran = run(written(tmp_path / "log", [{"route": "chat"}]))

    assert ran.exit_code == 1
    assert 'mode = "experiment"' in ran.output
    assert run(tmp_path / "none").exit_code == 2
