"""Worker processes for edits, which take tens of milliseconds to seconds of CPU.

Each worker is a `concurrent.futures` executor with one process, so that a late one can be replaced.
States of conversations are in the parent process. All calls of a conversation go to the same
worker, which caches token counts. Long bodies have their own worker. Owners take turns at each
worker, and all workers share one bounded queue.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, TypeVar
from zlib import crc32

from agora.compressor import Since
from agora.service.call import Call
from agora.service.edit import Editor
from agora.service.loop import collect_rarely
from agora.service.settings import Settings
from agora.session import Made

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
LONG_BYTES = 1 << 20
_HARD_SECONDS = 30.0
"""Seconds on one body after which a worker is replaced."""
_NICE = 5
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 60.0
_MAX_FAILURES, _MAX_NOTED = 2, 1_000


class LateError(Exception):
    """No result came in time; `reason` has the code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class _Job:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    answer: "asyncio.Future[Any]"

    @property
    def conversation(self) -> str:
        """The conversation that it is for, if it is for one."""
        call = self.arguments[0] if self.arguments else None
        return call.conversation if isinstance(call, Call) else ""


class Turns:
    """Jobs in a queue for each owner; owners take turns.

    >>> turns = Turns()
    >>> for owner, job in (("a", 1), ("a", 2), ("b", 3)): turns.put(owner, job)
    >>> [turns.take(), turns.take(), turns.take(), turns.take()]
    [1, 3, 2, None]
    """

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[Any]] = OrderedDict()

    def put(self, owner: str, job: Any) -> None:
        """Queue a job after the others of its owner."""
        self._queues.setdefault(owner, deque()).append(job)

    def take(self) -> Any:
        """Return the next job, None if there is none."""
        if not self._queues:
            return None
        owner, queue = self._queues.popitem(last=False)
        job = queue.popleft()
        if queue:
            self._queues[owner] = queue
        return job


@dataclass(slots=True)
class _Lane:
    """One worker and the jobs that wait for it."""

    turns: Turns = field(default_factory=Turns)
    executor: Executor | None = None
    pid: int = 0
    serving: "asyncio.Task[None] | None" = None
    pause: float = _MIN_PAUSE_SECONDS


class Workers:
    """Runs functions of `Editor` in worker processes. Lives on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lanes = [_Lane() for _ in range(max(1, settings.limits.workers))]
        self.waiting = 0
        """Jobs in the queue."""
        self.replaced = 0
        """Workers that were late or died, since the start."""
        self._failures: OrderedDict[str, int] = OrderedDict()
        """How many workers in a row a conversation's bodies ended."""

    async def start(self) -> None:
        """Start the first worker, so that the first request does not wait for it."""
        await self._run(self._lanes[0], "", ready, ())

    async def decide(self, call: Call, since: Since) -> Made:
        """Return a worker's decision on a call, given the facts since its last one.

        Raises:
            LateError: There was no room in the queue, no time, or the worker failed.
        """
        if self._failures.get(call.conversation, 0) >= _MAX_FAILURES:
            raise LateError("too_slow")
        lane = self._lane(call.conversation or call.owner, len(call.body))
        made = await self._in_time(lane, call.owner, decide, (call, since))
        if made is None:
            raise LateError("failed")
        return made

    async def compress(self, owner: str, body: bytes) -> tuple[int, bytes]:
        """Return the answer to `/v1/compress`, as its status and body.

        Raises:
            LateError: As for `decide`.
        """
        return await self._in_time(self._lane(owner, len(body)), owner, compress, (body,))

    async def close(self) -> None:
        """Stop all workers at once."""
        for lane in self._lanes:
            if lane.serving is not None:
                lane.serving.cancel()
            self._stop(lane)

    def _lane(self, key: str, size: int) -> _Lane:
        """Return the worker of a conversation; of several, the last one is for long bodies."""
        last = len(self._lanes) - 1
        if size > LONG_BYTES or not last:
            return self._lanes[last]
        return self._lanes[crc32(key.encode()) % last]

    async def _in_time(
        self,
        lane: _Lane,
        owner: str,
        function: Callable[..., Result],
        arguments: tuple[Any, ...],
    ) -> Result:
        if self.waiting >= self._settings.limits.queue:
            raise LateError("saturated")
        try:
            async with asyncio.timeout(self._settings.limits.deadline_ms / 1e3):
                return await self._run(lane, owner, function, arguments)
        except TimeoutError:
            raise LateError("late") from None

    async def _run(
        self,
        lane: _Lane,
        owner: str,
        function: Callable[..., Result],
        arguments: tuple[Any, ...],
    ) -> Result:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        lane.turns.put(owner, _Job(function, arguments, answer))
        self.waiting += 1
        if lane.serving is None or lane.serving.done():
            lane.serving = asyncio.create_task(self._serve(lane))
        return await answer

    async def _serve(self, lane: _Lane) -> None:
        """Do the jobs of a lane, one at a time, until there are none."""
        while (job := lane.turns.take()) is not None:
            self.waiting -= 1
            if job.answer.done():
                # The request has gone out; the conversation is edited at its next call.
                continue
            try:
                async with asyncio.timeout(_HARD_SECONDS):
                    result = await self._work(lane, job)
            except Exception as error:
                failed = LateError("late" if isinstance(error, TimeoutError) else "failed")
                if not job.answer.done():
                    job.answer.set_exception(failed)
                self._note_failure(job)
                await self._replace(lane, error)
            else:
                lane.pause = _MIN_PAUSE_SECONDS
                self._failures.pop(job.conversation, None)
                if not job.answer.done():
                    job.answer.set_result(result)

    async def _work(self, lane: _Lane, job: _Job) -> Any:
        if lane.executor is None:
            lane.executor = self._executor()
            # Get the id before there is work, so that a worker can always be stopped.
            lane.pid = await asyncio.wrap_future(lane.executor.submit(ready))
        return await asyncio.wrap_future(lane.executor.submit(job.function, *job.arguments))

    def _executor(self) -> Executor:
        if not self._settings.limits.workers:
            return ThreadPoolExecutor(1, initializer=_begin, initargs=(self._settings,))
        return ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin_process,
            initargs=(self._settings,),
        )

    def _note_failure(self, job: _Job) -> None:
        if job.conversation:
            self._failures[job.conversation] = self._failures.pop(job.conversation, 0) + 1
            if len(self._failures) > _MAX_NOTED:
                self._failures.popitem(last=False)

    async def _replace(self, lane: _Lane, error: Exception) -> None:
        """Stop a worker that failed; the next job starts another, after a pause that grows."""
        _log.warning("a worker is replaced: %s", type(error).__name__)
        self.replaced += 1
        self._stop(lane)
        await asyncio.sleep(lane.pause)
        lane.pause = min(2 * lane.pause, _MAX_PAUSE_SECONDS)

    @staticmethod
    def _stop(lane: _Lane) -> None:
        executor, lane.executor = lane.executor, None
        if executor is None:
            return
        executor.shutdown(wait=False, cancel_futures=True)
        if lane.pid and lane.pid != os.getpid():
            with suppress(OSError):
                os.kill(lane.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        lane.pid = 0


# The code below runs in a worker. Workers that are threads have an editor each.

_worker = threading.local()


def _begin(settings: Settings) -> None:
    _worker.editor = Editor(settings)


def _begin_process(settings: Settings) -> None:
    """Prepare a process: Ctrl-C is its parent's, other programs come first, and it ends with it."""
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _begin(settings)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)


def ready() -> int:
    """Return the id of the process."""
    return os.getpid()


def decide(call: Call, since: Since) -> Made | None:
    """Return `Editor.decide`, None if it fails."""
    try:
        made: Made = _worker.editor.decide(call, since)
    except Exception as error:
        # The name alone: the message of the error may quote the prompt.
        _log.warning("a decision failed with %s", type(error).__name__)
        return None
    return made


def compress(body: bytes) -> tuple[int, bytes]:
    """Return `Editor.compress`."""
    answer: tuple[int, bytes] = _worker.editor.compress(body)
    return answer
