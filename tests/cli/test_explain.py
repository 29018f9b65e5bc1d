import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from agora.cli.picture import Look, Picture, in_short
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Reason, Rung
from agora.core.trajectory import Anchor, Call, Step
from tests.cli.conftest import EVERY_CALL, Run, Write, chat
from tests.logs.test_claude_code import Session


def every_call(**options: Any) -> Compressor:
    return Compressor(schedule="every_call", **options)


def picture(messages: Any, compressor: Compressor | None = None, **look: Any) -> list[str]:
    compressor = compressor or every_call()
    drawn = Picture(
        compression=compressor.compress(messages), name="request.json", budget=compressor.budget
    )
    return [line.plain for line in drawn.lines(Look(**look))]


def test_every_step_has_a_row_with_its_size_outcome_and_reason(run: Run, write: Write) -> None:
    result = run("explain", *EVERY_CALL, write(chat(12)))

    rows = re.findall(
        r"^ +(\d+) [#+.]+ +([\d,]+) +[\d.]+ +(floor|kept|elided) ", result.stdout, re.MULTILINE
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, 13))
    decisions = every_call().compress(chat(12)).decisions
    assert [(tokens, outcome) for _, tokens, outcome in rows] == [
        (f"{decision.tokens:,}", decision.outcome) for decision in decisions
    ]
    assert "current observation" in result.stdout
    assert (
        "read_file(src/part_1.py)"
        in run("explain", *EVERY_CALL, write(chat(12)), "--width", "120").stdout
    )


def test_an_elided_step_shows_the_line_that_stands_for_it(run: Run, write: Write) -> None:
    compression = every_call().compress(chat(12))
    result = run("explain", *EVERY_CALL, write(chat(12)), "--width", "120")

    for decision in compression.decisions:
        if decision.text:
            assert f"`- {decision.text}" in result.stdout


def test_the_head_has_the_totals_of_the_compression(run: Run, write: Write) -> None:
    compression = every_call().compress(chat(12))
    head = run("explain", *EVERY_CALL, write(chat(12))).stdout.split("\n\nstep")[0]

    assert head.startswith("request.json | openai\n12 steps: 2 floor, ")
    assert f"{compression.tokens_before:,} -> {compression.tokens_after:,} tokens" in head
    assert "fixed: preamble" in head
    assert "(25%)" in head


def test_piped_it_is_ascii_without_colour_and_no_wider_than_asked(run: Run, write: Write) -> None:
    for width in (60, 80, 120):
        out = run("explain", *EVERY_CALL, write(chat(12)), "--width", str(width)).stdout
        assert out.isascii()
        assert "\x1b" not in out
        assert max(len(line) for line in out.splitlines()) <= width


def test_on_a_terminal_it_has_colour_and_no_color_takes_it_away(run: Run, write: Write) -> None:
    path = write(chat(12))

    assert "\x1b[" in run("explain", *EVERY_CALL, path, FORCE_COLOR="1", TERM="xterm").stdout
    assert "█" in run("explain", *EVERY_CALL, path, FORCE_COLOR="1", TERM="xterm").stdout
    plain = run("explain", *EVERY_CALL, path).stdout
    assert (
        run("explain", *EVERY_CALL, path, FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").stdout
        == plain
    )
    assert (
        run("explain", *EVERY_CALL, path, "--plain", FORCE_COLOR="1", TERM="xterm").stdout == plain
    )


def test_of_many_steps_the_first_and_the_last_are_shown_unless_all_are_asked_for(
    run: Run, write: Write
) -> None:
    path = write(chat(300, lines=2))
    short = run("explain", *EVERY_CALL, path, "--rows", "6").stdout

    assert re.search(r"\.\.\. 294 more steps: .*--all shows them", short)
    assert re.findall(r"^ +(\d+) ", short, re.MULTILINE) == ["1", "2", "3", "298", "299", "300"]
    assert (
        len(re.findall(r"^ +\d+ ", run("explain", *EVERY_CALL, path, "--all").stdout, re.MULTILINE))
        == 300
    )


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

    assert any("action stays" in line for line in picture(messages))


def test_a_pending_block_is_part_of_what_is_fixed() -> None:
    transcript = "[USER] Find it. " + "[ASSISTANT] open [USER] shut " * 9 + "[ASSISTANT] and now"

    assert any("pending" in line and "pending aside" in line for line in picture(transcript))


def test_a_floor_above_the_budget_is_said_to_be_so() -> None:
    lines = picture(chat(12), every_call(budget=Budget(limit=50)), width=120)

    assert lines[-1].startswith("Above the budget: what always stays")
    assert "budget 50" in "\n".join(lines)


def test_the_papers_unit_is_characters(run: Run, write: Write) -> None:
    out = run("explain", *EVERY_CALL, "--paper", write(chat(12))).stdout

    assert "characters" in out
    assert " chars " in out


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


def test_a_prompt_that_fits_is_drawn_once(run: Run, write: Write) -> None:
    out = run("explain", *EVERY_CALL, write(chat(4)), "--keep-ratio", "1").stdout

    assert "prompt  =" in out
    assert "after" not in out
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
        def score(self, anchor: Anchor, steps: Any) -> list[float]:
            return []

    lines = picture(chat(12), every_call(scorer=Broken()))

    assert any(line.startswith("Scored by the fallback rule: ") for line in lines)


_CHANGED = {Reason.THINKING_REMOVED: "Thinking: ", Reason.SHORTENED_AT_ARRIVAL: "At arrival: "}


def test_every_reason_has_a_sentence() -> None:
    for reason in Reason:
        if reason is not Reason.COMPRESSED:
            compression = Compression(
                messages=[], reason=reason, rung=Rung.UNTOUCHED, tokens_before=0, tokens_after=0
            )
            drawn = Picture(compression=compression, name="x", budget=Budget())
            said = _CHANGED.get(reason, "Unchanged: ")
            assert any(said in line.plain for line in drawn.lines(Look()))


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(st.text(max_size=200), min_size=1, max_size=8),
    width=st.integers(60, 140),
    plain=st.booleans(),
)
def test_no_text_steers_the_terminal_or_breaks_a_row(
    texts: list[str], width: int, plain: bool
) -> None:
    messages = chat(len(texts))
    for n, text in enumerate(texts):
        messages[2 + 2 * n]["tool_calls"][0]["function"]["arguments"] = text
        messages[3 + 2 * n]["content"] = f"{text} \x1b[2J" * 9
    lines = picture(messages, every_call(k_recent=1), width=width, plain=plain)

    for line in lines:
        assert line.isprintable()
        assert cell_len(line) <= width


@given(share=st.floats(0, 1), width=st.integers(1, 60), plain=st.booleans())
def test_a_bar_has_its_width_and_shows_whatever_is_more_than_nothing(
    share: float, width: int, plain: bool
) -> None:
    bar = Look(plain=plain).bar(share, width, "kept").plain

    assert cell_len(bar) == width
    assert bool(bar.strip()) == (share > 0)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text(), width=st.integers(0, 40), plain=st.booleans())
def test_a_fitted_text_is_one_line_of_at_most_its_width(text: str, width: int, plain: bool) -> None:
    fitted = Look(plain=plain).fit(text, width)

    assert cell_len(fitted) <= width
    assert fitted.isprintable()


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
    for n in range(24):
        session.step(f"read_{n}", "value = compute(value) " * 200, prompt=prompt, read=prompt - 700)
        prompt += 1_100
    path = str(session.write(tmp_path))
    options = ("--ceiling", "1.5")

    figures = json.loads(run("explain", path, *options, "--json", "-").stdout)
    replayed = json.loads(run("replay", path, *options, "--json", "-").stdout)
    [row] = replayed["rows"]

    assert figures["changed"]
    assert figures["tokens_before"] * row["tokens_scale"] == pytest.approx(row["tokens"], rel=0.01)
    # The last call that was made is one step before what is explained: the next one.
    before = Session()
    before.lines = session.lines[:-1]
    cut = str(before.write(tmp_path / "cut"))
    now = json.loads(run("explain", cut, *options, "--json", "-").stdout)
    elided = [step["number"] for step in now["steps"] if step["outcome"] == "elided"]
    assert elided == [step[0] for step in row["detail"]["by_sheet"]["own"]["elided"]]
    drawn = run("explain", path, *options, "--width", "120")
    assert "not in the log)" in drawn.stdout
    assert "They are counted, as in agora replay." in drawn.stderr


def test_of_a_log_that_was_shortened_before_it_says_that_replay_leaves_it(
    run: Run, tmp_path: Path
) -> None:
    session = Session().user("Find out why load_config fails.")
    for n in range(12):
        session.step(f"read_{n}", "value = compute(value) " * 400, prompt=2_000 + n)

    said = run("explain", str(session.write(tmp_path)), *EVERY_CALL).stderr

    assert "agora replay leaves this one as it was: it was shortened" in said
