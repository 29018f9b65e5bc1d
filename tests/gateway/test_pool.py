"""Work off the loop: it ends in time or is given up, and nothing stays broken."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.editing.breakers import Breaker, Breakers
from agora.gateway.editing.pool import Pool, Ticket

Result = TypeVar("Result")


class Patient(asyncio.SelectorEventLoop):
    """An event loop for which no time passes before something has happened.

    A deadline of a tenth of a second may otherwise be over before a busy machine has given the
    thread a turn to begin.
    """

    def __init__(self, has_happened: Callable[[], bool]) -> None:
        super().__init__()
        self._has_happened = has_happened

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: object = None
    ) -> asyncio.TimerHandle:
        def due() -> None:
            if self._has_happened():
                callback(*args)
            else:
                asyncio.SelectorEventLoop.call_later(self, 0.005, due)

        return super().call_later(delay, due)


def run_when(has_happened: Callable[[], bool], main: Coroutine[object, object, Result]) -> Result:
    with asyncio.Runner(loop_factory=lambda: Patient(has_happened)) as runner:
        return runner.run(main)


def run(
    pool: Pool[Callable[[], int], int],
    *jobs: Callable[[], int],
    has_happened: Callable[[], bool] = lambda: True,
) -> list[int | str]:
    async def all_of_them() -> list[int | str]:
        return list(await asyncio.gather(*(pool.run(lambda _, job=job: job) for job in jobs)))  # type: ignore[misc]

    pool.start()
    try:
        return run_when(has_happened, all_of_them())
    finally:
        pool.close()


def make_pool(**changes: object) -> Pool[Callable[[], int], int]:
    return Pool(work=lambda job: job(), **{"deadline_seconds": 10.0, **changes})  # type: ignore[arg-type]


def test_what_was_done_in_time_comes_back() -> None:
    assert run(make_pool(workers=2), lambda: 1, lambda: 2, lambda: 3) == [1, 2, 3]


def test_what_is_late_is_not_waited_for_and_what_is_behind_it_is_too_much() -> None:
    begun, release = threading.Event(), threading.Event()
    pool = make_pool(deadline_seconds=0.1)

    def hang() -> int:
        begun.set()
        return int(release.wait(20))

    outcomes = run(pool, hang, lambda: 2, has_happened=begun.is_set)
    release.set()

    assert outcomes == ["deadline", "saturated"]


def test_an_error_is_a_reason_and_the_thread_goes_on() -> None:
    reported: list[BaseException] = []

    def kill() -> int:
        raise SystemExit

    pool = make_pool(on_error=reported.append)

    assert run(pool, lambda: 1 // 0, kill, lambda: 7) == ["failed", "failed", 7]
    assert [type(error) for error in reported] == [ZeroDivisionError, SystemExit]


def test_large_work_that_is_late_does_not_hold_small_work_back() -> None:
    pool = make_pool(deadline_seconds=0.05, workers=1, stuck_seconds=60)

    begun = threading.Event()

    def until(release: threading.Event, done: threading.Event) -> int:
        begun.set()
        release.wait(20)
        done.set()
        return 1

    async def all_of_them() -> tuple[list[int | str], int | str]:
        late = []
        for _ in range(7):
            release, done = threading.Event(), threading.Event()
            job = functools.partial(until, release, done)
            begun.clear()
            late.append(await pool.run(lambda _, job=job: job, kind=9))  # type: ignore[misc]
            release.set()
            while late[-1] == "deadline" and not done.is_set():
                await asyncio.sleep(0.01)
        pool.deadline_seconds = 10
        return late, await pool.run(lambda _: lambda: 7, kind=1)

    pool.start()
    late, small = run_when(begun.is_set, all_of_them())
    pool.close()

    assert late == ["deadline"] * 5 + ["breaker_open"] * 2
    assert small == 7
    assert pool.open_breakers == 1


def test_beyond_what_may_wait_nothing_is_taken() -> None:
    release = threading.Event()
    pool = make_pool(waiting_most=2, deadline_seconds=30)

    async def all_of_them() -> list[int | str]:
        asked = [asyncio.ensure_future(pool.run(lambda _: job)) for _ in range(6)]
        # Those for which there is no room hear it while the others still wait.
        refused, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result() for one in refused} == {"saturated"}
        release.set()
        return list(await asyncio.gather(*asked))

    def job() -> int:
        return int(release.wait(20))

    pool.start()
    outcomes = asyncio.run(all_of_them())
    pool.close()

    # One at work, if the thread took it in time, and two that wait.
    assert outcomes.count("saturated") in (3, 4)
    assert outcomes.count(1) + outcomes.count("saturated") == 6
    assert outcomes[0] == 1


def test_a_thread_that_hangs_is_replaced() -> None:
    begun, release = threading.Event(), threading.Event()
    pool = make_pool(deadline_seconds=0.1, stuck_seconds=0.1)
    pool.start()

    def hang() -> int:
        begun.set()
        return int(release.wait(20))

    async def talk() -> list[int | str]:
        first = await pool.run(lambda _: hang)
        # It was at work before this: after that, it has been for longer than it may.
        await asyncio.to_thread(threading.Event().wait, 0.15)
        pool.deadline_seconds = 10
        return [first, await pool.run(lambda _: lambda: 2)]

    try:
        assert run_when(begun.is_set, talk()) == ["deadline", 2]
    finally:
        release.set()
        pool.close()


def test_a_job_is_told_when_its_caller_is_gone() -> None:
    seen: list[bool] = []
    tickets: list[Ticket] = []
    started = threading.Event()
    done = threading.Event()

    def job() -> int:
        started.set()
        while not tickets[0].is_gone():
            time.sleep(0.005)
        seen.append(True)
        done.set()
        return 1

    pool = make_pool(deadline_seconds=5)
    pool.start()

    def make(ticket: Ticket) -> Callable[[], int]:
        tickets.append(ticket)
        return job

    async def leave() -> None:
        task = asyncio.ensure_future(pool.run(make))
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    assert done.wait(5)
    pool.close()


@settings(deadline=None)
@given(events=st.lists(st.sampled_from(["ok", "bad", "wait", "ask"]), max_size=60))
def test_a_breaker_never_stays_open_for_good(events: list[str]) -> None:
    now = [0.0]
    breaker = Breaker(failures=3, cool_seconds=30, clock=lambda: now[0])
    for event in events:
        if event == "ok":
            breaker.succeeded()
        elif event == "bad":
            breaker.failed()
        elif event == "wait":
            now[0] += 7
        else:
            breaker.allows()

    now[0] += 30
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert not breaker.is_open


def test_one_kind_of_work_does_not_hold_back_another() -> None:
    breakers = Breakers(lambda: Breaker(failures=1), most=2)
    breakers.failed("a")

    assert not breakers.allows("a")
    assert breakers.allows("b")
    assert breakers.open_ones == 1
    breakers.failed("b")
    breakers.failed("c")
    assert breakers.allows("a")
    breakers.succeeded("c")
    assert breakers.allows("c")


def test_late_work_is_finished_and_meanwhile_not_taken_on_again() -> None:
    begun, release, done = threading.Event(), threading.Event(), threading.Event()
    talk = object()
    pool = make_pool(deadline_seconds=0.05, finish_seconds=30.0)

    def job() -> int:
        begun.set()
        release.wait(20)
        done.set()
        return 1

    async def ask(work: Callable[[], int]) -> int | str:
        return await pool.run(lambda _: work, same=talk)

    async def talk_to_it() -> list[int | str]:
        said = [await ask(job), await ask(job)]
        release.set()
        while pool._under_way:
            await asyncio.sleep(0.005)
        pool.deadline_seconds = 10
        return [*said, await ask(lambda: 7)]

    pool.start()
    try:
        assert run_when(begun.is_set, talk_to_it()) == ["deadline", "pending", 7]
    finally:
        release.set()
        pool.close()
    assert done.is_set()
    assert not pool.open_breakers


def test_work_that_is_never_finished_opens_the_breaker_of_its_kind() -> None:
    release = threading.Event()
    pool = make_pool(
        deadline_seconds=0.02,
        finish_seconds=0.02,
        late=Breakers(lambda: Breaker(failures=1)),
        stuck_seconds=60,
    )
    tickets: list[Ticket] = []

    def make(ticket: Ticket) -> Callable[[], int]:
        tickets.append(ticket)
        return lambda: int(release.wait(20))

    async def talk_to_it() -> list[int | str]:
        first = await pool.run(make, kind=9)
        while not pool.open_breakers:
            await asyncio.sleep(0.005)
        return [first, await pool.run(make, kind=9)]

    pool.start()
    try:
        begun = lambda: bool(tickets) and tickets[0].started  # noqa: E731
        assert run_when(begun, talk_to_it()) == ["deadline", "breaker_open"]
        assert tickets[0].is_gone()
    finally:
        release.set()
        pool.close()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_every_thread_is_warm_before_its_first_job_and_a_failure_there_is_told(
    error: type[BaseException],
) -> None:
    warmed: list[str] = []
    reported: list[BaseException] = []

    def warm() -> None:
        warmed.append(threading.current_thread().name)
        raise error

    pool = make_pool(workers=2, warm=warm, on_error=reported.append)
    assert not pool.wait_until_warm(0)
    pool.start()
    assert pool.wait_until_warm(20)
    pool.close()

    assert len(warmed) == len(reported) == 2
