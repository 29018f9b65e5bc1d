"""What a result holds that tells a model nothing, and what is left of it."""

import os
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import Compressor
from agora.core.reading.noise import (
    KINDS,
    NoiseKind,
    with_counts,
    without_codes,
    without_indents,
    without_noise,
    without_overwritten,
)
from agora.errors import SettingError

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "100"))
PIECES = [
    "ok",
    "\x1b[1;31m",
    "\x1b[0m",
    "\x1b]0;title\x07",
    "\r",
    "\n",
    "10%",
    "55%",
    " ",
    "{",
    "}",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=40).map("".join)
NOTE = re.compile(r"\[the same line (\d+) times more\]")


def expanded(text: str) -> str:
    """Undo `with_counts`."""
    lines: list[str] = []
    for line in text.split("\n"):
        counted = NOTE.fullmatch(line)
        lines += [lines[-1]] * int(counted[1]) if counted and lines else [line]
    return "\n".join(lines)


@settings(max_examples=EXAMPLES, deadline=None)
@given(text=TEXTS, kinds=st.lists(st.sampled_from(KINDS), unique=True).map(tuple))
def test_a_cleaned_text_is_never_longer_nor_blank(text: str, kinds: tuple[NoiseKind, ...]) -> None:
    cleaned = without_noise(text, kinds)

    assert cleaned is text or (len(cleaned) < len(text) and cleaned.strip())


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.sampled_from(["", "a", "warning: x", "y" * 30]), st.integers(1, 60)),
        max_size=8,
    )
)
def test_counted_lines_can_be_written_out_again(runs: list[tuple[str, int]]) -> None:
    text = "\n".join(line for line, times in runs for _ in range(times))

    assert expanded(with_counts(text)) == text


def test_a_hyperlink_of_the_terminal_keeps_its_address() -> None:
    text = "\x1b]8;;file:///src/a.py\x1b\\a.py\x1b]8;;\x1b\\"

    assert without_codes(text) == text


def test_a_text_of_nothing_but_codes_stays() -> None:
    assert without_noise("\x1b[2K\x1b[1A", KINDS) == "\x1b[2K\x1b[1A"


def test_only_the_last_state_of_progress_stays() -> None:
    text = " 10%|█  | 1/9\r 50%|██▌| 5/9\r100%|███| 9/9\nInstalled."

    assert without_overwritten(text) == "100%|███| 9/9\nInstalled."


@pytest.mark.parametrize("text", ["one\rtwo\rthree", "a\r\nb\r\n", "50%\r\r\n", "5%\r"])
def test_what_is_overwritten_by_something_else_stays(text: str) -> None:
    assert without_overwritten(text) == text


def test_blank_and_few_lines_are_not_counted() -> None:
    text = "\n" * 80 + "x\n" * 5 + "y"

    assert with_counts(text) == text


@pytest.mark.parametrize(
    "text",
    ["a {\n  color: red;\n}", "{\n  color: red;\n}", "[" * 99_999 + "\n" + "]" * 99_999, "{}", " "],
)
def test_only_json_loses_its_indents(text: str) -> None:
    assert without_indents(text) == text


def test_strings_in_json_keep_their_blanks() -> None:
    text = '{\n  "a": "x \\" \\\\",\n  "b": [1.0, 1e5,\n 2]\n}'

    assert without_indents(text) == '{"a":"x \\" \\\\","b":[1.0,1e5,2]}'


@pytest.mark.parametrize("piece", ["\x1b[", "\r", "\n", " ", "5%\r", '"', "[", "x\n"])
def test_cleaning_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece)) + "end"
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            without_noise(text, KINDS)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(800_000) < 16 * max(seconds(100_000), 0.001)


@pytest.mark.parametrize("wrong", ["codes", ["colours"], 3])
def test_a_kind_of_noise_that_is_not_known_is_refused(wrong: object) -> None:
    with pytest.raises(SettingError, match="codes, overwritten, repeated, indents"):
        Compressor(noise=wrong)  # type: ignore[arg-type]
