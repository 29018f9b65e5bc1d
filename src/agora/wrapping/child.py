"""The gateway's process under `agora wrap`: `python -P -m agora.wrapping.child FILE_DESCRIPTOR`.

Its configuration comes as one line of JSON on standard input, so that nothing of it is written
anywhere. Standard input stays open as long as whoever started it lives: when it ends, so does this.
"""

import json
import os
import sys
import threading
from socket import socket as Socket  # noqa: N812 - a class in all but its letter

from agora.gateway.config import Config, config_of


def main() -> None:
    """Serve on the socket that was handed down, until standard input ends."""
    config = config_of(json.loads(sys.stdin.buffer.readline()))
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
    # At once: the agent has ended, and nobody is left to stream to.
    os._exit(0)


if __name__ == "__main__":
    main()
