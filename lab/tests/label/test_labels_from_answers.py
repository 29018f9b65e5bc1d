from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.tests.label.making import cases, plain_case

from agora_lab.label import likelihood as by_likelihood
from agora_lab.label.answered_pairs import by_key, match_answers
from agora_lab.label.answers import Answered, answer_schema, read_answers
from agora_lab.label.cases import Case
from agora_lab.label.counterfactual import canonical, counterfactual, disagreement
from agora_lab.label.likelihood import likelihood
from agora_lab.label.plan import PlanSettings, asks, pairs
from agora_lab.labels import LabelsError

BOTH = PlanSettings(backbone="b", kinds=("counterfactual", "likelihood"), samples=4)


def answer_all(
    case: Case,
    number: int,
    texts: Callable[[int, int], Sequence[str]],
    logprob: Callable[[int, int], float] = lambda anchor, candidate: -1.0,
) -> list[Answered]:
    return [
        Answered(
            key=ask.key,
            kind=ask.kind,
            case=number,
            anchor=ask.anchor,
            candidate=ask.candidate,
            texts=tuple(texts(ask.anchor, ask.candidate)) if ask.kind == "sample" else (),
            logprob=logprob(ask.anchor, ask.candidate) if ask.kind == "score" else 0.0,
            input_tokens=ask.prompt_tokens,
        )
        for ask in asks(number, case, BOTH)
    ]


@settings(max_examples=50, deadline=None)
@given(st.floats(-500, 0), st.floats(-500, 0))
def test_a_likelihood_label_is_what_is_lost_of_the_probability(full: float, without: float) -> None:
    found = by_likelihood.label_of(full, without)

    assert 0 <= found <= 1
    assert found == pytest.approx(1 - min(1.0, exp(min(0.0, without - full))))
    assert (found == 0) == (without >= full or exp(without - full) == 1)


@settings(max_examples=50, deadline=None)
@given(*[st.lists(st.sampled_from(["look", "go", "take"]), min_size=8, max_size=8)] * 2)
def test_a_label_is_the_share_of_samples_that_differ(full: list[str], without: list[str]) -> None:
    same = [n for n in range(8) if full[n] == without[n]]

    assert disagreement(full, without) == 1 - len(same) / 8


def test_plain_answers_are_compared_by_their_first_line() -> None:
    compared = canonical("")

    assert compared("  ls   -a\nThis lists all.") == compared("ls -a") == "ls -a"


@settings(max_examples=50, deadline=None)
@given(cases())
def test_every_pair_that_was_answered_on_both_sides_gets_its_label(case: Case) -> None:
    answers = by_key(answer_all(case, 0, lambda anchor, candidate: ["go"] * 4))

    (answered,) = match_answers([case], answers, BOTH)
    planned = sorted(pairs(case, BOTH))

    for labels in (
        list(counterfactual(answered, canonical(""))),
        list(likelihood(answered)),
    ):
        assert sorted((one.anchor, one.candidate) for one in labels) == planned
        assert all(one.label == 0 and one.data == case.data for one in labels)
    assert answered.missing_samples == answered.missing_scores == 0


def test_the_kth_sample_of_one_side_is_held_against_the_kth_of_the_other() -> None:
    case = plain_case([f"a{n}" for n in range(4)], [f"o{n}" for n in range(4)])
    texts = {0: ["go", "look", "go", "go"], 1: ["go", "go", "look\nbecause", "go  "]}
    answers = by_key(answer_all(case, 0, lambda anchor, candidate: texts[candidate]))

    (answered,) = match_answers([case], answers, BOTH)

    [label] = counterfactual(answered, canonical(""))
    assert (label.label, label.kind) == (0.5, "counterfactual")


def test_likelihood_is_of_the_action_that_was_taken() -> None:
    case = plain_case([f"a{n}" for n in range(4)], [f"o{n}" for n in range(4)])
    answers = by_key(
        answer_all(case, 0, lambda a, c: ["go"] * 4, lambda a, candidate: -1.0 - candidate)
    )

    (answered,) = match_answers([case], answers, BOTH)

    assert [one.label for one in likelihood(answered)] == [pytest.approx(1 - exp(-1))]


def test_a_pair_without_its_other_side_is_counted_and_gets_no_label() -> None:
    case = plain_case([f"a{n}" for n in range(5)], [f"o{n}" for n in range(5)])
    answers = answer_all(case, 0, lambda anchor, candidate: ["go"] * 4)
    left = [one for one in answers if (one.anchor, one.candidate) != (4, 0)]

    (answered,) = match_answers([case], by_key(left), BOTH)

    assert [(one.anchor, one.candidate) for one in answered.samples] == [(5, 2), (5, 1)]
    assert answered.missing_samples == answered.missing_scores == 1


def write(path: Path, answers: Sequence[Answered]) -> None:
    pa = pytest.importorskip("pyarrow", reason="answers are Parquet")
    from dataclasses import asdict

    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [asdict(one) for one in answers]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=answer_schema()), path)


def test_answers_are_read_from_the_folder_that_a_run_finishes_them_in(tmp_path: Path) -> None:
    case = plain_case([f"a{n}" for n in range(5)], [f"o{n}" for n in range(5)])
    answers = answer_all(case, 0, lambda anchor, candidate: ["go"] * 4)
    write(tmp_path / "answers" / "1.parquet", answers[:3])
    write(tmp_path / "answers" / "2.parquet", answers[2:])
    write(tmp_path / "landing" / "3.parquet", answers)

    assert list(read_answers([tmp_path])) == answers
    assert list(read_answers([tmp_path / "answers" / "1.parquet"])) == answers[:3]


def test_failed_answers_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "a.parquet",
        [Answered(key="00", kind="sample", case=0, anchor=4, candidate=1, error="no answer")],
    )

    assert list(read_answers([tmp_path])) == []


def test_a_file_that_holds_no_answers_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing")

    with pytest.raises(LabelsError, match=r"a\.parquet"):
        list(read_answers([tmp_path]))
