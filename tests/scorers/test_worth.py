import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, Compressor
from agora.core.past import Past
from agora.core.trajectory import Anchor, Call, Step, Utterance
from agora.core.worth import Worth, worth_of
from agora.errors import BundleError
from agora.scorers import load_scorer, parts
from agora.scorers.bundle import MANIFEST, read_bundle, write_bundle
from agora.scorers.parts import FEATURES, VALUES, columns
from agora.scorers.tables import Table, Tables, read, write
from agora.scorers.worth import (
    ACTION,
    NAMED,
    OBSERVATION,
    SHIPPED,
    SHIPPED_SHA256,
    WorthScorer,
)
from agora.testing import check_scorer

MOST_BYTES = 300_000


@pytest.fixture(scope="module", autouse=True)
def weights_are_read() -> None:
    """Read them once, so that no example has to wait for it."""
    WorthScorer().worth(make_past(make_steps(("look", ""))), set())


def make_steps(*texts: tuple[str, str]) -> tuple[Step, ...]:
    return tuple(
        Step(number=n, action=action, observation=observation, tokens=len(observation))
        for n, (action, observation) in enumerate(texts, start=1)
    )


def make_past(steps: tuple[Step, ...], *, preamble: str = "", said: str = "") -> Past:
    observation = steps[-1].observation if steps else ""
    utterances = (Utterance(after=1, text=said, tokens=1, by_user=True),) if said else ()
    return Past(preamble, steps, utterances, Anchor("", observation), 0)


texts = st.text() | st.sampled_from(
    [
        "HAT136 2024-05-20 a/b.py",
        "error: no such file",
        "```bash\ncd /x && sed -n 1,9p a/b.py\n```",
        '{"id": "HAT136", "n": [1, 2]}',
        "cat a/b.py",
        "\ud800 \x00 \u202e",
        "((" * 500,
        "",
    ]
)
histories = st.lists(st.tuples(texts, texts), max_size=12)


@given(histories, texts, texts, st.sets(st.integers(0, 14)))
def test_every_feature_is_a_small_whole_number_and_every_worth_a_probability(
    history: list[tuple[str, str]], preamble: str, said: str, held: set[int]
) -> None:
    past = make_past(make_steps(*history), preamble=preamble, said=said)

    found = columns(past, held)
    worths = worth_of(WorthScorer(), past, held)

    assert len(found) == len(FEATURES)
    for column in found:
        assert len(column) == len(history)
        assert all(type(value) is int and 0 <= value < VALUES for value in column)
    for one in worths:
        for number in (one.action, one.observation, one.named):
            assert 0 <= number <= 1
            assert not math.isnan(number)


@given(histories, histories)
def test_worth_does_not_depend_on_what_was_asked_before(
    history: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    past = make_past(make_steps(*history))
    parts._steps = parts._Steps(8_000_000)
    alone = columns(past, {len(history)})

    columns(make_past(make_steps(*other)), set())
    columns(make_past(make_steps(*history[:-1])), set())

    assert columns(past, {len(history)}) == alone
    parts._steps = parts._Steps(0)
    assert columns(past, {len(history)}) == alone
    parts._steps = parts._Steps(8_000_000)


def test_worth_is_the_same_in_every_process() -> None:
    program = (
        "from tests.scorers.test_worth import LONG, make_past, make_steps\n"
        "from agora.scorers.worth import WorthScorer\n"
        "print(WorthScorer().worth(make_past(make_steps(*LONG)), {39, 40}))\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(said) == 1


LONG = [(f"get file{n % 7}.py", f"HAT{n % 11} key_{n} src/file{n % 5}.py " * 9) for n in range(40)]


def test_the_shipped_scorer_is_one_of_worth_and_passes_the_check_of_all_scorers() -> None:
    scorer = load_scorer("worth")

    assert isinstance(scorer, Worth)
    check_scorer(scorer)


def test_the_shipped_weights_are_small_and_are_those_that_are_pinned() -> None:
    bundle = read_bundle(SHIPPED, sha256=SHIPPED_SHA256)

    assert bundle.scorer == "worth"
    assert sum(len(bundle.read(name)) for name in bundle.files) <= MOST_BYTES
    for name in (ACTION, OBSERVATION, NAMED):
        assert read(bundle.read(name).decode(), features=FEATURES, values=VALUES).tables


def test_an_old_part_with_a_name_of_its_own_is_worth_more_than_one_that_is_repeated() -> None:
    def past(own: str) -> Past:
        filler = [("get_user", '{"ok": "yes"}')] * 3
        texts = [("get_user", f'{{"id": "{own}", "flight": "{own}1"}}'), *filler]
        steps = make_steps(*texts, ("get_user", '{"id": "HAT136", "flight": "HAT1361"}'))
        return make_past(tuple(s._replace(calls=(Call("get_user", "{}"),)) for s in steps))

    own = WorthScorer().worth(past("HAT999"), {4, 5})[0]
    repeated = WorthScorer().worth(past("HAT136"), {4, 5})[0]

    assert own.observation > repeated.observation


def test_a_damaged_bundle_says_so_when_it_is_asked(tmp_path: Path) -> None:
    tables = Tables(FEATURES, VALUES, 0.0, (Table(0, 0, ((0.0,) * VALUES,) * VALUES),))
    files = {name: write(tables, {}).encode() for name in (ACTION, OBSERVATION, NAMED)}
    write_bundle(tmp_path, scorer="worth", files=files)
    past = make_past(make_steps(("look", "x"), ("go", "")))
    fine = load_scorer(tmp_path)
    assert isinstance(fine, WorthScorer)
    assert fine.worth(past, {2})[0].action == 0.5

    (tmp_path / NAMED).write_text("{}")

    with pytest.raises(BundleError, match="SHA-256"):
        WorthScorer(replace(read_bundle(tmp_path), settings={"again": 1})).worth(past, {2})
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert sorted(manifest["files"]) == sorted(files)


def test_a_compressor_takes_it_as_its_scorer() -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "find the key"}]
    for n in range(40):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "get", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"HAT{n} " * 99})

    found = Compressor(scorer=WorthScorer(), budget=Budget(limit=3_000, min_ratio=0.0)).compress(
        messages
    )

    assert found.tokens_after < found.tokens_before


def test_twice_as_many_steps_take_about_twice_the_time_once_texts_are_read() -> None:
    def seconds(count: int) -> float:
        past = make_past(make_steps(*LONG * (count // len(LONG))))
        WorthScorer().worth(past, {count})
        best = math.inf
        for _ in range(7):
            begun = time.process_time()
            WorthScorer().worth(past, {count})
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(1_600) < 5 * seconds(800)
