import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lab.tests.label.making import episode
from lab.tests.test_labels import make_log

from agora_lab.cli.label import label
from agora_lab.envs.data import DataError, data_file
from agora_lab.label.answers import Answered, answers_file
from agora_lab.label.plan import read_plan
from agora_lab.labels import read_labels, read_trajectories


def run(*args: object) -> Result:
    return CliRunner().invoke(label, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("log") / "log.json", 12)


def make_plan(log: Path, out: Path, *args: object) -> Path:
    result = run("plan", log, "--out", out, "--backbone", "openai:gpt-4o", *args)
    assert result.exit_code == 0, result.output
    return out


def answer(folder: Path, out: Path, texts: Callable[[int, bool], Sequence[str]]) -> Path:
    """Answer a whole plan as a run would."""
    plan = read_plan(folder)
    out.mkdir()
    for shard in plan.shards():
        with answers_file(out, shard).open("w") as file:
            for ask in shard.asks(plan.settings):
                answered = Answered(
                    key=ask.key,
                    anchor=ask.anchor,
                    candidate=ask.candidate,
                    whole=ask.whole,
                    texts=tuple(texts(ask.candidate, ask.whole)),
                    logprob=-1.0 if ask.whole else -3.0,
                )
                file.write(json.dumps(asdict(answered)) + "\n")
    return out


def test_a_plan_says_what_it_will_take(log: Path, tmp_path: Path) -> None:
    result = run("plan", log, "--out", tmp_path / "plan", "--backbone", "openai:gpt-4o")

    assert result.exit_code == 0, result.output
    for part in ("pairs of", "requests", "prompt tokens", "$"):
        assert part in result.output
    plan = read_plan(tmp_path / "plan")
    assert (plan.settings.samples, plan.settings.temperature) == (8, 1.0)
    again = run(
        "plan", log, "--out", tmp_path / "again", "--backbone", "openai:gpt-4o", "--json", "-"
    )
    figures = json.loads(again.stdout)
    assert 0 < figures["dollars_with_caching"] <= figures["dollars"]
    assert figures["asks"] == 2 * figures["pairs"]


def test_fewer_trajectories_anchors_and_candidates_can_be_asked_for(
    log: Path, tmp_path: Path
) -> None:
    few = make_plan(
        log, tmp_path / "few", "--trajectories", 3, "--anchors", 1, "--candidates", 1,
        "--stop", r"\n",
    )  # fmt: skip

    plan = read_plan(few)

    assert (plan.summary.trajectories, plan.summary.pairs, plan.summary.asks) == (3, 3, 6)
    assert plan.settings.stop == ("\n",)


@pytest.mark.parametrize(
    ("options", "form", "value"),
    [
        ((), "soft", 0.25),
        ((), "hard", 0.0),
        (("--shared",), "soft", 0.25),
        (("--kind", "likelihood"), "soft", 0.8647),
    ],
)
def test_labels_are_made_of_answers(
    log: Path, tmp_path: Path, options: tuple[str, ...], form: str, value: float
) -> None:
    plan = make_plan(log, tmp_path / "plan", *options)
    out = answer(plan, tmp_path / "run", lambda _, whole: ["go"] * 3 + ["go" if whole else "look"])
    file = tmp_path / "labels.parquet"

    result = run("make", plan, "--answers", out, "--out", file, "--form", form, "--json", "-")

    assert result.exit_code == 0, result.output
    labels = read_labels(file)
    assert [one.label for one in labels] == pytest.approx([value] * len(labels), abs=1e-4)
    assert {data for data, _ in read_trajectories(file)} == {one.data for one in labels}
    figures = json.loads(result.stdout)
    assert figures["pairs"] == len(labels) == read_plan(plan).summary.pairs
    counterfactual = "likelihood" not in options
    assert figures["soft_differs_from_hard"] == (len(labels) if counterfactual else 0)


def test_what_two_plans_ask_of_one_trajectory_is_put_together(log: Path, tmp_path: Path) -> None:
    few = make_plan(log, tmp_path / "few", "--anchors", 1, "--candidates", 1)
    every = make_plan(log, tmp_path / "every")
    out = answer(every, tmp_path / "run", lambda *_: ["go"] * 4)

    result = run("make", few, every, "--answers", out, "--out", tmp_path / "labels.parquet")

    assert result.exit_code == 0, result.output
    assert len(read_labels(tmp_path / "labels.parquet")) == read_plan(every).summary.pairs


def test_a_plan_without_answers_makes_no_labels(log: Path, tmp_path: Path) -> None:
    plan = make_plan(log, tmp_path / "plan")
    (tmp_path / "run").mkdir()

    result = run("make", plan, "--answers", tmp_path / "run", "--out", tmp_path / "labels.parquet")

    assert result.exit_code == 1
    assert "no pair of these plans has its answers" in result.output


def test_a_plan_that_is_there_is_not_written_over(log: Path, tmp_path: Path) -> None:
    make_plan(log, tmp_path / "plan")

    result = run("plan", log, "--out", tmp_path / "plan", "--backbone", "scripted")

    assert result.exit_code == 1
    assert "already exists" in result.output


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
    assert len(next(iter(read_plan(plan).shards())).case.messages) > 14


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
