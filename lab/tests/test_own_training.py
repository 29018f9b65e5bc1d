"""Whether training on one's own logs is worth it is said on what the training did not see."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from lab.tests.test_worth_training import few_trees as few_trees
from lab.tests.test_worth_training import make_log

from agora.errors import LabelsError
from agora_lab.cli.scorer import scorer
from agora_lab.cli.train import train
from agora_lab.training import own
from agora_lab.training.features import Trained
from agora_lab.training.metrics import Interval
from agora_lab.training.own import Own, compare, kept
from agora_lab.training.worth import Edit, read_edits, train_model


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_log(tmp_path_factory.mktemp("own") / "log.json")


@pytest.fixture(scope="module")
def edits(log: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Edit]:
    from agora_lab.cli.by_worth import label_by_worth

    labels = tmp_path_factory.mktemp("labels") / "labels.parquet"
    label_by_worth([log], labels)
    return list(read_edits([labels], newest=True))


def test_who_knows_the_labels_keeps_at_least_as_much_as_who_does_not(edits: list[Edit]) -> None:
    for edit in edits:
        needs = list(zip(edit.labels["action"], edit.labels["observation"], strict=True))
        if not any(map(sum, needs)):
            continue
        blind = [(0.5, 0.5)] * len(needs)
        assert kept(edit, needs, 1.0) == pytest.approx(1)
        assert 0 <= kept(edit, blind) <= 1
        assert kept(edit, needs, 0.0) == 0


def test_no_group_is_compared_by_trees_that_saw_it(
    edits: list[Edit], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def noted(others: list[Edit], model: str, *, seed: int) -> Trained:
        seen.append({edit.task for edit in others})
        return train_model(others, model, seed=seed)

    monkeypatch.setattr(own, "train_model", noted)
    groups = [edit.task for edit in edits]
    found = compare(edits, groups, folds=4)

    every = set(groups)
    assert len(seen) == 2 * 4
    assert set.union(*(every - one for one in seen)) == every
    assert all(every - one for one in seen)
    assert found.groups <= len(every)
    assert found.ahead.value == pytest.approx(found.own.value - found.shipped.value)


def test_too_few_groups_are_an_error_that_says_so(edits: list[Edit]) -> None:
    with pytest.raises(LabelsError, match="at least 3"):
        compare(edits, ["one"] * len(edits))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.01, 0.2, "Worth it"), (-0.1, 0.1, "Not shown"), (-0.2, -0.01, "shipped trees keep more")],
)
def test_the_verdict_needs_an_interval_that_is_clear_of_nothing(
    low: float, high: float, said: str
) -> None:
    some = Interval(0.5, 0.4, 0.6)
    ahead = Interval((low + high) / 2, low, high)
    assert said in Own(edits=9, groups=3, shipped=some, own=some, ahead=ahead).verdict


def test_the_command_prints_both_and_writes_the_figures(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "own.json"

    done = CliRunner().invoke(scorer, ["own", str(log), "--folds", "2", "--json", str(out)])

    assert done.exit_code == 0, done.output
    assert "shipped trees" in done.output
    assert json.loads(out.read_text())["groups"] <= 16


def test_logs_of_one_project_are_enough_to_train_on(tmp_path: Path) -> None:
    records = json.loads(make_log(tmp_path / "log.json").read_text())
    for number, record in enumerate(records):
        record["task_id"] = f"django__django-{number}"
    (tmp_path / "log.json").write_text(json.dumps(records))
    given = ["--scorer", "worth", str(tmp_path / "log.json"), "--out", str(tmp_path / "bundle")]

    done = CliRunner().invoke(train, given)

    assert done.exit_code == 0, done.output
    assert "one project: nothing is held out" in done.output
