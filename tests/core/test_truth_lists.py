"""What is said of results and calls that were listed to attack it, and of recorded failures."""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agora import Step
from agora.core import Call, Result

# Private: recorded outputs by the thousand, each with its outcome.
from agora.core.actions import changes
from agora.core.outcome import outcome_of
from agora.logs import Tally, read_logs

DATA = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[3] / "shared" / "data"))
LISTS = DATA.parent / "tools" / "truth"
RUNS = DATA / "swe-bench-gemini"
WENT_WELL = ("ok", "exit 0")
_RETURNED = re.compile(r"\s*<returncode>(-?\d+)</returncode>\n?(?:<output>\n?)?")


@cache
def listed(name: str) -> Any:
    path = LISTS / name
    if not path.is_file():
        pytest.skip("the lists are not beside the data folder; set AGORA_DATA to where it lies")
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def recorded_failures() -> tuple[str, ...]:
    """Return every recorded result with a code other than 0, as the agent got it."""
    if not RUNS.is_dir():
        pytest.skip("there is no swe-bench-gemini in the data folder; set AGORA_DATA")
    return tuple(_failures())


def _failures() -> Iterator[str]:
    for run in read_logs([RUNS], Tally()):
        for message in run.messages:
            text = message.get("content")
            if message["role"] != "assistant" and isinstance(text, str):
                returned = _RETURNED.match(text)
                if returned and int(returned[1]):
                    yield text


def printed(text: str) -> str:
    """Return the command's output without the frame of the program that ran it."""
    return _RETURNED.sub("", text).removesuffix("\n").removesuffix("</output>")


def by_tool(name: str, arguments: object) -> Step:
    calls = (Call(name, json.dumps(arguments)),)
    return Step(number=1, action="", observation="", tokens=9, calls=calls)


def test_no_failure_is_said_to_have_gone_well() -> None:
    failures = listed("outcomes.json")["failures"]

    wrong = [
        name for name, text in failures.items() if outcome_of(Result(text)).status in WENT_WELL
    ]
    assert len(failures) >= 139
    assert wrong == []


def test_a_failure_that_the_wire_tells_is_said_whatever_its_result_says() -> None:
    for name, text in listed("outcomes.json")["failures"].items():
        assert outcome_of(Result(text, failed=True)).failed, name


def test_next_to_no_success_is_said_to_have_failed() -> None:
    successes = listed("outcomes.json")["successes"]

    wrong = [name for name, text in successes.items() if outcome_of(Result(text)).failed]
    assert len(successes) >= 30
    assert len(wrong) <= 2, wrong


def test_the_reason_of_a_failure_is_copied_from_it() -> None:
    for name, text in listed("outcomes.json")["failures"].items():
        lines = (*_as_lines(text), *_strings(text))
        for part in outcome_of(Result(text)).reason.split("…"):
            assert any(" ".join(part.split()) in line for line in lines), name


def _as_lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def _strings(text: str) -> list[str]:
    """Return the texts inside a result that is JSON, line by line."""
    try:
        value = json.loads(text)
    except ValueError:
        return []
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        else:
            found += _as_lines(str(one))
    return found


def test_no_change_is_taken_for_a_read() -> None:
    found = listed("changes.json")
    calls = [("bash", {"command": command}) for command in found["shell_changes"]]
    steps = [by_tool(*one) for one in (*calls, *found["tool_changes"])]

    assert len(steps) >= 335
    assert [step.calls for step in steps if not changes(step)] == []


def test_no_change_of_an_agent_that_acts_by_text_is_taken_for_a_read() -> None:
    for command in listed("changes.json")["shell_changes"]:
        said = f"```bash\n{command}\n```"
        assert changes(Step(number=1, action=said, observation="", tokens=9)), command


def test_no_recorded_failure_says_that_it_went_well() -> None:
    failures = recorded_failures()

    assert len(failures) > 1_000
    assert [text for text in failures if outcome_of(Result(text)).status in WENT_WELL] == []


@pytest.mark.parametrize("shape", ["json", "text"])
def test_a_recorded_failure_in_a_frame_with_its_code_says_the_code(shape: str) -> None:
    for text in recorded_failures():
        returned = _RETURNED.match(text)
        assert returned
        code, output = int(returned[1]), printed(text)
        if shape == "json":
            metadata = {"exit_code": code, "duration_seconds": 0.1}
            wrapped = json.dumps({"output": output, "metadata": metadata})
        else:
            wrapped = f"Exit code: {code}\nWall time: 0.1 seconds\nOutput:\n{output}"

        assert outcome_of(Result(wrapped)).status == f"exit {code}"
