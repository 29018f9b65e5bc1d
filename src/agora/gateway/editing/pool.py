"""Compression off the event loop: a deadline, a breaker, and never an endless wait.

Whoever waits stops at the deadline; the job itself is finished, because the next call can use its
result. A thread cannot be stopped. So a job is notified when nobody can use it any more and checks
that between its parts; one that never ends costs its thread, which is given up and replaced a few
times; and when no thread is left, requests are forwarded without compression.

Every job has an owner. What is short comes first, owners are served in turn, and what waits, fails
or is late counts for its owner alone: nobody's work is held back by another's. A job that cannot be
in time is done for whoever asks next, and its caller hears so at once.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agora.gateway.editing.breakers import Breaker, Breakers
from agora.gateway.editing.turns import Turns

Job = TypeVar("Job")
Done = TypeVar("Done")
_SHORT_SECONDS = 0.05
"""What is expected to take no longer comes before all else: it is over before others notice."""
_OWNERS = 4
"""How many owners may have all the jobs waiting that they may have, before others find no room."""


class Missed:
    """Why a job gave nothing: one of our own words."""

    LATE = "deadline"
    SATURATED = "saturated"
    FAILED = "failed"
    OPEN = "breaker_open"
    PENDING = "pending"
    """It is being worked out for the calls to come: there is no point in waiting for it."""


@dataclass(slots=True)
class Ticket:
    """A job in the pool, as the one who waits for it and the one who does it both see it."""

    until: float
    """When the caller stops waiting, by `time.monotonic`; never, for work that is finished late."""
    stops: float = float("inf")
    """When the work is given up, by `time.monotonic`; known once it has started."""
    gone: bool = False
    started: bool = False

    finished: bool = False

    def is_gone(self) -> bool:
        """Tell that nobody can use the outcome any more."""
        return self.gone or time.monotonic() > self.stops


@dataclass(slots=True, eq=False)
class _Worker:
    thread: threading.Thread | None = None
    busy_since: float = 0.0
    busy_until: float = 0.0
    """When it is expected to be done."""
    given_up: bool = False


@dataclass(slots=True)
class _Order(Generic[Job, Done]):
    job: Job
    ticket: Ticket
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Done | str]"
    same: object
    seconds: float = 0.0
    """How long it is expected to take."""


@dataclass(slots=True, kw_only=True)
class Pool(Generic[Job, Done]):
    """Threads that do jobs, for one event loop."""

    work: Callable[[Job], Done]
    workers: int = 1
    deadline_seconds: float = 0.15
    waiting_most: int = 16
    """Jobs of one owner that may wait for a thread; more would miss their deadline anyway."""
    finish_seconds: float = 0.0
    """How long a job that is late may take from when it started, for whoever asks next. With 0,
    work that is late is of no use to anybody."""
    stuck_seconds: float = 5.0
    """How long a job may run before its thread is given up."""
    warm: Callable[[], object] = bool
    """What each thread does before its first job."""
    ended: Callable[[], object] = bool
    """What is done when the pool is closed."""
    spare_threads: int = 4
    """How many threads may be given up at a time."""
    failing: Breakers = field(default_factory=lambda: Breakers(Breaker))
    """One for each owner: open when its work fails."""
    late: Breakers = field(default_factory=lambda: Breakers(Breaker))
    """One for each owner and kind of work: open when it is not even finished late. Large bodies
    that take too long say nothing about small ones, nor about those of others."""
    on_error: Callable[[BaseException], None] = lambda _: None
    _orders: "Turns[_Order[Job, Done] | None]" = field(default_factory=Turns, init=False)
    _threads: list[_Worker] = field(default_factory=list, init=False)
    _given_up: list[_Worker] = field(default_factory=list, init=False)
    _closed: bool = field(default=False, init=False)
    _under_way: dict[object, Ticket] = field(default_factory=dict, init=False)
    _warm: list[_Worker] = field(default_factory=list, init=False)
    _warmed: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self.workers):
            self._add_thread()

    def wait_until_warm(self, seconds: float) -> bool:
        """Wait for the threads to be warm; tell whether they are."""
        return self._warmed.wait(seconds)

    def close(self) -> None:
        """Let the threads end with what they are doing."""
        self._closed = True
        for _ in self._threads:
            self._orders.put("", None)
        self.ended()

    @property
    def open_breakers(self) -> int:
        """How many breakers hold work back."""
        return self.failing.open_ones + self.late.open_ones

    async def run(
        self,
        make: Callable[[Ticket], Job],
        *,
        owner: str = "",
        kind: object = "",
        same: object = None,
        seconds: float = 0.0,
        deadline_seconds: float | None = None,
        waiting_most: int | None = None,
    ) -> Done | str:
        """Return what the work gave, or the reason why it gave nothing within the deadline.

        A job that is late is finished where the pool has `finish_seconds`; when the caller is
        cancelled it is notified.

        Args:
            make: makes the job.
            owner: whose it is.
            kind: work of one kind takes about the same time.
            same: while work for an equal value is under way no other is taken on, and the reason
                is `Missed.PENDING`; None for work like no other.
            seconds: how long it is expected to take. If that is too long, it is done all the same
                and the reason is `Missed.PENDING` at once.
            deadline_seconds: instead of the pool's.
            waiting_most: instead of the pool's.
        """
        if same is not None and self.is_under_way(same):
            return Missed.PENDING
        if not self.late.allows((owner, kind)) or not self.failing.allows(owner):
            return Missed.OPEN
        self._replace_stuck()
        most = self.waiting_most if waiting_most is None else waiting_most
        full = self._orders.waiting(owner) >= most or len(self._orders) >= _OWNERS * most
        if full or not self._threads:
            return Missed.SATURATED
        deadline = self.deadline_seconds if deadline_seconds is None else deadline_seconds
        short = 0 < seconds <= _SHORT_SECONDS
        waits = self.wait_seconds(short=short) + seconds <= deadline
        finishes = self.finish_seconds > 0
        if not waits and not finishes:
            return Missed.LATE
        loop = asyncio.get_running_loop()
        ticket = Ticket(float("inf") if finishes else time.monotonic() + deadline)
        answer: asyncio.Future[Done | str] = loop.create_future()
        timer = loop.call_later(deadline, _settle, answer, Missed.LATE)
        if same is not None:
            self._under_way[same] = ticket
        order = _Order(make(ticket), ticket, loop, answer, same, seconds)
        self._orders.put(owner, order, short=short)
        if not waits:
            _settle(answer, Missed.PENDING)
        try:
            outcome = await answer
        except BaseException:
            ticket.gone = True
            raise
        finally:
            timer.cancel()
        return self._noted(outcome, ticket, (owner, kind), finishes=finishes)

    @property
    def is_busy(self) -> bool:
        """Whether any work waits or is being done."""
        return bool(len(self._orders)) or any(w.busy_since for w in tuple(self._threads))

    def wait_seconds(self, *, short: bool = False) -> float:
        """Return how long a job that is put now is expected to wait for a thread."""
        now = time.monotonic()
        most = _SHORT_SECONDS if short else math.inf
        orders = (order.seconds for order in self._orders if order is not None)
        ahead = sum(seconds for seconds in orders if seconds <= most)
        ahead += sum(max(0.0, w.busy_until - now) for w in tuple(self._threads) if w.busy_since)
        return ahead / max(1, len(self._threads))

    def _noted(
        self, outcome: Done | str, ticket: Ticket, kind: tuple[str, object], *, finishes: bool
    ) -> Done | str:
        """Return an outcome after the breakers have heard of it."""
        if not isinstance(outcome, str):
            self.failing.succeeded(kind[0])
            self.late.succeeded(kind)
        elif outcome not in (Missed.LATE, Missed.PENDING):
            self.failing.failed(kind[0])
        else:
            if finishes:
                loop = asyncio.get_running_loop()
                loop.call_later(self.finish_seconds, self._end, ticket, kind)
            else:
                ticket.gone = True
                self._end(ticket, kind)
            if outcome == Missed.LATE and not ticket.started:
                # Others were before it: too many, not broken.
                return Missed.SATURATED
        return outcome

    def offer(self, job: Job) -> bool:
        """Have a job done that nobody waits for, if there is nothing else to do; tell whether."""
        if self._closed or len(self._orders) or all(w.busy_since for w in self._threads):
            return False
        loop = asyncio.get_running_loop()
        ticket = Ticket(float("inf"))
        self._orders.put("", _Order(job, ticket, loop, loop.create_future(), None))
        return True

    def is_under_way(self, same: object) -> bool:
        """Tell whether work for an equal value was taken on and has not ended."""
        ticket = self._under_way.get(same)
        return ticket is not None and not ticket.is_gone() and not ticket.finished

    def _end(self, ticket: Ticket, kind: object) -> None:
        """Note whether work that was late has ended since; others may have been before it."""
        if ticket.finished:
            self.late.succeeded(kind)
        elif ticket.started:
            self.late.failed(kind)

    def _add_thread(self) -> None:
        worker = _Worker()
        # A daemon: a thread that hangs must not keep the process from ending.
        worker.thread = threading.Thread(
            target=self._serve, args=(worker,), name="agora-compress", daemon=True
        )
        self._threads.append(worker)
        worker.thread.start()

    def _replace_stuck(self) -> None:
        now = time.monotonic()
        for worker in tuple(self._threads):
            if worker.busy_since and now - worker.busy_since > self.stuck_seconds:
                self._given_up = [w for w in self._given_up if w.thread and w.thread.is_alive()]
                if len(self._given_up) >= self.spare_threads:
                    return
                worker.given_up = True
                self._warmed.set()
                self._threads.remove(worker)
                self._given_up.append(worker)
                self._add_thread()

    def _serve(self, worker: _Worker) -> None:
        if not self._warmed.is_set():
            # One that never ends is given up like any job, and the thread after it starts cold.
            worker.busy_since = time.monotonic()
            try:
                self.warm()
            except BaseException as error:  # a panic in native code is no Exception
                self.on_error(error)
            worker.busy_since = 0.0
            self._warm.append(worker)
            if len(self._warm) >= self.workers:
                self._warmed.set()
        while not worker.given_up:
            order = self._orders.get()
            if order is None or self._closed:
                return
            ticket = order.ticket
            if ticket.gone:
                self._done(order)
                continue
            ticket.started = True
            worker.busy_since = time.monotonic()
            worker.busy_until = worker.busy_since + order.seconds
            if self.finish_seconds:
                ticket.stops = worker.busy_since + self.finish_seconds
            outcome: Done | str
            try:
                outcome = self.work(order.job)
            except BaseException as error:
                self.on_error(error)
                outcome = Missed.FAILED
            worker.busy_since = 0.0
            ticket.finished = True
            self._done(order)
            if not ticket.gone:
                try:
                    order.loop.call_soon_threadsafe(_settle, order.answer, outcome)
                except RuntimeError:  # the loop is closed: nobody waits
                    return
            del order, outcome

    def _done(self, order: "_Order[Job, Done]") -> None:
        if order.same is None:
            return
        if self._under_way.get(order.same) is order.ticket:
            del self._under_way[order.same]


def _settle(answer: "asyncio.Future[Done | str]", outcome: Done | str) -> None:
    if not answer.done():
        answer.set_result(outcome)
