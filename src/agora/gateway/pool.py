"""Compression off the event loop: a deadline, a breaker, and never a wait without an end.

A thread cannot be stopped. So a job is told when nobody waits for it any more and looks at that
between its parts; one that never ends costs its thread, which is given up and replaced a few times;
and when nothing is left to work with, requests go on as they came.
"""

import asyncio
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Job = TypeVar("Job")
Done = TypeVar("Done")


class Missed:
    """Why a job gave nothing: one of our own words."""

    LATE = "deadline"
    SATURATED = "saturated"
    FAILED = "failed"
    OPEN = "breaker_open"


class Breaker:
    """Lets work through until it failed several times in a row, then one probe at a time.

    Never a latch: after `cool_seconds` a probe goes through, and if it is not heard of again, the
    next one after as many seconds more.

    >>> now = [0.0]
    >>> breaker = Breaker(failures=1, cool_seconds=30, clock=lambda: now[0])
    >>> breaker.failed(); breaker.allows()
    False
    >>> now[0] = 31.0
    >>> breaker.allows(), breaker.allows()
    (True, False)
    >>> breaker.succeeded(); breaker.allows()
    True
    """

    __slots__ = ("_clock", "_closed", "_cool", "_failures", "_most", "_next_probe")

    def __init__(
        self,
        *,
        failures: int = 5,
        cool_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = failures
        self._cool = cool_seconds
        self._clock = clock
        self._failures = 0
        self._closed = True
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether work is held back."""
        return not self._closed

    def allows(self) -> bool:
        """Tell whether the next piece of work may go; if so while open, it is the probe."""
        if self._closed:
            return True
        now = self._clock()
        if now < self._next_probe:
            return False
        self._next_probe = now + self._cool
        return True

    def succeeded(self) -> None:
        """Note work that was done."""
        self._failures = 0
        self._closed = True

    def failed(self) -> None:
        """Note work that was not done."""
        self._failures += 1
        if self._failures >= self._most or not self._closed:
            self._closed = False
            self._next_probe = self._clock() + self._cool


class Breakers:
    """One breaker for each key, for the keys seen last."""

    def __init__(self, make: Callable[[], Breaker], *, most: int = 1_000) -> None:
        self._make = make
        self._most = most
        self._known: OrderedDict[object, Breaker] = OrderedDict()

    def allows(self, key: object) -> bool:
        """Tell whether work of this kind may go."""
        breaker = self._known.get(key)
        return breaker is None or breaker.allows()

    def failed(self, key: object) -> None:
        """Note work of this kind that was refused."""
        breaker = self._known.setdefault(key, self._make())
        self._known.move_to_end(key)
        breaker.failed()
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def succeeded(self, key: object) -> None:
        """Note work of this kind that was taken; what is in order need not be known."""
        self._known.pop(key, None)

    @property
    def open_ones(self) -> int:
        """How many hold work back."""
        return sum(breaker.is_open for breaker in self._known.values())


@dataclass(slots=True)
class Ticket:
    """A job in the pool, as the one who waits for it and the one who does it both see it."""

    until: float
    gone: bool = False
    started: bool = False

    def is_gone(self) -> bool:
        """Tell that nobody waits any more."""
        return self.gone


@dataclass(slots=True, eq=False)
class _Worker:
    thread: threading.Thread | None = None
    busy_since: float = 0.0
    given_up: bool = False


@dataclass(slots=True)
class _Order(Generic[Job, Done]):
    job: Job
    ticket: Ticket
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Done | str]"


@dataclass(slots=True, kw_only=True)
class Pool(Generic[Job, Done]):
    """Threads that do jobs, for one event loop."""

    work: Callable[[Job], Done]
    workers: int = 1
    deadline_seconds: float = 0.15
    waiting_most: int = 16
    """Jobs that may wait for a thread; beyond it they would miss their deadline anyway."""
    stuck_seconds: float = 5.0
    """How long a job may run before its thread is given up."""
    spare_threads: int = 4
    """How many threads may be given up at a time."""
    breaker: Breaker = field(default_factory=Breaker)
    """Open when work fails."""
    late: Breakers = field(default_factory=lambda: Breakers(Breaker))
    """One for each kind of work: open when it is not done in time. Large bodies that take too long
    say nothing about small ones."""
    on_error: Callable[[BaseException], None] = lambda _: None
    _orders: "queue.SimpleQueue[_Order[Job, Done] | None]" = field(
        default_factory=queue.SimpleQueue, init=False
    )
    _threads: list[_Worker] = field(default_factory=list, init=False)
    _given_up: list[_Worker] = field(default_factory=list, init=False)
    _closed: bool = field(default=False, init=False)

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self.workers):
            self._add_thread()

    def close(self) -> None:
        """Let the threads end with what they are doing."""
        self._closed = True
        for _ in self._threads:
            self._orders.put(None)

    @property
    def open_breakers(self) -> int:
        """How many breakers hold work back."""
        return self.breaker.is_open + self.late.open_ones

    async def run(self, make: Callable[[Ticket], Job], *, kind: object = "") -> Done | str:
        """Return what the work gave, or the reason why it gave nothing within the deadline.

        Work of one `kind` takes about the same time. When the caller is
        cancelled the job is told so.
        """
        if not self.late.allows(kind) or not self.breaker.allows():
            return Missed.OPEN
        self._replace_stuck()
        if self._orders.qsize() >= self.waiting_most or not self._threads:
            return Missed.SATURATED
        loop = asyncio.get_running_loop()
        ticket = Ticket(time.monotonic() + self.deadline_seconds)
        answer: asyncio.Future[Done | str] = loop.create_future()
        timer = loop.call_later(self.deadline_seconds, _settle, answer, Missed.LATE)
        self._orders.put(_Order(make(ticket), ticket, loop, answer))
        try:
            outcome = await answer
        finally:
            ticket.gone = True
            timer.cancel()
        if not isinstance(outcome, str):
            self.breaker.succeeded()
            self.late.succeeded(kind)
        elif outcome != Missed.LATE:
            self.breaker.failed()
        elif ticket.started:
            self.late.failed(kind)
        else:
            # Others were before it: too many, not broken.
            return Missed.SATURATED
        return outcome

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
                self._threads.remove(worker)
                self._given_up.append(worker)
                self._add_thread()

    def _serve(self, worker: _Worker) -> None:
        while not worker.given_up:
            order = self._orders.get()
            if order is None or self._closed:
                return
            ticket = order.ticket
            if ticket.gone:
                continue
            ticket.started = True
            worker.busy_since = time.monotonic()
            outcome: Done | str
            try:
                outcome = self.work(order.job)
            except BaseException as error:  # a panic in native code is no Exception
                self.on_error(error)
                outcome = Missed.FAILED
            worker.busy_since = 0.0
            if not ticket.gone:
                try:
                    order.loop.call_soon_threadsafe(_settle, order.answer, outcome)
                except RuntimeError:  # the loop is closed: nobody waits
                    return
            del order, outcome


def _settle(answer: "asyncio.Future[Done | str]", outcome: Done | str) -> None:
    if not answer.done():
        answer.set_result(outcome)
