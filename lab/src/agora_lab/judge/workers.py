"""The judge on several cores: one process each, forked with the model loaded.

Threads of one process wait for each other at every layer, and where other work shares the
machine they mostly wait. Processes do not, and the weights are in memory once.
"""

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from agora.errors import AgoraError
from agora_lab.judge.records import DrawnAnchor, Measured
from agora_lab.judge.run import Job, Judging, Schedule, Tick, work


class WorkerError(AgoraError):
    """A process of the judge that ended before its work."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return (
            f"a process of the judge ended with {self.code}; what it finished is written down, "
            "so run the same command again (with fewer processes if memory was short)"
        )


@dataclass(slots=True)
class _Sent:
    """A run that is written by another process."""

    connection: "Connection[Any, Any]"
    measured: dict[tuple[str, str, float | None], Measured]
    anchors: dict[str, DrawnAnchor] = field(default_factory=dict)

    def add(self, measured: Measured) -> None:
        """Send what was measured."""
        self.measured[measured.key] = measured
        self.connection.send(measured)

    def draw(self, anchor: DrawnAnchor) -> None:
        """Send an anchor."""
        self.anchors[anchor.anchor] = anchor
        self.connection.send(anchor)


def spread(judging: Judging, schedule: Schedule, processes: int, tick: Tick) -> None:
    """Do the work of a schedule in several processes; this one writes.

    Raises:
        WorkerError: one of them ended too early.
    """
    fork = multiprocessing.get_context("fork")
    found: dict[Any, Any] = {}
    # By default a process that is told to end leaves its children behind, at full speed.
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    for _ in range(processes):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_serve, args=(theirs, judging), daemon=True)
        process.start()
        theirs.close()
        found[ours] = process
    busy: set[Any] = set()
    try:
        while True:
            for connection in found:
                if connection not in busy and (job := schedule.next()) is not None:
                    connection.send(job)
                    busy.add(connection)
            if not busy:
                return
            for connection in wait(list(busy)):
                _take(connection, found, busy, judging, schedule, tick)
    finally:
        for process in found.values():
            process.terminate()
        signal.signal(signal.SIGTERM, before)


def _take(
    connection: Any,
    found: Mapping[Any, Any],
    busy: set[Any],
    judging: Judging,
    schedule: Schedule,
    tick: Tick,
) -> None:
    try:
        said = connection.recv()
    except EOFError:
        process = found[connection]
        process.join()
        raise WorkerError(process.exitcode) from None
    if isinstance(said, Measured):
        judging.run.add(said)
        label = said.method if said.keep is None else f"{said.method}@{said.keep:g}"
        tick(f"{said.anchor}: {label}{f', {said.error}' if said.error else ''}")
    elif isinstance(said, DrawnAnchor):
        judging.run.draw(said)
    else:
        busy.discard(connection)
        schedule.done(*said)


def _serve(connection: Any, judging: Judging) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    own = replace(judging, run=_Sent(connection, judging.run.measured, judging.run.anchors))
    for job in _jobs(connection):
        connection.send((job, work(own, job)))


def _jobs(connection: Any) -> Iterator[Job]:
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return
