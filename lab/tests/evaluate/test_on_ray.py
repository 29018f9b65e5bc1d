import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from lab.tests.evaluation.remembering import GRID, HERE, TASKS, Remembering

from agora_lab.episodes.run import RunError, read_episodes
from agora_lab.evaluate.grid import read_grid
from agora_lab.evaluate.grid_player import GridPlayer, plan, units
from agora_lab.evaluate.on_ray import RayGridRun
from agora_lab.evaluate.rows import gather


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20
    )
    yield
    ray.shutdown()


def test_a_grid_is_played_by_two_actors_gone_on_with_and_the_same_as_by_one(
    tmp_path: Path,
) -> None:
    grid = read_grid(GRID)
    playing = RayGridRun(grid, tmp_path / "run", workers=2)
    some = []
    outcomes = playing.outcomes()
    for outcome in outcomes:
        some.append(outcome)
        if len(some) == 20:
            break
    outcomes.close()
    rest = RayGridRun(grid, tmp_path / "run", workers=1)
    assert rest.done
    list(rest.outcomes())

    settings = plan(grid)
    alone = GridPlayer(grid, tmp_path / "alone", settings, "000")
    for unit in units(grid, settings["tasks"], frozenset()):
        alone.play(unit)
    alone.close()
    one = {e.key: e.to_json() for e in read_episodes(tmp_path / "alone")}
    two = list(read_episodes(tmp_path / "run"))
    assert len(two) == len(one) == 8 * 12
    assert {e.key: e.to_json() for e in two} == one
    assert {p.name for p in (tmp_path / "run" / "episodes").iterdir()} == {"000.jsonl", "001.jsonl"}
    [first, *_] = (tmp_path / "run" / "origins.jsonl").read_text().splitlines()
    assert {"agora", "commit", "code", "packages", "python"} <= json.loads(first).keys()
    assert len(json.loads((tmp_path / "run" / "skipped.json").read_text())) == 1

    with pytest.raises(RunError, match="other settings"):
        RayGridRun(read_grid(GRID.replace("tasks = 12", "tasks = 13")), tmp_path / "run")


def test_the_first_tasks_of_all_cells_come_before_the_second_ones_of_any() -> None:
    grid = read_grid(GRID)
    order = list(units(grid, plan(grid)["tasks"], frozenset()))

    cells = len(list(grid.cells()))
    assert [unit.tasks for unit in order[:cells]] == [TASKS[:5]] * cells
    assert len({unit.cell for unit in order[:cells]}) == cells


def test_an_episode_that_fails_is_put_down_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = read_grid(GRID)
    settings = plan(grid)
    calm = Remembering.step

    def moody(self: Remembering, action: str) -> object:
        if self._code in TASKS[1:4]:
            raise OSError("the server is gone")
        return calm(self, action)

    monkeypatch.setattr(Remembering, "step", moody)
    shop = GridPlayer(grid, tmp_path, settings, "000")
    first = next(units(grid, settings["tasks"], frozenset()))
    said = [outcome.error for outcome in shop.play(first)]

    assert said[0] == ""
    assert said[1:4] == ["OSError: the server is gone"] * 3
    assert said[4].startswith("not tried")
    assert len(gather([tmp_path], {}).runs[0]["failures"]) == 3

    monkeypatch.setattr(Remembering, "step", calm)
    assert [outcome.error for outcome in shop.play(first)] == [""] * 4
    shop.close()


def test_a_world_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in (f"{HERE}:NOTHING", "no.such.module:WORLD", f"{HERE}:TASKS"):
        with pytest.raises(ValueError, match=name.partition(":")[0]):
            plan(read_grid(GRID.replace(f"{HERE}:WORLD", name)))
    shutil.rmtree(tmp_path)
