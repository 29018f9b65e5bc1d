"""Work off the loop: it ends in time or is given up, and nothing stays broken."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.pool import Breaker, Breakers, Pool, Ticket


def run(pool: Pool[Callable[[], int], int], *jobs: Callable[[], int]) -> list[int | str]:
    async def all_of_them() -> list[int | str]:
        return list(await asyncio.gather(*(pool.run(lambda _, job=job: job) for job in jobs)))  # type: ignore[misc]

    pool.start()
    try:
        return asyncio.run(all_of_them())
    finally:
        pool.close()


def slow(seconds: float) -> int:
    time.sleep(seconds)
    return 1


def make_pool(**changes: object) -> Pool[Callable[[], int], int]:
    return Pool(work=lambda job: job(), **{"deadline_seconds": 10.0, **changes})  # type: ignore[arg-type]


def test_what_was_done_in_time_comes_back() -> None:
    assert run(make_pool(workers=2), lambda: 1, lambda: 2, lambda: 3) == [1, 2, 3]


def test_what_is_late_is_not_waited_for_and_what_is_behind_it_is_too_much() -> None:
    release = threading.Event()
    pool = make_pool(deadline_seconds=0.1)

    outcomes = run(pool, lambda: int(release.wait(20)), lambda: 2)
    release.set()

    assert outcomes == ["deadline", "saturated"]


def test_an_error_is_a_reason_and_the_thread_goes_on() -> None:
    told: list[BaseException] = []

    def kill() -> int:
        raise SystemExit

    pool = make_pool(on_error=told.append)

    assert run(pool, lambda: 1 // 0, kill, lambda: 7) == ["failed", "failed", 7]
    assert [type(error) for error in told] == [ZeroDivisionError, SystemExit]


def test_large_work_that_is_late_does_not_hold_small_work_back() -> None:
    pool = make_pool(deadline_seconds=0.05, workers=1, stuck_seconds=60)

    def until(release: threading.Event, done: threading.Event) -> int:
        release.wait(20)
        done.set()
        return 1

    async def all_of_them() -> tuple[list[int | str], int | str]:
        late = []
        for _ in range(7):
            release, done = threading.Event(), threading.Event()
            job = functools.partial(until, release, done)
            late.append(await pool.run(lambda _, job=job: job, kind=9))  # type: ignore[misc]
            release.set()
            while late[-1] == "deadline" and not done.is_set():
                await asyncio.sleep(0.01)
        pool.deadline_seconds = 10
        return late, await pool.run(lambda _: lambda: 7, kind=1)

    pool.start()
    late, small = asyncio.run(all_of_them())
    pool.close()

    assert late == ["deadline"] * 5 + ["breaker_open"] * 2
    assert small == 7
    assert pool.open_breakers == 1


def test_beyond_what_may_wait_nothing_is_taken() -> None:
    pool = make_pool(waiting_most=2, deadline_seconds=10)

    outcomes = run(pool, *[lambda: slow(0.05)] * 6)

    assert outcomes.count("saturated") >= 2
    assert outcomes[0] == 1


def test_a_thread_that_hangs_is_replaced() -> None:
    release = threading.Event()
    pool = make_pool(deadline_seconds=0.1, stuck_seconds=0.1)
    pool.start()

    async def talk() -> list[int | str]:
        first = await pool.run(lambda _: lambda: int(release.wait(20)))
        await asyncio.sleep(0.15)
        pool.deadline_seconds = 10
        return [first, await pool.run(lambda _: lambda: 2)]

    try:
        assert asyncio.run(talk()) == ["deadline", 2]
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
