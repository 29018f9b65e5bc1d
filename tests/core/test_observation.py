import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.counted import first_names, words_of
from agora.core.reading.observation import MOST_NAMES, Observation, observe, outcome, read_ahead
from agora.core.reading.outcome import outcome_of, tells_an_error
from agora.core.reading.records import facts_in
from agora.core.reading.things import things_in
from agora.core.reading.values import values_in
from agora.core.reading.vocabulary import word_list, word_set
from agora.core.trajectory import Result, Step


@given(st.text(max_size=200) | st.sampled_from(['{"id": "A-1"}', "Exit code: 2", "a pot, a cup"]))
def test_each_part_is_what_reading_the_text_for_it_gives(text: str) -> None:
    seen = Observation(text)

    assert seen.facts == facts_in(text)
    assert seen.things == things_in(text)
    assert seen.outcome == outcome_of(text)
    assert seen.words == words_of(text)
    assert seen.names == set(first_names(text, MOST_NAMES))


def test_what_lines_are_made_of_can_be_read_ahead() -> None:
    text = "BSP-41 stands in the hall, read ahead by nobody else"
    read_ahead(Step(number=1, action="look", observation=text, tokens=20, action_tokens=2))

    assert {"things", "outcome", "facts"} <= vars(observe(text)).keys()


def test_a_result_is_read_once() -> None:
    text = "the same result, HAT136, every time"

    assert observe(text) is observe(text)
    assert observe(text).facts is observe(text).facts


def test_an_outcome_is_a_code_a_beginning_and_an_end() -> None:
    assert outcome_of("<returncode>1</returncode>").said == "exit 1"
    assert outcome_of("Error: no such file") == ("error", "Error: no such file")
    assert outcome_of("fine so far\n1 failed, 2 passed in 0.1s").failed
    assert outcome_of("fine so far\n[exit code: 2]") == ("exit 2", "fine so far")
    assert outcome_of("fine") == ("", "")


def test_every_list_of_words_is_words_in_lower_case_each_once() -> None:
    for table, names in {
        "names": ("sentence", "common", "orders", "counted_by", "defines", "extensions"),
        "actions": ("reads", "looks", "changes", "either", "runners", "editor_reads"),
        "outcome": ("error_keys", "went_keys", "broke_keys", "exit_keys", "status_keys", "fails"),
        "floor": ("plans",),
        "verbs": ("look", "change", "neither", "search", "run", "keep", "set_up"),
        "kinds": ("looks", "changes", "neither"),
    }.items():
        for name in names:
            found = word_list(table, name)
            assert found
            assert len(found) == len(word_set(table, name)), (table, name)
            assert all(word == word.lower() for word in found)


def test_a_word_that_is_very_long_is_told_apart_from_the_others() -> None:
    text = "short " + "x" * 500

    assert sorted(words_of(text)) == sorted(set(re.findall(r"\w{3,40}", text)))


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


def test_the_feature_of_an_error_is_one_for_an_error_and_otherwise_none() -> None:
    assert tells_an_error("Traceback (most recent call last):") == 1
    assert tells_an_error('{"detail": "Not found"}') == 1
    assert tells_an_error("all is well") == 0
    assert tells_an_error("x" * 300 + "error") == 0


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
