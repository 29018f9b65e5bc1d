import json

import pytest

from agora.core.reading.observation import outcome
from agora.core.reading.outcome import outcome_of
from agora.core.reading.values import values_in
from agora.core.trajectory import Result


def test_an_outcome_is_a_code_a_beginning_and_an_end() -> None:
    assert outcome_of("<returncode>1</returncode>").said == "exit 1"
    assert outcome_of("Error: no such file") == ("error", "Error: no such file")
    assert outcome_of("fine so far\n1 failed, 2 passed in 0.1s").failed
    assert outcome_of("fine so far\n[exit code: 2]") == ("exit 2", "fine so far")
    assert outcome_of("fine") == ("", "")


def test_an_exit_code_at_the_very_end_of_a_long_text_is_read() -> None:
    long = "so it goes and goes\n" * 400

    assert outcome_of(f"{long}[Command finished with exit code 127]").said == "exit 127"
    assert outcome_of(f"{long}Process exited with code 0").said == "exit 0"
    assert outcome_of(f"Process exited with code 3.\n\n{long}").said == "exit 3"
    assert outcome_of(f"{long}exit code: 3\n{long}").said == ""


def test_what_the_wire_says_of_a_failure_counts_for_data_too() -> None:
    assert outcome(Result('{"id": "A-11"}', failed=True)).said == "error"
    assert outcome(Result('{"id": "A-11"}', failed=False)).said == ""
    assert outcome(Result('{"exit_code": 0}', failed=True)).said == "error"
    assert outcome(Result('{"error": "no such user"}', failed=False)).said == "error"


def test_a_command_that_names_itself_and_its_fault_failed() -> None:
    failures = (
        "find: paths must precede expression: `a.txt'\nfind: possible unquoted pattern\n0",
        "cp: missing file operand\nTry 'cp --help' for more information.",
        "ls: invalid option -- 'z'",
        " && du ${2}' {} \\;: -c: line 1: unexpected EOF while looking for matching `''",
    )
    for failure in failures:
        assert outcome_of(failure) == ("error", failure.splitlines()[0].strip())
    assert not outcome_of("note: unknown option is what it says").failed
    assert not outcome_of("date: 3 May\nplace: Bonn").failed


@pytest.mark.parametrize("beside", ["total", "count", "page", "next", "hits"])
def test_errors_that_were_looked_for_are_no_failure(beside: str) -> None:
    found = {"errors": [{"id": "E-17", "line": "disk full"}]}

    assert outcome(Result(json.dumps(found))).failed
    assert not outcome(Result(json.dumps({**found, beside: 1}))).failed


def test_a_problem_is_known_by_its_type_and_title() -> None:
    def failed(**told: object) -> bool:
        text = json.dumps(told)
        return outcome_of(text, values_in(text)).failed

    assert failed(type="about:blank", title="Not Found", status=404)
    assert not failed(type="about:blank", title="Found", status=200)
    # A number beside a title alone may be of what was asked for.
    assert not failed(title="Route 66", status=404)
    assert not failed(type="road", status=404)
