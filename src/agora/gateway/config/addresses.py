"""Hosts and addresses, as far as a configuration is judged by them."""

import ipaddress
import re
from functools import lru_cache
from urllib.parse import urlsplit


@lru_cache(maxsize=256)
def server_of(url: str) -> tuple[str, int]:
    """Return the host and port of an address.

    >>> server_of("https://o.test/v1")
    ('o.test', 443)
    """
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def url_problem(url: str) -> str:
    """Return what is wrong with an upstream's address, or nothing."""
    shown = repr(url)
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or 0 < parts.port < 65_536
    except ValueError:
        return f"is {shown}, which is not an address"
    if "@" in parts.netloc:
        return "has a user name or password before the host; keys come with each request"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
        return f"is {shown}, which is not an http or https address"
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return f"is {shown}; it must not contain ? or #"
    if any(ord(char) <= 32 or ord(char) == 127 for char in url) or "\\" in url:
        return f"is {shown}, which has characters that are not allowed in an address"
    return ""


def is_http_proxy(url: str) -> bool:
    """Tell whether an address is that of an HTTP proxy."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and bool(parts.hostname)
    except ValueError:
        return False


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]*)(?::[0-9]{1,5})?")


def host_name(host: str) -> str | None:
    """Return a Host header without its port, in small letters; None if it is no host and port.

    >>> host_name("Localhost:8484"), host_name("localhost:1@evil.test")
    ('localhost', None)
    """
    found = _HOST.fullmatch(host.strip().lower())
    return None if found is None else found[1]


def is_address(name: str) -> bool:
    """Tell whether a host is an address in digits."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine itself."""
    return host in ("localhost", "::1", "[::1]") or host.startswith("127.")
