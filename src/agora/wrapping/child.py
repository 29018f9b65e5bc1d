"""The proxy of `agora wrap`: `python -P -m agora.wrapping.child STATE PORT [DESCRIPTOR]`.

Settings and the upstreams' addresses come as one line of JSON on standard input, so that they are
not written to disk. Standard input stays open as long as `agora wrap` lives, and this process ends
with it.
"""

import asyncio
import json
import logging
import os
import sys
import threading
from pathlib import Path
from socket import socket as Socket  # noqa: N812 - a class in all but its letter

_STOP_SECONDS = 3.0


def main() -> None:
    """Serve until standard input ends."""
    # Not above: the proxy's workers import this module too.
    from agora.proxy import run, serve
    from agora.service import settings_from

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    line = json.loads(sys.stdin.buffer.readline())
    state, port, *descriptor = sys.argv[1:]

    async def main() -> None:
        serving = asyncio.ensure_future(
            serve(
                settings_from(line["settings"]),
                port=int(port),
                listening=Socket(fileno=int(descriptor[0])) if descriptor else None,
                state=Path(state),
                bases=line["upstreams"],
            )
        )
        loop = asyncio.get_running_loop()
        threading.Thread(target=_end_with_parent, args=(loop, serving), daemon=True).start()
        await asyncio.wait((serving,))
        if not serving.cancelled():
            serving.result()

    run(main())


def _end_with_parent(loop: asyncio.AbstractEventLoop, serving: "asyncio.Future[None]") -> None:
    while sys.stdin.buffer.read(1):
        pass
    # An unread answer must not keep the process alive.
    threading.Timer(_STOP_SECONDS, os._exit, (0,)).start()
    loop.call_soon_threadsafe(serving.cancel)


if __name__ == "__main__":
    main()
