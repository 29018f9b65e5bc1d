"""Runs many independent tasks on Ray: on this machine's cores, or on a cluster.

    with on_ray.connect(address):
        for outcome in on_ray.run(play_episode, tasks):
            ...

The same two calls serve a laptop and a cluster. A task is a picklable value, and its function is
importable on every node. Ray runs a task again from the start if its node is lost, so a task writes
to files what must survive.
"""

import logging
import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError

from agora import AgoraError

T = TypeVar("T")
R = TypeVar("R")

_OBJECT_STORE_BYTES = 200 << 20
"""Shared memory of a Ray started here. Tasks and results are small."""
_STARTS = 3
_REACH_S = 20
_SETTINGS = {
    # A worker on a busy machine may need minutes to import its libraries.
    "RAY_worker_register_timeout_seconds": "300",
    # Silences a warning about a coming change that concerns machines with GPUs.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class ConnectionFailedError(AgoraError):
    """Ray did not start here, or the cluster at an address did not accept the connection."""

    def __init__(self, address: str | None, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        if self.address is None:
            return f"Ray did not start on this machine in {_STARTS} attempts: {self.problem}"
        return (
            f"no connection to the Ray cluster at {self.address}: {self.problem}; check the "
            "address (--ray or RAY_ADDRESS), that the cluster runs, and its Ray version"
        )


@contextmanager
def connect(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Connect to Ray for the length of a `with` block.

    The cluster is the one at `address`, else at `RAY_ADDRESS`. Without either, Ray starts on this
    machine and stops at the end. A connection that the process already has is used and kept.

    Args:
        address: The cluster's address, as `ray.init` takes it.
        cpus: How many cores a Ray started here uses; all by default. Clusters know their own.

    Raises:
        ConnectionFailedError: Ray did not start, or the cluster did not answer.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    _init(address, cpus)
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Open and close a connection: Ray itself retries for minutes before it reports a failure.

    Raises:
        ConnectionFailedError: Nothing listens at the address.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():  # A word that Ray knows, such as `auto` or `local`.
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S).close()
    except OSError as error:
        raise ConnectionFailedError(address, str(error)) from error


def _init(address: str | None, cpus: int | None) -> None:
    if address:
        _reach(address)
    attempts = 1 if address else _STARTS
    for attempt in range(1, attempts + 1):
        try:
            if address:
                ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
            else:
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                )
        except Exception as error:
            # Ray's own processes have fixed start-up limits, which a busy machine may exceed.
            ray.shutdown()
            if attempt == attempts:
                problem = (str(error).splitlines() or [type(error).__name__])[0]
                raise ConnectionFailedError(address, problem) from error
        else:
            return


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """The result of a task."""

    task: T
    value: R | None
    """The function's result; None if it failed."""
    error: str = ""
    """Why there is no value: the function's exception, or the loss of every process it had."""


def run(
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    cpus: float = 1,
    gpus: float = 0,
    attempts: int = 3,
    in_flight: int | None = None,
    tick: Callable[[], None] | None = None,
) -> Generator[Outcome[T, R], None, None]:
    """Run the function on each task and yield the outcomes as they come.

    A task whose process or node is lost runs again. An exception of the function is an outcome:
    it is not tried again. Closing the iterator cancels what is still running.

    Args:
        function: The function to run, with one argument.
        tasks: The arguments; they are taken as there is room.
        cpus: The cores a task takes.
        gpus: The GPUs a task takes.
        attempts: How often a task whose process is lost runs in all.
        in_flight: Most tasks given to Ray at once; by default twice the cluster's cores.
        tick: Called about once a second while tasks run, for progress inside of tasks.
    """
    remote = ray.remote(function).options(num_cpus=cpus, num_gpus=gpus, max_retries=attempts - 1)
    waiting = iter(tasks)
    running: dict[ray.ObjectRef[R], T] = {}
    more = True
    try:
        while more or running:
            room = (in_flight or _room(cpus)) - len(running)
            while more and room > 0:
                try:
                    task = next(waiting)
                except StopIteration:
                    more = False
                    break
                running[remote.remote(task)] = task
                room -= 1
            if running:
                ready, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
                if not ready:
                    ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                for ref in ready:
                    yield _outcome(ref, running.pop(ref))
            if tick is not None:
                tick()
    finally:
        for ref in running:
            with suppress(RayError):
                ray.cancel(ref, force=True)


def _room(cpus: float) -> int:
    """Return the number of tasks that keep the cluster busy, with as many in its queue."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(2, 2 * int(resources.get("CPU", 1) / max(cpus, 0.01)))


def _outcome(ref: "ray.ObjectRef[R]", task: T) -> Outcome[T, R]:
    try:
        return Outcome(task, ray.get(ref))
    except RayTaskError as error:
        cause = error.cause
        return Outcome(task, None, f"{type(cause).__name__}: {cause}")
    except RayError as error:
        first = (str(error).splitlines() or [""])[0]
        return Outcome(task, None, f"its process was lost: {type(error).__name__}: {first}")
