"""The gateway's process under `agora wrap`: `python -P -m agora.wrapping.child FILE_DESCRIPTOR`.

Its configuration comes as one line of JSON on standard input, so that nothing of it is written
anywhere. Standard input stays open as long as whoever started it lives: when it ends, so does this.
"""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from socket import socket as Socket  # noqa: N812 - a class in all but its letter

from agora.gateway.config import Config, config_of

_DRAIN_SECONDS = 1


def main() -> None:
    """Serve on the socket that was handed down, until standard input ends."""
    config = config_of(json.loads(sys.stdin.buffer.readline()))
    # No load balancer has to notice first, and nobody waits for an answer any more.
    limits = replace(config.limits, settle_seconds=0, drain_seconds=_DRAIN_SECONDS)
    config = replace(config, limits=limits)
    listening = Socket(fileno=int(sys.argv[1]))
    listening.setblocking(False)
    from agora.gateway.server import run_one

    threading.Thread(target=_end_with_parent, daemon=True).start()
    run_one(config, listening, lambda: _same(config))


def _same(config: Config) -> Config:
    return config


def _end_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    # The agent has ended, perhaps before its last call was counted: what is under way is finished
    # as at any stop, and streams that nobody reads are not waited for.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_DRAIN_SECONDS + 1)
    os._exit(0)


if __name__ == "__main__":
    main()
