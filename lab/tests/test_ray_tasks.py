"""Tasks on Ray, started on this machine."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from lab.tests.ray_functions import dies, dies_once, fails_on_three, square, waits_for

from agora_lab import on_ray


@pytest.fixture(scope="module")
def machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        with on_ray.connect(cpus=2):
            yield
    assert not ray.is_initialized()


@pytest.mark.usefixtures("machine")
def test_every_task_has_one_outcome() -> None:
    outcomes = list(on_ray.run(square, range(20)))

    assert sorted((one.task, one.value) for one in outcomes) == [(n, n * n) for n in range(20)]


@pytest.mark.usefixtures("machine")
def test_tasks_are_taken_only_as_there_is_room() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    outcomes = on_ray.run(square, tasks(), in_flight=4)
    next(outcomes)
    assert len(taken) == 4
    outcomes.close()


@pytest.mark.usefixtures("machine")
def test_an_exception_is_an_outcome_and_the_rest_goes_on() -> None:
    outcomes = {one.task: one for one in on_ray.run(fails_on_three, range(6))}

    assert outcomes[3].error == "ValueError: three is not wanted"
    assert outcomes[3].value is None
    assert [outcomes[n].value for n in (0, 1, 2, 4, 5)] == [0, 1, 2, 4, 5]


@pytest.mark.usefixtures("machine")
def test_a_task_whose_process_dies_runs_again(tmp_path: Path) -> None:
    [outcome] = on_ray.run(dies_once, [str(tmp_path / "seen")])

    assert outcome.value == "second"


@pytest.mark.usefixtures("machine")
def test_a_task_that_kills_every_process_is_given_up() -> None:
    [outcome] = on_ray.run(dies, [0], attempts=2)

    assert outcome.error.startswith("its process was lost")


@pytest.mark.usefixtures("machine")
def test_a_tick_comes_while_tasks_run(tmp_path: Path) -> None:
    file = tmp_path / "go"
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 3:
            file.touch()

    [outcome] = on_ray.run(waits_for, [str(file)], tick=tick)
    assert outcome.value
