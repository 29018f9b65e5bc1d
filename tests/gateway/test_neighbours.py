"""What one tenant sends costs no other tenant its time or its edits."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.config import Limits
from agora.gateway.editing.pool import Pool
from agora.gateway.editing.turns import _SHORT_FIRST, Turns
from harness.gateway.histories import messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

LONG_STEPS = 2_600
"""Of 200 bytes: more than a megabyte, and a second of work or more."""
AT_ONCE_SECONDS = 0.5


def ask(url: str, body: bytes, key: str) -> tuple[str, float]:
    """Send a body; return why it was left alone, or nothing, and how long the answer took."""
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    began = time.monotonic()
    connection.request("POST", "/v1/messages", body, {"x-api-key": key})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return answer.getheader("x-agora-untouched") or "", time.monotonic() - began


def grown(steps: int, size: int) -> bytes:
    asked: dict[str, Any] = messages(steps, size)
    return json.dumps({**asked, "messages": asked.pop("messages")}).encode()


def test_a_conversation_too_long_for_its_time_passes_at_once_and_is_edited_later() -> None:
    limits = Limits(restore_deadline_ms=int(AT_ONCE_SECONDS * 1e3), drain_seconds=2)
    upstream = StrictUpstream()
    with serving(upstream) as up, gateway(config_for(up, limits=limits)) as (url, app):
        body = grown(LONG_STEPS, 200)
        # What the same body takes without the gateway: a busy machine slows both.
        bare = min(ask(up, body, "sk-long")[1] for _ in range(2))
        why, took = ask(url, body, "sk-long")
        assert took < AT_ONCE_SECONDS + 3 * bare, f"held for {took:.2f} s, {bare:.2f} s without"
        assert why == "pending"

        # Its work goes on, and another's is done meanwhile.
        assert app.editing.long._under_way or app.editing.long.wait_seconds()
        for steps in range(40, 44):
            why, _ = ask(url, grown(steps, 2_000), "sk-other")
        assert why not in ("saturated", "breaker_open")

        until = time.monotonic() + 60
        more = LONG_STEPS
        while why or len(upstream.received[-1].body) > 600_000:
            assert time.monotonic() < until, "the long conversation was never edited"
            time.sleep(0.1)
            more += 1
            why, took = ask(url, grown(more, 200), "sk-long")


def test_work_that_is_late_or_fails_holds_back_its_own_tenant_only() -> None:
    release = threading.Event()
    pool: Pool[Callable[[], int], int] = Pool(work=lambda job: job(), deadline_seconds=0.02)

    def fails() -> int:
        raise ValueError

    async def talk() -> tuple[list[int | str], list[int | str]]:
        for _ in range(6):
            await pool.run(lambda _: lambda: int(release.wait(0.05)), owner="a", kind=9)
            await pool.run(lambda _: fails, owner="b", deadline_seconds=10)
            await asyncio.sleep(0.1)
        held = [
            await pool.run(lambda _: lambda: 1, owner="a", kind=9, deadline_seconds=10),
            await pool.run(lambda _: lambda: 1, owner="b", deadline_seconds=10),
        ]
        others = [
            await pool.run(lambda _: lambda: 2, owner="c", kind=9, deadline_seconds=10),
            await pool.run(lambda _: lambda: 2, owner="c", deadline_seconds=10),
        ]
        return held, others

    pool.start()
    held, others = asyncio.run(talk())
    pool.close()

    assert held == ["breaker_open", "breaker_open"]
    assert others == [2, 2]


def test_a_tenant_that_fills_its_room_leaves_others_theirs() -> None:
    release = threading.Event()
    pool: Pool[Callable[[], int], int] = Pool(
        work=lambda job: job(), deadline_seconds=20, waiting_most=2
    )

    async def talk() -> tuple[list[int | str], int | str]:
        busy = [
            asyncio.ensure_future(
                pool.run(lambda _: lambda: int(release.wait(20)), owner="a"),
            )
            for _ in range(8)
        ]
        await asyncio.sleep(0.05)
        other = asyncio.ensure_future(pool.run(lambda _: lambda: 7, owner="b"))
        await asyncio.sleep(0.05)
        release.set()
        return list(await asyncio.gather(*busy)), await other

    pool.start()
    outcomes, other = asyncio.run(talk())
    pool.close()

    assert outcomes.count("saturated") >= 5
    assert other == 7


def test_work_that_cannot_be_in_time_is_not_waited_for_and_is_done_for_the_next() -> None:
    done = threading.Event()
    pool: Pool[float, bool] = Pool(work=done.wait, deadline_seconds=5, finish_seconds=20)

    async def talk() -> tuple[bool | str, float]:
        began = time.monotonic()
        outcome = await pool.run(lambda _: 0.0, seconds=6)
        return outcome, time.monotonic() - began

    pool.start()
    outcome, took = asyncio.run(talk())
    while pool.is_busy:
        time.sleep(0.005)
    pool.close()

    assert outcome == "pending"
    assert took < 5


def test_work_that_cannot_be_in_time_and_serves_nobody_later_is_not_done() -> None:
    pool: Pool[Callable[[], int], int] = Pool(work=lambda job: job(), deadline_seconds=1)
    pool.start()

    assert asyncio.run(pool.run(lambda _: lambda: 1, seconds=2)) == "deadline"
    pool.close()


def test_what_is_short_waits_for_nothing_but_what_is_short() -> None:
    release, done = threading.Event(), list[str]()

    def work(job: str) -> str:
        if job == "first":
            release.wait(20)
        done.append(job)
        return job

    pool: Pool[str, str] = Pool(work=work, deadline_seconds=20, waiting_most=20)

    async def talk() -> None:
        jobs = [("first", 1.0), *((f"long {n}", 1.0) for n in range(3)), ("short", 0.02)]
        waiting = []
        for job, seconds in jobs:
            waiting.append(
                asyncio.ensure_future(
                    pool.run(lambda _, job=job: job, owner=job, seconds=seconds)  # type: ignore[misc]
                )
            )
            await asyncio.sleep(0.01)
        assert pool.wait_seconds() > 3
        assert pool.wait_seconds(short=True) < 1.5
        release.set()
        await asyncio.gather(*waiting)

    pool.start()
    asyncio.run(talk())
    pool.close()

    assert done == ["first", "short", "long 0", "long 1", "long 2"]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijk"), st.booleans()), max_size=60))
def test_what_is_short_comes_first_once_for_each_owner(items: list[tuple[str, bool]]) -> None:
    turns: Turns[int] = Turns()
    for number, (owner, short) in enumerate(items):
        turns.put(owner, number, short=short)
    assert sorted(turns) == list(range(len(items)))
    taken = [turns.get() for _ in range(len(turns))]

    assert sorted(taken) == list(range(len(items)))
    first: list[str] = []
    for at, number in enumerate(taken):
        owner, short = items[number]
        later = [items[n] for n in taken[at:]]
        if all(short for _, short in later):
            break
        if short:
            # While others wait, nobody comes first twice, and not too many come first.
            assert owner not in first
            first.append(owner)
            assert len(first) <= _SHORT_FIRST
        else:
            unserved = {owner for owner, short in later if short} - set(first)
            assert not unserved or len(first) == _SHORT_FIRST
            first.clear()


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_owners_take_turns_and_each_ones_items_keep_their_order(owners: list[str]) -> None:
    turns: Turns[tuple[str, int]] = Turns()
    for number, owner in enumerate(owners):
        turns.put(owner, (owner, number))
    assert sorted(turns) == sorted((owner, n) for n, owner in enumerate(owners))
    taken = [turns.get() for _ in range(len(turns))]

    for owner in set(owners):
        mine = [number for of, number in taken if of == owner]
        assert mine == sorted(mine)
        assert turns.waiting(owner) == 0
        # Whoever has one item waits for one of each other at the most.
        first = next(at for at, (of, _) in enumerate(taken) if of == owner)
        assert first < len(set(owners))
