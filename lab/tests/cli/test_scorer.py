import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lab.tests.test_labels import make_log
from lab.tests.tiny_encoder import make_encoder

from agora_lab.cli.label import label
from agora_lab.cli.scorer import scorer
from agora_lab.cli.train import train


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    log, out = make_log(folder / "log.json", 120), folder / "labels.parquet"
    assert not CliRunner().invoke(label, ["hindsight", str(log), "--out", str(out)]).exit_code
    return out


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def trained(encoder: Path, *args: object) -> Result:
    options = ("--encoder", encoder, "--tokens", 32)
    return CliRunner().invoke(train, [str(arg) for arg in (*args, *options)])


def report(*args: object) -> Result:
    return CliRunner().invoke(scorer, ["report", *map(str, args)], env={"COLUMNS": "120"})


def test_scorers_are_compared_on_the_tasks_that_training_held_out(
    labels: Path, encoder: Path, tmp_path: Path
) -> None:
    bundle, results = tmp_path / "mine", tmp_path / "report.json"
    assert not trained(encoder, labels, "--out", bundle).exit_code

    said = report(labels, "--scorer", "recency", "--scorer", bundle, "--json", results)

    assert said.exit_code == 0, said.output
    assert "24 tasks" in said.output
    assert "only on the 20 % of tasks held out when mine was trained" in said.output
    rows = {row["scorer"]: row for row in json.loads(results.read_text())["rows"]}
    assert 0 <= rows["mine"]["metrics"]["auc"]["value"] <= 1
    assert rows["recency"]["metrics"]["auc"]["value"] < 0.5


def test_a_scorer_is_trained_straight_from_logs_as_from_their_labels(
    labels: Path, encoder: Path, tmp_path: Path
) -> None:
    log, bundle = make_log(tmp_path / "log.json", 120), tmp_path / "mine"

    said = trained(encoder, log, "--out", bundle)

    assert said.exit_code == 0, said.output
    assert "By hindsight: " in said.output
    both = trained(encoder, labels, "--out", tmp_path / "other")
    assert both.output.splitlines()[0] in said.output
    none = trained(encoder, log, "--index", 400, "--out", tmp_path / "none")
    assert none.exit_code == 1
    assert "nothing to label" in none.output


def test_a_scorer_that_saw_the_labels_is_said_to_be_measured_too_kindly(
    labels: Path, encoder: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "mine"
    assert not trained(encoder, labels, "--out", bundle, "--hold-out", 0).exit_code

    said = report(labels, "--scorer", bundle)

    assert "optimistic" in said.output
    assert "120 tasks" in said.output


def test_too_few_needed_pairs_give_no_figure(labels: Path) -> None:
    said = report(labels, "--scorer", "recency", "--most-tasks", 3)

    assert "too few needed steps to measure" in said.output


def test_a_scorer_that_is_not_there_is_named(labels: Path) -> None:
    said = report(labels, "--scorer", "nowhere")

    assert said.exit_code == 2
    assert "'nowhere' is no scorer" in said.output
