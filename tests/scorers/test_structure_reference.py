"""What structure reads of a text by quick ways is what the patterns say."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agora.core.reading.counted import shape, words_of

texts = st.text(max_size=200) | st.lists(
    st.sampled_from(
        ["fn_77", "Ärger", "ΣΑΣ", "x" * 41, "y" * 90, "a.b", "\n", "\t", "İ", "ÿ", " ", "_"]
    ),
    max_size=30,
).map("".join)


@settings(deadline=None)
@given(texts)
@example("ΟΔΟΣ\nΑ")
@example("\x1c\x85\u2028ab abc")
def test_words_are_those_that_the_pattern_finds(text: str) -> None:
    assert sorted(words_of(text)) == sorted(set(re.findall(r"\w{3,40}", text.lower())))


@settings(deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"[a-zA-Z0-9_.-]{1,60}", fullmatch=True))
def test_a_shape_has_one_sign_for_each_run(name: str) -> None:
    short = re.sub("[A-Z]+", "A", re.sub("[a-z]+", "a", name[:40]))

    assert shape(name) == re.sub("[0-9]+", "0", short)
