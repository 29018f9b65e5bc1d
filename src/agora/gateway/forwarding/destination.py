"""Where a request is meant to go, and what it is answered where it goes nowhere."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.routes import Family, Route

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_CLIMBING = ("/../", "/./", "/..;", "%2e", "%2E")
"""What leads out of a folder, read once or, by a careless server, twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a request is meant to go, as far as its head says."""

    route: Route
    model: str | None
    """The model that the path names."""
    keys: frozenset[Family]
    """Whose keys it carries."""


def target_of(scope: Scope) -> str:
    """Return the path and query to forward, as the client wrote them.

    Raises:
        RefusedError: it is no plain path.
    """
    path = scope["path"]
    raw = (scope.get("raw_path") or path.encode()).decode("latin-1")
    if (
        any(step in f"{path}/" for step in _CLIMBING)
        or any(char in path for char in "\\\r\n\0")
        or any(char in raw for char in "# ")
    ):
        raise RefusedError(
            400, "path", "the request path has a character or a step such as .. that is not allowed"
        )
    query = scope["query_string"].decode("latin-1")
    return f"{raw}?{query}" if query else raw


def no_upstream(family: Family, keys: frozenset[Family], *, model: bool = False) -> RefusedError:
    """Return the refusal of a request that no upstream is meant by."""
    whose = f" with a key of {' and '.join(sorted(keys))}" if keys else ""
    return RefusedError(
        404,
        "no_upstream",
        f"no upstream of this gateway takes {family} requests{whose}"
        f"{' for this model' if model else ''}; add one to [[upstreams]] in its configuration "
        "file, or the key's provider to the credentials of one",
    )
