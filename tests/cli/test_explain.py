import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from agora import Budget, Compression, Compressor, FallbackLevel, Query, Reason, Step

# Private: any width and any text: a property of the printer, not of one command.
from agora.cli.picture import in_short, show
from agora.core import Call
from tests.cli.conftest import EVERY_CALL, Run, Write, chat
from tests.logs.test_claude_code import Session


def every_call(**options: Any) -> Compressor:
    return Compressor(edits="every_call", **options)


def drawn(compression: Compression, budget: Budget, width: int = 100) -> list[str]:
    """Return the lines that are printed of a compression."""
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False)
    show(compression, console, name="request.json", budget=budget)
    return out.getvalue().split("\n")


def picture(messages: Any, compressor: Compressor | None = None, width: int = 100) -> list[str]:
    compressor = compressor or every_call()
    return drawn(compressor.compress(messages), compressor.budget, width)


def test_every_step_has_a_row_with_its_action_what_is_left_of_it_and_why(
    run: Run, write: Write
) -> None:
    result = run("explain", *EVERY_CALL, write(chat(12)), COLUMNS="140")

    rows = re.findall(
        r"^ +(\d+) +([\d,]+) +read_file\S* +(whole|a line|its call|its number)",
        result.stdout,
        re.MULTILINE,
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, 13))
    words = {"whole": "whole", "line": "a line", "note": "its call", "omitted": "its number"}
    decisions = every_call().compress(chat(12)).decisions
    assert [(tokens, after) for _, tokens, after in rows] == [
        (f"{decision.tokens:,}", words[decision.kind]) for decision in decisions
    ]
    assert "current observation" in result.stdout
    assert "read_file(src/part_1.py)" in result.stdout


def test_an_elided_step_shows_the_line_that_stands_for_it(run: Run, write: Write) -> None:
    compression = every_call().compress(chat(12))
    result = run("explain", *EVERY_CALL, write(chat(12)), COLUMNS="300")

    for decision in compression.decisions:
        if decision.text:
            assert f": {decision.text}" in result.stdout


def test_the_head_has_the_totals_of_the_compression(run: Run, write: Write) -> None:
    compression = every_call().compress(chat(12))
    head = run("explain", *EVERY_CALL, write(chat(12))).stdout.split("\n\n")[0]

    assert head.startswith("request.json | openai\n12 steps: 2 protected, ")
    assert f"{compression.tokens_before:,} -> {compression.tokens_after:,} tokens" in head
    assert "fixed: preamble" in head
    assert "(25%)" in head


def test_it_has_colour_on_a_terminal_and_none_in_a_pipe(run: Run, write: Write) -> None:
    path = write(chat(12))

    assert "\x1b[" in run("explain", *EVERY_CALL, path, FORCE_COLOR="1", TERM="xterm").stdout
    assert "\x1b" not in run("explain", *EVERY_CALL, path).stdout


def test_of_many_steps_the_first_and_the_last_are_shown_unless_all_are_asked_for(
    run: Run, write: Write
) -> None:
    path = write(chat(300, lines=2))
    short = run("explain", *EVERY_CALL, path).stdout
    whole = run("explain", *EVERY_CALL, path, "--all").stdout

    assert re.search(r"260 more steps +--all shows them", short)
    assert len(re.findall(r"^ +\d+ ", short, re.MULTILINE)) == 40
    assert len(re.findall(r"^ +\d+ ", whole, re.MULTILINE)) == 300


def test_a_step_elided_in_place_says_that_its_calls_stay() -> None:
    messages: list[Any] = [{"role": "user", "content": "Find it."}]
    for n in range(8):
        use = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"part": n}}
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "x = 1\n" * 60}
        messages += [
            {"role": "assistant", "content": [thought, use]},
            {"role": "user", "content": [result]},
        ]

    assert any("its call stays" in line for line in picture(messages))


def test_nothing_in_a_log_steers_the_terminal(run: Run, write: Write) -> None:
    messages = chat(12)
    for message in messages[2::2]:
        message["tool_calls"][0]["function"]["name"] = "go\x1b[2J\x9b31m\r"
    for message in messages[3::2]:
        message["content"] += "\x1b]0;owned\x07\x1b[8m"

    shown = run("explain", *EVERY_CALL, write(messages)).output

    assert "go" in shown
    assert not [sign for sign in shown if not sign.isprintable() and sign != "\n"]


def test_a_pending_block_is_part_of_what_is_fixed() -> None:
    transcript = "[USER] Find it. " + "[ASSISTANT] open [USER] shut " * 9 + "[ASSISTANT] and now"

    assert any("pending" in line for line in picture(transcript))


def test_a_floor_above_the_budget_is_said_to_be_so() -> None:
    said = "\n".join(picture(chat(12), every_call(budget=Budget(limit=50))))

    assert "\nAbove the budget: what always stays" in said
    assert "budget 50" in said


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (chat(12)[:-1], "the provider would refuse"),
        (chat(1), "belongs to the floor"),
        ([{"role": "user", "content": "hi"}], "no step was found"),
    ],
)
def test_when_nothing_is_changed_the_foot_says_why(messages: Any, said: str) -> None:
    assert said in "\n".join(picture(messages))


def test_a_prompt_that_fits_is_left_alone(run: Run, write: Write) -> None:
    out = run("explain", *EVERY_CALL, write(chat(4)), "--keep-ratio", "1").stdout

    assert "Unchanged: the prompt already fits the budget." in out


def test_talk_without_steps_gets_the_hint_how_to_read_it(run: Run) -> None:
    talk = [{"role": role, "content": "well " * 9} for role in ("user", "assistant") * 4]
    out = run("explain", *EVERY_CALL, input=json.dumps(talk)).stdout

    assert "--observations user" in out


def test_server_side_history_has_a_head_and_a_reason(run: Run) -> None:
    body = {"input": [{"role": "user", "content": "hi"}], "previous_response_id": "r"}
    out = run("explain", *EVERY_CALL, input=json.dumps(body)).stdout

    assert (
        out
        == "standard input | responses\n\nUnchanged: the provider holds earlier messages itself.\n"
    )


def test_a_scorer_that_fails_is_named_in_the_foot() -> None:
    class Broken:
        def score(self, query: Query, steps: Any) -> list[float]:
            return []

    lines = picture(chat(12), every_call(scorer=Broken()))

    assert any(line.startswith("The scorer failed, so newer steps came first: ") for line in lines)


def test_every_reason_has_a_sentence() -> None:
    for reason in Reason:
        if reason is not Reason.COMPRESSED:
            compression = Compression(
                messages=[],
                reason=reason,
                fallback_level=FallbackLevel.UNTOUCHED,
                tokens_before=0,
                tokens_after=0,
            )
            assert drawn(compression, Budget())[-2]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=200), min_size=1, max_size=8), width=st.integers(60, 140))
def test_no_text_steers_the_terminal_or_breaks_a_row(texts: list[str], width: int) -> None:
    messages = chat(len(texts))
    for n, text in enumerate(texts):
        messages[2 + 2 * n]["tool_calls"][0]["function"]["arguments"] = text
        messages[3 + 2 * n]["content"] = f"{text} \x1b[2J" * 9

    for line in picture(messages, every_call(k_recent=1), width=width):
        assert line.isprintable()
        assert cell_len(line) <= width


def step(action: str = "", *calls: Call) -> Step:
    return Step(number=1, action=action, observation="", tokens=1, calls=calls)


@pytest.mark.parametrize(
    ("given", "short"),
    [
        (step("", Call("a", '{"x": [1, 2]}'), Call("b", '"y"')), "a([1, 2]) + b(y)"),
        (step("", Call("a", "{not json")), "a({not json)"),
        (step("", Call("a", "9" * 4_000)), f"a({'9' * 400})"),
        (step("\n look around\nand listen"), " look around"),
        (step("I will list.\n```bash\nls -F\n```\n"), "ls -F"),
        (step("Odd.\n```"), "Odd."),
        (step(""), ""),
    ],
)
def test_an_action_in_short_is_what_was_done(given: Step, short: str) -> None:
    assert in_short(given) == short


def test_of_a_log_it_counts_what_replay_counts_and_names_the_same_edit(
    run: Run, tmp_path: Path
) -> None:
    session = Session().user("Find out why load_config fails.")
    prompt = 20_000
    for n in range(60):
        session.step(f"read_{n}", "value = compute(value) " * 200, prompt=prompt, read=prompt - 700)
        prompt += 1_100
    path = str(session.write(tmp_path))
    figures = json.loads(run("explain", path, "--json", "-").stdout)
    replayed = json.loads(run("replay", path, "--json", "-").stdout)
    [row] = replayed["rows"]

    assert figures["changed"]
    # The last call that was made is one step before what is explained: the next one.
    before = Session()
    before.lines = session.lines[:-1]
    cut = str(before.write(tmp_path / "cut"))
    now = json.loads(run("explain", cut, "--json", "-").stdout)
    elided = [step["number"] for step in now["steps"] if step["outcome"] == "elided"]
    assert elided == [step[0] for step in row["detail"]["elided"]]
    shown = run("explain", path)
    assert "not in the log)" in shown.stdout
    assert "They are counted, as in agora replay." in shown.stderr


def test_of_a_log_that_was_shortened_before_it_says_that_replay_leaves_it(
    run: Run, tmp_path: Path
) -> None:
    session = Session().user("Find out why load_config fails.")
    for n in range(12):
        session.step(f"read_{n}", "value = compute(value) " * 400, prompt=2_000 + n)

    said = run("explain", str(session.write(tmp_path)), *EVERY_CALL).stderr

    assert "agora replay leaves this one as it was: it was shortened" in said
