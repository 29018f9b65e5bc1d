import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from lab.tests.label.making import episode
from lab.tests.test_labels import make_log

from agora_lab.cli.label import label
from agora_lab.envs.data import DataError, data_file
from agora_lab.label.answers import Answered, answer_schema
from agora_lab.label.plan import read_plan
from agora_lab.labels import read_labels, read_trajectories


def run(*args: object) -> Result:
    return CliRunner().invoke(label, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("log") / "log.json", 12)


def make_plan(log: Path, out: Path, *args: object) -> Path:
    said = run("plan", log, "--out", out, "--backbone", "gpt-4o", "--samples", 4, *args)
    assert said.exit_code == 0, said.output
    return out


def answer(plan: Path, out: Path, texts: Callable[[int, int], Sequence[str]]) -> Path:
    """Answer a whole plan as a run would."""
    rows = [
        asdict(
            Answered(
                key=ask.key,
                kind=ask.kind,
                case=ask.case,
                anchor=ask.anchor,
                candidate=ask.candidate,
                texts=tuple(texts(ask.anchor, ask.candidate)) if ask.kind == "sample" else (),
                logprob=-1.0 - ask.candidate % 3,
                input_tokens=ask.prompt_tokens,
                output_tokens=4,
            )
        )
        for ask in read_plan(plan).asks()
    ]
    (out / "answers").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(rows, schema=answer_schema()), out / "answers" / "a.parquet"
    )
    return out


BOTH = ("--kind", "counterfactual", "--kind", "likelihood")


def test_a_plan_says_what_it_will_take(log: Path, tmp_path: Path) -> None:
    said = run(
        "plan", log, "--out", tmp_path / "plan", "--backbone", "gpt-4o", *BOTH,
        "--prompt-rate", 60, "--output-rate", 9,
    )  # fmt: skip

    assert said.exit_code == 0, said.output
    for part in ("pairs (counterfactual and likelihood)", "calls", "prompt tokens", "$", "hours"):
        assert part in said.output
    plan = read_plan(tmp_path / "plan")
    assert plan.settings.samples == 8
    told = run("plan", log, "--out", tmp_path / "again", "--backbone", "gpt-4o", "--json", "-")
    figures = json.loads(told.stdout)
    assert figures["sheet"] == "gpt-4o"
    assert 0 < figures["dollars_with_caching"] <= figures["dollars"]


def test_fewer_trajectories_anchors_and_candidates_can_be_asked_for(
    log: Path, tmp_path: Path
) -> None:
    few = make_plan(
        log, tmp_path / "few", "--trajectories", 3, "--anchors", 1, "--candidates", 1,
        "--stop", r"\n",
    )  # fmt: skip

    plan = read_plan(few)

    assert (plan.summary.trajectories, plan.summary.pairs, plan.summary.calls) == (3, 3, 6)
    assert plan.settings.stop == ("\n",)


def test_labels_are_made_of_answers(log: Path, tmp_path: Path) -> None:
    plan = make_plan(log, tmp_path / "plan", *BOTH)
    out = answer(plan, tmp_path / "run", lambda anchor, without: ["go"] * 3 + [f"s{without % 2}"])

    made = {}
    for kind in ("counterfactual", "likelihood"):
        file = tmp_path / f"{kind}.parquet"
        said = run("make", plan, "--answers", out, "--out", file, "--kind", kind)
        assert said.exit_code == 0, said.output
        assert "mean label" in said.output
        made[kind] = read_labels(file)
        assert {data for data, _ in read_trajectories(file)} == {one.data for one in made[kind]}

    pairs = read_plan(plan).summary.pairs
    assert [len(labels) for labels in made.values()] == [pairs, pairs]
    assert {one.label for one in made["counterfactual"]} == {0.0, 0.25}


def test_what_two_plans_ask_of_one_trajectory_is_put_together(log: Path, tmp_path: Path) -> None:
    few = make_plan(log, tmp_path / "few", "--anchors", 1, "--candidates", 1)
    every = make_plan(log, tmp_path / "every")
    out = answer(every, tmp_path / "run", lambda anchor, without: ["go"] * 4)

    said = run("make", few, every, "--answers", out, "--out", tmp_path / "labels.parquet")

    assert said.exit_code == 0, said.output
    assert len(read_labels(tmp_path / "labels.parquet")) == read_plan(every).summary.pairs


def test_a_plan_without_answers_makes_no_labels(log: Path, tmp_path: Path) -> None:
    plan = make_plan(log, tmp_path / "plan")
    (tmp_path / "run").mkdir()

    said = run("make", plan, "--answers", tmp_path / "run", "--out", tmp_path / "labels.parquet")

    assert said.exit_code == 1
    assert "no pair in these plans has answers" in said.output


def test_a_plan_that_is_there_is_not_written_over(log: Path, tmp_path: Path) -> None:
    make_plan(log, tmp_path / "plan")

    said = run("plan", log, "--out", tmp_path / "plan", "--backbone", "b")

    assert said.exit_code == 1
    assert "already exists" in said.output


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A run of WebShop in which a reader looked and looked."""
    for package in ("bm25s", "Stemmer", "rapidfuzz"):
        pytest.importorskip(package, reason="WebShop needs the extra `environments`")
    try:
        data_file("webshop/items_shuffle_1000.json", origin="princeton-nlp/WebShop")
    except DataError as error:
        pytest.skip(str(error))
    folder = tmp_path / "played"
    folder.mkdir()
    lines = [
        episode(["page"] * 6, task=f"t{n}", environment="webshop").to_json() + "\n"
        for n in range(2)
    ]
    (folder / "episodes.jsonl").write_text("".join(lines), encoding="utf-8")
    about(folder, split="train")
    return folder


def about(folder: Path, *, split: str) -> None:
    """Write the settings of a run that was played on that split."""
    settings = {"experiment": {"environments": ["webshop"], "split": split}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def test_a_played_run_is_planned_with_the_examples_of_its_world(
    played: Path, tmp_path: Path
) -> None:
    plan = make_plan(played, tmp_path / "plan")

    # Without its examples the conversation has 14 messages.
    assert len(next(iter(read_plan(plan).cases())).messages) > 14


def test_tasks_of_the_test_split_are_not_labelled_unless_it_is_said(
    played: Path, tmp_path: Path
) -> None:
    about(played, split="test")

    said = run("plan", "--backbone", "b", played, "--out", tmp_path / "out")
    assert said.exit_code == 1
    assert "must not be trained on" in said.output

    said = run("plan", "--backbone", "b", played, "--out", tmp_path / "out", "--any-split")
    assert said.exit_code == 0, said.output


def test_one_trajectory_of_a_log_is_labelled_by_its_place(log: Path, tmp_path: Path) -> None:
    whole, one = tmp_path / "whole.parquet", tmp_path / "one.parquet"
    assert run("hindsight", log, "--out", whole).exit_code == 0

    said = run("hindsight", log, "--out", one, "--index", 3, "--json", "-")

    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["pairs"] == len(read_labels(one))
    names = {label.trajectory for label in read_labels(one)}
    assert names == {list(dict.fromkeys(label.trajectory for label in read_labels(whole)))[3]}
    planned = run("plan", log, "--out", tmp_path / "plan", "--backbone", "gpt-4o", "--index", 3)
    assert planned.exit_code == 0, planned.output
