"""Noise is left out of results when they arrive, in every format, the same at every later call."""

import copy
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agora import Compressor
from agora.adapters import FORMATS, Parsed, broken_rules, make_request, parse
from agora.adapters.results import rewritten
from agora.core.compression import Arrived, Compression, Reason
from agora.core.reading.noise import KINDS
from agora.core.reading.repeats import Run, Shown, expanding, reference, referring
from agora.core.renditions.markers import code_of
from agora.testing import EveryNth, History, RandomScorer
from agora.testing.strategies import histories

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "100"))
NOISE = "\x1b[31mred\x1b[0m\n" + "warning: deprecated call\n" * 9
CLEAN = Compressor(noise=KINDS, schedule="never")
ANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def with_noise(text: str) -> str:
    """Return a result with noise in its middle, so that a frame around it stays."""
    half = len(text) // 2
    return f"{text[:half]}\n{NOISE}{text[half:]}"


def inside(history: History, write: Callable[[int, str], str]) -> Any:
    """Return the messages of a history with its results written anew."""
    parsed = parse(make_request(history.messages, **history.request))
    messages = rewritten(parsed, write)
    # What an agent by text observed is known by its frame, which must not be torn.
    assume(parse(make_request(messages, **history.request)).owners == parsed.owners)
    return messages


def noisy(history: History) -> Any:
    """Return the messages of a history with noise in each of its results."""
    return inside(history, lambda _, text: with_noise(text))


@pytest.mark.parametrize("format_name", FORMATS)
def test_only_results_are_reached_and_the_callers_messages_stay(format_name: str) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        parsed = parse(make_request(history.messages, **history.request))
        before = copy.deepcopy(history.messages)

        changed = noisy(history)
        again = parse(make_request(changed, **history.request))

        assert rewritten(parsed, lambda _, text: text) is parsed.messages or isinstance(before, str)
        assert history.messages == before
        assert again.trajectory.preamble == parsed.trajectory.preamble
        assert again.trajectory.utterances == parsed.trajectory.utterances
        assert [s.action for s in again.trajectory.steps] == [
            s.action for s in parsed.trajectory.steps
        ]

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_cleaned_messages_are_legal_and_begin_like_those_of_the_call_before(
    format_name: str,
) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = noisy(history)
        whole = CLEAN.compress(messages, **history.request)
        assert not broken_rules(make_request(whole.messages, **history.request))
        if isinstance(messages, str):
            return
        for end in range(1, len(messages)):
            earlier = CLEAN.compress(messages[:end], **history.request)
            assert earlier.messages == whole.messages[:end] or not earlier.arrived.results

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_noise_and_edits_go_together(format_name: str) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = noisy(history)
        plain = Compressor(schedule=EveryNth(2), scorer=RandomScorer(3))
        both = Compressor(schedule=EveryNth(2), scorer=RandomScorer(3), noise=("codes", "repeated"))
        compression = both.compress(messages, **history.request)
        assume(compression.arrived.results)

        assert compression.changed
        assert not broken_rules(make_request(compression.messages, **history.request))
        alone = Compressor(schedule="never", noise=("codes", "repeated"))
        first = alone.compress(messages, **history.request).messages
        assert compression.messages == plain.compress(first, **history.request).messages
        before = plain.compress(messages, **history.request).tokens_before
        assert compression.tokens_before == before

    run()


def chat(result: str) -> list[dict[str, Any]]:
    """Return a conversation with one result."""
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return [
        {"role": "user", "content": "\x1b[31mUser's own.\x1b[0m"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]


def test_without_the_setting_nothing_is_left_out() -> None:
    messages = chat(NOISE)

    compression = Compressor().compress(messages)

    assert compression.messages is messages
    assert compression.arrived == Arrived()


def test_a_compression_says_how_much_noise_it_left_out() -> None:
    compression = CLEAN.compress(chat(NOISE))

    assert compression.reason is Reason.SHORTENED_AT_ARRIVAL
    assert compression.arrived.results == 1
    assert compression.tokens_before - compression.tokens_after == compression.arrived.tokens
    assert compression.summary().startswith("1 result shortened at arrival, nothing elided: ")
    assert compression.messages[0] == chat(NOISE)[0]


def test_in_shadow_noise_is_counted_and_left_where_it_is() -> None:
    messages = chat(NOISE)

    compression = Compressor(noise=KINDS, shadow=True).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.SHADOW
    assert compression.tokens_after < compression.tokens_before


def test_results_of_a_tool_to_keep_stay_as_they_are() -> None:
    messages = chat(NOISE)

    assert Compressor(noise=KINDS, keep_tools=("bash",)).compress(messages).messages is messages


def test_an_output_with_a_shape_of_its_own_stays_as_it_is() -> None:
    said = json.dumps({"stdout": NOISE}, indent=2)
    action = {"type": "exec", "command": ["ls"], "env": {}}
    shell = {"type": "local_shell_call", "id": "s", "call_id": "s", "action": action}
    messages = [
        {"role": "user", "content": "Look."},
        {**shell, "status": "completed"},
        {"type": "local_shell_call_output", "id": "s", "output": said},
    ]

    assert CLEAN.compress(messages, format="responses").messages is messages


def test_noise_does_not_invalidate_thinking() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
    result = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": [{"type": "text", "text": NOISE}],
    }
    messages = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [result]},
    ]

    compression = CLEAN.compress(messages, model="claude-opus-5-5")

    assert compression.messages[1] is messages[1]
    assert "\x1b" not in str(compression.messages[2])


BLOCK = "\n".join(
    f"    {name} = measure(self.{name}, unit='metre', exact=True)" for name in "abcdefgh"
)
EDITS = Compressor(schedule=EveryNth(2), scorer=RandomScorer(3))


def numbered(lines: Sequence[str], first: int, style: str) -> str:
    """Return lines with their numbers."""
    return "\n".join(style.format(first + at, line) for at, line in enumerate(lines))


def repeating(history: History) -> Any:
    """Return the messages of a history with the same lines in each of its results."""

    def write(number: int, text: str) -> str:
        half = len(text) // 2
        shown = BLOCK if number % 3 else numbered(BLOCK.split("\n"), 10 * number, "{:6d}\t{}")
        return f"{text[:half]}\nstep {number}\n{shown}\n{text[half:]}"

    return inside(history, write)


def expanded(compression: Compression) -> Any:
    """Return the messages of a compression with what its references stand for."""
    trajectory = compression.trajectory
    if trajectory is None or not trajectory.steps or isinstance(compression.messages, str):
        return compression.messages
    write = expanding(Shown(), code_of(trajectory.task, trajectory.steps[0]))
    positions = compression.positions or range(len(compression.messages))
    owners = [compression.owners[position] for position in positions]
    sent = Parsed(compression.messages, trajectory, owners)
    return rewritten(sent, lambda _, text: write(text))


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("compressor", [replace(EDITS, schedule="never"), EDITS])
def test_every_reference_stands_for_the_very_text_above_it(
    compressor: Compressor, format_name: str
) -> None:
    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = repeating(history)
        before = copy.deepcopy(messages)
        plain = compressor.compress(messages, **history.request)
        referred = replace(compressor, repeats=True).compress(messages, **history.request)

        assert messages == before
        assert not broken_rules(make_request(referred.messages, **history.request))
        assert expanded(referred) == plain.messages
        assert referred.tokens_before == plain.tokens_before
        assert referred.tokens_after <= plain.tokens_after
        assert referred.decisions == plain.decisions

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_reference_is_the_same_at_every_later_call(format_name: str) -> None:
    compressor = Compressor(schedule="never", repeats=True)

    @ANY
    @given(history=histories(format_name))
    def run(history: History) -> None:
        messages = repeating(history)
        if isinstance(messages, str):
            return
        whole = compressor.compress(messages, **history.request).messages
        for end in range(1, len(messages)):
            part = make_request(messages[:end], **history.request)
            if not broken_rules(part) and parse(part).trajectory.steps:
                earlier = compressor.compress(messages[:end], **history.request)
                assert earlier.messages == whole[:end]

    run()


def looks(*results: str) -> list[dict[str, Any]]:
    """Return a conversation with these results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Fix it.\n{BLOCK}"}]
    for number, result in enumerate(results):
        function = {"name": "bash", "arguments": json.dumps({"command": f"cat {number}"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    return messages


def test_the_middle_of_what_a_second_look_repeats_is_a_reference() -> None:
    messages = looks(f"top\n{BLOCK}\nend", f"other\n{BLOCK}\nrest")

    compression = Compressor(repeats=True).compress(messages)

    assert compression.reason is Reason.SHORTENED_AT_ARRIVAL
    assert compression.messages[:4] == messages[:4]
    first, *lines, last = compression.messages[4]["content"].split("\n")
    block = BLOCK.split("\n")
    assert (first, last) == ("other", "rest")
    assert lines[:2] + lines[-2:] == block[:2] + block[-2:]
    assert lines[2].startswith(f"[{len(block) - 4} lines left out, unchanged, shown above #")
    assert compression.tokens_after == compression.tokens_before - compression.arrived.tokens


@pytest.mark.parametrize(
    "second",
    [
        "short\nlines\nare not\nworth it",
        "\n" * 300,
        BLOCK.replace("metre", "metres"),
        "\n".join(reversed(BLOCK.split("\n"))),
    ],
)
def test_what_is_short_blank_or_not_the_same_stays(second: str) -> None:
    messages = looks(f"{BLOCK}\nshort\nlines\nare not\nworth it" + "\n" * 300, second)

    assert Compressor(repeats=True).compress(messages).messages is messages


def test_the_users_text_is_no_source_and_no_target() -> None:
    messages = [*looks(BLOCK), {"role": "user", "content": BLOCK}]

    assert Compressor(repeats=True).compress(messages).messages is messages


def test_a_tool_to_keep_is_a_source_and_stays_whole() -> None:
    messages = looks(BLOCK, BLOCK)
    compressor = Compressor(repeats=True, keep_tools=("bash",))

    assert compressor.compress(messages).messages is messages


def test_lines_that_would_lead_elsewhere_stay() -> None:
    lines = BLOCK.split("\n")
    other = [f"{line}  # {at}" if 2 <= at < 8 else line for at, line in enumerate(lines)]
    messages = looks(BLOCK, "\n".join(other), BLOCK)

    assert Compressor(repeats=True).compress(messages).messages is messages


def test_a_run_of_lines_is_looked_for_within_one_result() -> None:
    shown = Shown()
    for result in ("abcdef", "ab", "cef"):
        shown.add(list(result))

    assert shown.between(["a", "b"], 2, ["e", "f"]) == Run(["c", "d"], renumbered=False)
    assert shown.between(["a", "b"], 3, ["e", "f"]) is None


STYLES = ("{1}", "{:6d}\t{}", "{:>5}→{}", "{}:{}", "{}: {}", "{:4d} | {}", "{:03d}\t{}", "\t{}\t{}")
LINES = st.sampled_from([*BLOCK.split("\n")[:5], "", "}", "7: x", "12→", "\t3\t", "10:10:10 begun"])
VIEWS = st.lists(
    st.tuples(st.lists(LINES, max_size=40), st.integers(0, 1_200), st.sampled_from(STYLES)),
    min_size=1,
    max_size=6,
)


@ANY
@given(views=VIEWS, again=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=5))
def test_numbered_lines_are_written_out_again_as_they_were(
    views: list[tuple[list[str], int, str]], again: list[tuple[int, int]]
) -> None:
    # Some are looked at again from another line on, with other numbers.
    views = views + [
        (views[at % len(views)][0][skipped:], 3 * skipped, views[at % len(views)][2])
        for at, skipped in again
    ]
    results = [numbered(lines, first, style) for lines, first, style in views]
    write, expand = referring(Shown(), "a7f3"), expanding(Shown(), "a7f3")

    assert [expand(write(result)) for result in results] == results


@pytest.mark.parametrize("style", ["{:6d}\t{}", "{:>5}→{}", "{}:{}", "{}"])
def test_a_view_whose_numbers_moved_is_known_by_its_text(style: str) -> None:
    lines = BLOCK.split("\n")
    first, moved = numbered(lines, 7, style), numbered(lines, 9, style)
    written = referring(Shown(), "a7f3")
    written(first)

    if style == "{}":
        # These were numbers and nothing else.
        assert written(moved) == moved
        return
    shown = written(moved).split("\n")
    assert shown[2] == reference(4, "a7f3", renumbered=True)
    assert shown[:2] + shown[3:] == moved.split("\n")[:2] + moved.split("\n")[6:]


def test_a_reference_without_its_text_is_not_expanded() -> None:
    with pytest.raises(LookupError):
        expanding(Shown())(f"a\nb\n{reference(6)}\nc\nd")


def test_references_take_time_in_proportion_to_the_results() -> None:
    def seconds(copies: int) -> float:
        write = referring(Shown())
        texts = [f"{BLOCK}\n{number}\n" * 20 + "\n" * 500 for number in range(copies)]
        began = time.process_time()
        for text in texts:
            write(text)
        return time.process_time() - began

    assert seconds(80) < 16 * max(seconds(10), 0.002)
