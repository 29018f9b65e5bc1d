import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from agora.core.worth import worth_of
from agora.scorers.parts import FEATURES, VALUES
from agora.scorers.tables import read, write
from agora.scorers.worth import WorthScorer
from agora_lab.cli.label import label
from agora_lab.cli.label_logs import by_hindsight, label_logs
from agora_lab.cli.train import train
from agora_lab.labels import LabelsError
from agora_lab.train import worth
from agora_lab.train.worth import MODELS, read_edits, train_worth

COPIED = "the red pen lies below the third drawer of the desk"


def make_log(path: Path, tasks: int = 16) -> Path:
    """Write trajectories in which old ids, and what one observation says, are used in the end."""
    records = []
    for task in range(tasks):
        messages: list[dict[str, object]] = [{"role": "user", "content": f"task {task}"}]
        said = [(f"user_{task}{n}", f"item_{task}{n}") for n in range(8)]
        said += [(f"item_{task}2", ""), (f"item_{task}{task % 8}", ""), (f"user_{task}1", "")]
        said += [(COPIED, "") for _ in range(task % 3)]
        for n, (name, brought) in enumerate(said):
            call = {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": "get", "arguments": json.dumps({"q": name})},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            found = json.dumps({"id": brought, "text": COPIED if n == task % 4 else "none"})
            messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": found})
        messages.append({"role": "assistant", "content": "done"})
        records.append({"task_id": task, "traj": messages, "reward": 1.0})
    path.write_text(json.dumps(records))
    return path


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        model: replace(settings, rounds=15, first_rounds=10, folds=2, pairs=4)
        for model, settings in worth.SETTINGS.items()
    }
    monkeypatch.setattr(worth, "SETTINGS", small)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worth")
    out = folder / "labels.parquet"
    logs = make_log(folder / "log.json")
    done = CliRunner().invoke(label, ["worth", str(logs), "--out", str(out), "--source", "made"])
    assert done.exit_code == 0, done.output
    assert "16 of 16 trajectories" in done.output
    return out


def test_the_tables_say_what_the_trained_models_say(labels: Path) -> None:
    edits = list(read_edits([labels]))
    trained = train_worth(edits)
    rows = [row for edit in edits for row in edit.rows]

    for model in MODELS:
        one = trained[model]
        margins = np.ravel(one.model.decision_function(np.array(rows, dtype=float)))
        wanted = 1 / (1 + np.exp(-(one.tables.slope * margins + one.tables.intercept)))
        exported = read(write(one.tables, {}), features=FEATURES, values=VALUES)
        said = exported.probabilities(list(zip(*rows, strict=True)))
        assert np.abs(wanted - said).max() < 1e-6


def test_a_trained_bundle_serves_what_it_was_trained_on(labels: Path, tmp_path: Path) -> None:
    runs = [
        CliRunner().invoke(
            train, ["--scorer", "worth", str(labels), "--hold-out", "0", "--out", str(out)]
        )
        for out in (tmp_path / "one", tmp_path / "two")
    ]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].output
    files = [{p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two")]
    assert files[0] == files[1]

    from agora.scorers import load_scorer

    scorer = load_scorer(tmp_path / "one")
    assert isinstance(scorer, WorthScorer)
    edit = next(iter(read_edits([labels])))
    held = {step.number for step in edit.past.steps}.difference(n + 1 for n in edit.candidates)
    assert len(worth_of(scorer, edit.past, held)) == len(edit.past.steps)
    assert "A worth scorer" in (tmp_path / "one" / "README.md").read_text()


def test_labels_of_another_kind_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "labels.parquet"
    label_logs([make_log(tmp_path / "log.json", tasks=2)], out, by_hindsight)

    with pytest.raises(LabelsError, match="agora label worth"):
        list(read_edits([out]))


def test_only_tasks_of_the_half_that_is_asked_for_are_labelled(tmp_path: Path) -> None:
    logs, tasks = make_log(tmp_path / "log.json"), []
    for half in ("validation", "test"):
        out = tmp_path / f"{half}.parquet"
        args = ["worth", str(logs), "--out", str(out), "--source", "made", "--half", half]
        assert CliRunner().invoke(label, args).exit_code == 0
        tasks.append({edit.task for edit in read_edits([out])})

    assert tasks[0]
    assert tasks[1]
    assert not tasks[0] & tasks[1]
