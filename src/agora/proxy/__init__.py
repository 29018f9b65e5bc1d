"""A proxy on loopback for one person: prompts are shortened, everything else is unchanged.

`serve` runs it until it is cancelled; `agora proxy` and `agora wrap` start it. It listens on
127.0.0.1 only and has one owner. Keys pass through and are never stored.
"""

from agora.errors import MissingExtraError

try:
    import aiohttp as _aiohttp  # noqa: F401
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

from agora.proxy.server import HOST, Proxy, serve
from agora.service.loop import run

__all__ = ["HOST", "Proxy", "run", "serve"]
