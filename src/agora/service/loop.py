"""How the processes of proxy and filter run."""

import asyncio
import gc
import sys
from contextlib import suppress
from typing import Any

_SWITCH_SECONDS = 0.0005


def run(main: Any) -> None:
    """Run a coroutine on the fastest event loop available, until it ends or Ctrl-C.

    Long prompts are read in threads. After each system call the loop waits for such a thread as
    long as the interpreter lets it run: by default 5 ms, ten or more times a request.
    """
    collect_rarely()
    sys.setswitchinterval(_SWITCH_SECONDS)
    run_loop: Any = asyncio.run
    with suppress(ImportError):
        from uvloop import run as run_loop
    with suppress(KeyboardInterrupt):
        run_loop(main)


def collect_rarely() -> None:
    """Look for cycles rarely: few things are in any, and prompts are made of many objects.

    By default reading a prompt of 5 MB took 80 ms instead of 30 beside the memory of 200 others.
    """
    gc.set_threshold(50_000, 20, 20)
