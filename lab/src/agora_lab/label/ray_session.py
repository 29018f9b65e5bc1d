"""Ray, started for a run and stopped after it."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from agora.errors import AgoraError

_RAY_TIMEOUTS = {"worker_register_timeout_seconds": 300}
"""Ray's configurable timeouts, raised for busy machines."""
_STARTS = 3


class RunError(AgoraError):
    """A run that could not continue."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


@contextmanager
def started_ray(askers: int, options: Mapping[str, Any]) -> Iterator[None]:
    """Provide Ray: start it unless it is running, and stop it only if started here."""
    if ray.is_initialized():
        yield
        return
    local = {
        "address": "local",
        # Askers wait and writers are few: these are slots, not cores.
        "num_cpus": askers + 2,
        "object_store_memory": 256 * 2**20,
        "include_dashboard": False,
    }
    # Its native part writes to standard error regardless of the levels below.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    for name, seconds in _RAY_TIMEOUTS.items():
        os.environ.setdefault(f"RAY_{name}", str(seconds))
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    wanted = {**quiet, **({} if "address" in options else local), **options}
    for tries in range(1, _STARTS + 1):
        try:
            ray.init(**wanted)
            break
        except Exception as error:
            # Its parts have fixed start-up timeouts, which a busy machine may exceed.
            ray.shutdown()
            if tries == _STARTS:
                raise RunError(
                    f"Ray did not start in {tries} tries ({str(error).splitlines()[0]}); nothing "
                    "was asked: reduce the load on the machine and run the same command again"
                ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()
