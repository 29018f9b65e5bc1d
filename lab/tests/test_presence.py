import json
from typing import Any

import pytest
from lab.benchmarks.presence import (
    METHODS,
    Point,
    Source,
    Step,
    difference,
    kept_of,
    lines_in,
    names_in,
    names_used,
    point_at,
    read_rows,
    runs_in,
    steps_of,
    tokens_in,
    write_rows,
)

from agora.logs import Recording

TOOLS = Source("", 1, 1)
SHELL = Source("", 1, 1, "<returncode>")
Message = dict[str, Any]


def call(number: int, result: str, **arguments: object) -> list[Message]:
    function = {"name": "look", "arguments": json.dumps(arguments)}
    called = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
    ]


def shell(command: str, output: str) -> list[Message]:
    return [
        {"role": "assistant", "content": f"THOUGHT: now.\n```bash\n{command}\n```"},
        {"role": "user", "content": f"<returncode>0</returncode>\n{output}"},
    ]


def point(steps: list[list[Message]], *, at: int, source: Source) -> Point:
    start: list[Message] = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "The task."},
    ]
    messages: list[Any] = [*start, *(message for step in steps for message in step)]
    return point_at(Recording(id="r", format="openai", messages=[]), messages, at, source)


def orders(*, later: list[Message]) -> Point:
    """Give a point after six calls, of which the first four are old."""
    steps = [call(n, f"order #W{n}7703, item {n}98765{n}4", order=f"old{n}") for n in range(6)]
    return point([*steps, later], at=6, source=TOOLS)


def test_a_name_that_only_an_old_result_has_is_needed() -> None:
    found = orders(later=call(9, "done", order="#W17703", reason="none"))

    assert found.needs["names"] == {"#W17703"}


@pytest.mark.parametrize("reference", ["#W57703", "#W97703"])
def test_a_name_is_not_needed_if_a_recent_step_has_it_or_no_step(reference: str) -> None:
    found = orders(later=call(9, "done", order=reference))

    assert not found.needs["names"]


def test_what_the_user_says_after_the_cut_is_not_needed_from_old_steps() -> None:
    said = {"role": "user", "content": "My order is #W17703."}
    first = call(8, "fine", order="none")

    found = orders(later=[*first, said, *call(9, "done", order="#W17703")])

    assert not found.needs["names"]


def test_words_and_small_or_round_numbers_are_no_names() -> None:
    assert names_in("delete the economy flight at 12:30 for 60000 ms") == set()


def test_capitals_are_a_name_only_as_a_whole_argument() -> None:
    (action, _) = call(1, "", origin="JFK", query="SELECT NAME FROM cars_data")

    assert names_used(action) == {"JFK", "cars_data"}


def test_a_script_counts_as_copied_from_its_json_too() -> None:
    script = 'for row in rows:\n\tprint("total", row[1])'

    assert runs_in(script) == runs_in(json.dumps(script)[1:-1])


def test_a_line_counts_as_the_same_whatever_its_number_in_a_view() -> None:
    assert lines_in("  12\tdef total(rows):\n}\n") == lines_in("def total(rows):")


def test_a_complaint_about_the_form_of_an_action_is_no_observation() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "Task"},
        {"role": "assistant", "content": "no command"},
        {"role": "user", "content": "Give exactly one command."},
        *shell("ls", "a.py"),
    ]

    assert steps_of(messages, SHELL.answers) == [Step(3, 5)]
    assert steps_of(messages, "") == [Step(1, 3), Step(3, 5)]
    assert steps_of(messages, None) == []


def test_a_line_read_again_and_a_command_given_again_are_needed() -> None:
    old = [shell(f"cat file_{n}.txt | sort | uniq -c | head", f"result line {n}") for n in range(6)]

    found = point([*old, old[1]], at=6, source=SHELL)

    assert found.needs["lines"] == {"result line 1"}
    assert found.needs["copied"]
    assert kept_of(found.needs, found.messages) == {"names": 1.0, "copied": 1.0, "lines": 1.0}
    assert kept_of(found.needs, []) == {"names": 0.0, "copied": 0.0, "lines": 0.0}


def test_a_sliding_window_keeps_the_newest_and_commands_first_keeps_commands() -> None:
    output = "many words of output " * 40
    steps = [shell(f"cat part_{n}.txt", output) for n in range(7)]
    found = point([*steps, shell("ls", "")], at=7, source=SHELL)

    window = json.dumps(METHODS["sliding window"](found, 0.25))
    commands = json.dumps(METHODS["commands first"](found, 0.4))

    assert [n for n in range(7) if f"part_{n}" in window] == [4, 5, 6]
    assert [n for n in range(7) if f"part_{n}" in commands] == [*range(7)]
    assert commands.count(output) == 3


@pytest.mark.parametrize("name", METHODS)
def test_no_method_changes_what_is_not_old(name: str) -> None:
    steps = [call(n, "many words of output " * 60, part=n) for n in range(12)]
    found = point([*steps, call(12, "")], at=12, source=TOOLS)

    sent = list(METHODS[name](found, 0.25))

    assert sent[-4:] == found.messages[-4:]
    assert sent[0] == found.messages[0]
    assert tokens_in(sent) < 0.6 * tokens_in(found.messages)


def test_a_difference_is_taken_point_by_point() -> None:
    ours: dict[str, Any] = {"task": [0, 0, 1], "values": {"names": [1.0, 0.5, None]}}
    theirs: dict[str, Any] = {"task": [0, 0, 1], "values": {"names": [0.5, 0.5, 1.0]}}

    assert difference(ours, theirs, "names") == {"mean": 0.25, "interval": [0.25, 0.25], "n": 2}


def test_results_are_read_back_from_their_file_and_from_a_baseline(tmp_path: Any) -> None:
    rows = [{"source": "airline", "names": {"mean": 0.5}}]
    write_rows(tmp_path / "own.json", rows)
    own = json.loads((tmp_path / "own.json").read_text())
    (tmp_path / "baseline.json").write_text(json.dumps({"presence": own}))

    assert read_rows(tmp_path / "own.json") == rows
    assert read_rows(tmp_path / "baseline.json") == rows
