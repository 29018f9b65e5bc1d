"""What is remembered and taken at once changes nothing: the plain way to read gives the same."""

import re
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agora.core.reading import names as module
from agora.core.reading.names import all_names, first_identifiers, identifiers, listed
from tests.core.test_names import SAMPLES, SYNTAX

spaces = st.sampled_from(["  ", " " * 3, "\n" + " " * 8, " " * 13])
words = st.sampled_from(SAMPLES) | st.sampled_from(SYNTAX) | st.text(max_size=6) | spaces
long_words = st.sampled_from(["x" * 65, "src/" + "a/" * 40 + "b.py", "(fn_1234)" * 8, "Aa" * 33])
texts = (
    st.lists(words, max_size=40).map("".join)
    | st.lists(words | long_words, max_size=40).map(" ".join)
    | st.lists(words, max_size=40).map("\n".join)
)

_ALONE = frozenset("iK")
_RUNS = re.compile(r"[LTpPnNRXCrQdiK](?<![kK][nr])(?:(?<=[LTpPnN])[TnN]*+[RCrQ]?+)?+")


def plainly(text: str) -> tuple[str, ...]:
    """Return the identifiers of a text by one look at each piece, in order, nothing remembered."""
    spaced = text.replace('":', '": ').replace('":  ', '": ').replace(',"', ', "')
    pieces = spaced.replace("\n", " \n ").split(" ")
    kinds: dict[str, str] = {}
    inside: dict[str, dict[str, None]] = {}
    for piece in pieces:
        kinds[piece], names = module._read(piece)
        if names:
            inside[piece] = names
    line = "".join(kinds[piece] for piece in pieces)
    found: dict[str, None] = {}
    for run in _RUNS.finditer(line):
        start, end = run.span()
        kind, before = line[start], line[start - 1 : start]
        if kind in _ALONE:
            found.update(inside.pop(pieces[start], {}))
            continue
        if kind == "d":
            end += 1
        elif before == "w" and end - start == 1 and module._counts(kind, line[end : end + 1]):
            start -= 1
        for piece in pieces[start:end]:
            found.update(inside.pop(piece, {}))
        phrase = " ".join(pieces[start:end])
        if len(phrase) <= module._MAX_RUN:
            found.update(module._named.__wrapped__(run[0], phrase, before))
    return tuple(found)


@settings(deadline=None)
@given(texts)
@example('"n": 12345, "x": 12 def fn_1(x): class CamelCase(Base): apple 1')
@example("def CamelCase(x) def New York 12 def")
def test_the_same_identifiers_come_in_the_same_order_as_when_read_plainly(text: str) -> None:
    assert identifiers(text) == plainly(text)
    assert listed(text) == identifiers(text)


@settings(deadline=None)
@given(texts, st.integers(0, 60))
@example("def\nNew York\n12 apple\n1", 0)
@example('"n":\n12 class\nfn_1(x)', 0)
def test_read_block_by_block_a_text_has_the_same_identifiers(text: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_CHARACTERS", block + 1)

        assert tuple(first_identifiers(text)) == identifiers(text)


def test_what_is_not_asked_for_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "HAT136\n" * 2_000
    read: list[str] = []

    def reading(block: str) -> tuple[str, ...]:
        read.append(block)
        return ("HAT136",)

    monkeypatch.setattr(module, "identifiers", reading)

    assert next(first_identifiers(text)) == "HAT136"
    assert sum(map(len, read)) < len(text) / 2


@settings(deadline=None, max_examples=50)
@given(st.lists(texts, min_size=1, max_size=8), st.integers(0, 12))
def test_how_much_is_remembered_changes_nothing(several: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_REMEMBERED", most)
        patch.setattr(module, "_remembered", module._Pieces())

        assert [identifiers(text) for text in several] == [plainly(text) for text in several]
        assert len(module._remembered.kinds) <= most


def test_threads_that_forget_for_each_other_read_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_REMEMBERED", 50)
    several = [" ".join(f"fn_{n}{k}(x) New York_{n}" for k in range(30)) for n in range(40)]
    expected = [plainly(text) for text in several]
    wrong: list[str] = []

    def read() -> None:
        for text, names in zip(several * 3, expected * 3, strict=True):
            if identifiers(text) != names:
                wrong.append(text)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.parametrize("characters", [100, 40_000, 70_000])
def test_a_long_observation_is_read_at_both_ends(characters: int) -> None:
    filler = "so it went on " * (characters // 14)

    assert all_names([f"HAT136 {filler}JFK404"]) == {"HAT136", "JFK404"}
