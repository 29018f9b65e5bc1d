"""How the processes of proxy and filter run."""

import asyncio
import gc
from contextlib import suppress
from typing import Any


def run(main: Any) -> None:
    """Run a coroutine on the fastest event loop available, until it ends or Ctrl-C."""
    collect_rarely()
    run_loop: Any = asyncio.run
    with suppress(ImportError):
        from uvloop import run as run_loop
    with suppress(KeyboardInterrupt):
        run_loop(main)


def collect_rarely() -> None:
    """Look for cycles rarely: few things are in any, and prompts are made of many objects.

    By default reading a prompt of 5 MB took 80 ms instead of 30 beside the memory of 200 others.
    """
    gc.set_threshold(200_000, 50, 50)
