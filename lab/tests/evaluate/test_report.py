import gzip
import json
import shutil
from pathlib import Path

import pytest
from lab.tests.evaluation.remembering import GRID, HERE, TASKS, WORLD

from agora_lab.episodes.run import RunError
from agora_lab.evaluate.audit import TrainedOnError, audit, refuse_trained_on
from agora_lab.evaluate.grid import read_grid
from agora_lab.evaluate.grid_player import GridPlayer, origin, plan, units
from agora_lab.evaluate.report import make
from agora_lab.evaluate.results import Results
from agora_lab.evaluate.rows import Row, gather

CELL = (f"{HERE}:WORLD", "reader+program")


def play(folder: Path, text: str = GRID) -> None:
    grid = read_grid(text)
    settings = plan(grid)
    shop = GridPlayer(grid, folder, settings, "000")
    skipped = {}
    for unit in units(grid, settings["tasks"], frozenset()):
        for outcome in shop.play(unit):
            assert not outcome.error
            if outcome.skipped:
                skipped[outcome.key.rsplit("|", 1)[0]] = outcome.skipped
    shop.close()
    (folder / "skipped.json").write_text(json.dumps(skipped))
    (folder / "origins.jsonl").write_text(json.dumps(origin()) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    play(folder)
    return folder


@pytest.fixture(scope="module")
def made(run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    out = tmp_path_factory.mktemp("report")
    return out, make([run], out, prices=["gpt-4o-mini", "claude-sonnet-4-5"])


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_report_made_again_elsewhere_or_from_its_own_rows_is_the_same_bytes(
    run: Path, made: tuple[Path, Results], tmp_path: Path
) -> None:
    prices = ["gpt-4o-mini", "claude-sonnet-4-5"]
    copy = Path(shutil.copytree(run, tmp_path / "elsewhere"))
    make([copy], tmp_path / "again", prices=prices)
    make([made[0]], tmp_path / "from-rows", prices=prices)

    assert files(tmp_path / "again") == files(made[0])
    assert files(tmp_path / "from-rows") == files(made[0])


def test_forgetting_costs_steps_and_doing_nothing_retains_everything(
    made: tuple[Path, Results],
) -> None:
    none, floor = (made[1].cell(*CELL, name) for name in ("none", "floor"))

    assert none is not None
    assert none.retention is not None
    assert none.retention.estimate.value == 1
    assert none.tests == []
    assert floor is not None
    assert floor.steps_more is not None
    assert floor.steps_more.estimate.low > 0
    assert floor.duplicates.estimate.value > none.duplicates.estimate.value
    assert floor.by_call.estimate.value > 1


def test_every_cell_is_admitted_or_listed_with_a_reason(made: tuple[Path, Results]) -> None:
    _, found = made

    assert len(found.cells) == 8
    assert all(cell.audit.admitted for cell in found.cells)
    [(cell, reason)] = found.skipped().items()
    assert "agora_elsewhere" in cell
    assert "no scorer" in reason
    assert "agora_elsewhere" in (made[0] / "report.md").read_text()


def test_two_runs_that_disagree_on_an_episode_are_not_reported_together(
    run: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    file = other / "episodes" / "000.jsonl"
    file.write_text(file.read_text().replace("Right.", "Wrong."))

    assert len(gather([run, run], {}).rows) == len(gather([run], {}).rows)
    with pytest.raises(RunError, match="a different episode for"):
        gather([run, other], {})
    with pytest.raises(RunError, match="holds no settings"):
        gather([tmp_path], {})


def test_rows_of_another_schema_are_refused(made: tuple[Path, Results], tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"schema": 0}\n'))

    with pytest.raises(RunError, match="schema"):
        gather([tmp_path], {})


def row(**changed: object) -> Row:
    values = {
        "environment": "e",
        "backbone": "b",
        "method": "m",
        "seed": 0,
        "task": "1",
        "reward": 1.0,
        "steps": 3,
        "ended": "done",
        "valid": 3,
        "tokens_sent": 10,
        "tokens_whole": 20,
        "input_tokens": 0,
        "cached_tokens": 0,
        "output_tokens": 3,
        "method_input_tokens": 0,
        "method_output_tokens": 0,
        "changed": 0,
        "duplicates": 0,
        "wasted": 0,
        "longest_run": 1,
        "cut_off": 0,
        "finishes": 3,
        "trajectory": "a",
        "bills": {},
    }
    return Row(**{**values, **changed})  # type: ignore[arg-type]


def test_tasks_that_were_trained_on_stop_a_run_and_keep_a_cell_out() -> None:
    with pytest.raises(TrainedOnError, match="1 evaluation tasks of e were used for"):
        refuse_trained_on("e", ["1", "2"], ["2", "3"])
    refuse_trained_on("e", ["1"], ["2"])

    assert not audit([row()], training=["1"]).admitted
    assert audit([row()], training=["2"]).admitted
    assert audit([row()]).admitted


def test_a_grid_on_tasks_behind_labels_is_not_begun() -> None:
    text = GRID.replace("tasks = 12", 'tasks = 12\nsplit = "train"')

    with pytest.raises(TrainedOnError):
        plan(read_grid(text))


def test_two_tasks_of_a_chunk_that_went_the_same_way_keep_a_cell_out() -> None:
    rows = [row(task=str(n), trajectory=str(n % 5)) for n in range(10)]
    apart = audit(rows, planned=[str(n) for n in range(10)])
    together = audit(rows, planned=["0", "5", "1", "2", "3", "4", "6", "7", "8", "9"])

    assert apart.admitted
    assert not together.admitted
    assert "5 went like 0" in together.flags[0]


def test_loops_cut_offs_drift_and_missing_tasks_are_shown_and_keep_nothing_out() -> None:
    found = audit([row(longest_run=5, cut_off=2)], planned=["1", "2"], compression=1.0, target=4.0)

    assert found.admitted
    assert len(found.flags) == 3
    assert "0.25 of its target 4.00x" in found.flags[0]
    assert "1 of 1 episodes with a loop (longest run 5); 2 of 3 answers truncated" in found.flags[1]
    assert "1 of 2 tasks" in found.flags[2]
    assert not audit([row()], planned=["1"], compression=2.5, target=4.0).flags


def test_the_world_of_this_test_is_one() -> None:
    assert WORLD.splits()["test"] == TASKS
