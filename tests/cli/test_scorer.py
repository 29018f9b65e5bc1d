import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("sklearn", reason="training needs the extra `train`")
pytest.importorskip("pyarrow", reason="labels are Parquet: the extra `train`")

from agora.cli.label import label
from agora.cli.scorer import scorer
from agora.cli.train import train
from agora.scorers.features import FeaturesScorer
from agora.scorers.load import available, load_scorer
from tests.lab.test_labels import make_log


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    log, out = make_log(folder / "log.json", 120), folder / "labels.parquet"
    assert not CliRunner().invoke(label, ["hindsight", str(log), "--out", str(out)]).exit_code
    return out


def report(*args: object) -> Result:
    return CliRunner().invoke(scorer, ["report", *map(str, args)], env={"COLUMNS": "120"})


def test_scorers_are_compared_on_the_tasks_that_training_held_out(
    labels: Path, tmp_path: Path
) -> None:
    bundle, results = tmp_path / "mine", tmp_path / "report.json"
    assert not CliRunner().invoke(train, [str(labels), "--out", str(bundle)]).exit_code

    said = report(labels, "--scorer", "recency", "--scorer", bundle, "--json", results)

    assert said.exit_code == 0, said.output
    assert "24 tasks" in said.output
    assert "only the 20 % of tasks that the training of mine held out" in said.output
    rows = {row["scorer"]: row for row in json.loads(results.read_text())["rows"]}
    assert rows["mine"]["metrics"]["auc"]["value"] > 0.95
    assert rows["recency"]["metrics"]["auc"]["value"] < 0.5
    assert sum(count for _, _, count in rows["mine"]["curve"]) == rows["mine"]["pairs"]


def test_a_scorer_that_saw_the_labels_is_said_to_be_measured_too_kindly(
    labels: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "mine"
    args = [str(labels), "--out", str(bundle), "--hold-out", "0"]
    assert not CliRunner().invoke(train, args).exit_code

    said = report(labels, "--scorer", bundle)

    assert "too kind" in said.output
    assert "120 tasks" in said.output


def test_the_plot_is_drawn(labels: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra `train`")
    plot = tmp_path / "report.svg"

    said = report(labels, "--plot", plot, "--most-tasks", 40)

    assert said.exit_code == 0, said.output
    assert plot.read_text().lstrip().startswith("<?xml")


def test_too_few_needed_pairs_give_no_figure(labels: Path) -> None:
    said = report(labels, "--scorer", "recency", "--most-tasks", 3)

    assert "too few needed to say" in said.output


def test_a_scorer_that_is_not_there_is_named(labels: Path) -> None:
    said = report(labels, "--scorer", "nowhere")

    assert said.exit_code == 1
    assert "'nowhere' is no scorer" in said.output


def test_what_is_available_can_be_loaded() -> None:
    for name in available():
        load_scorer(name)
    assert isinstance(load_scorer(), FeaturesScorer)
