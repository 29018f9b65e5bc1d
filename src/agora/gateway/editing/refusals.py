"""Where edits were refused: first one tenant's problem, the model's only when several have it."""

import time
from collections import OrderedDict
from collections.abc import Callable

from agora.gateway.editing.breakers import Breaker, Breakers

Place = tuple[str, str | None]
"""An upstream and a model."""


class Refusals:
    """Which edits are held back for now, because providers refused others like them.

    A refused edit holds back those of the same tenant, upstream and model. Those of everybody at
    that upstream and model are held back only after edits of several tenants were refused there
    with none accepted in between: one odd history must not switch compression off for all.

    >>> refusals = Refusals(tenants=2)
    >>> refusals.refused("t-1", ("anthropic", "claude-opus-5"))
    >>> refusals.allows("t-1", ("anthropic", "claude-opus-5"))
    False
    >>> refusals.allows("t-2", ("anthropic", "claude-opus-5"))
    True
    """

    def __init__(
        self,
        *,
        tenants: int = 3,
        cool_seconds: float = 60.0,
        most: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with nothing held back.

        Args:
            tenants: how many tenants' edits must be refused before everybody's are held back.
            cool_seconds: how long edits are held back before one is tried again.
            most: tenants and places that are remembered.
            clock: what tells the time.
        """

        def breaker() -> Breaker:
            return Breaker(failures=1, cool_seconds=cool_seconds, clock=clock)

        self._tenants = tenants
        self._most = most
        self._own = Breakers(breaker, most=most)
        self._shared = Breakers(breaker, most=most)
        self._refused_at: OrderedDict[Place, set[str]] = OrderedDict()

    def allows(self, tenant: str, place: Place) -> bool:
        """Tell whether an edit of this tenant may go there."""
        # The tenant's own first: a tenant that is held back must not use up the shared probe.
        return self._own.allows((tenant, place)) and self._shared.allows(place)

    def refused(self, tenant: str, place: Place) -> None:
        """Note an edit that was refused while its original was not."""
        self._own.failed((tenant, place))
        refused = self._refused_at.setdefault(place, set())
        self._refused_at.move_to_end(place)
        refused.add(tenant)
        if len(refused) >= self._tenants:
            self._shared.failed(place)
            # Enough is known; a place that refuses everyone does not collect all their names.
            while len(refused) > self._tenants:
                refused.pop()
        if len(self._refused_at) > self._most:
            self._refused_at.popitem(last=False)

    def accepted(self, tenant: str, place: Place) -> None:
        """Note an edit that was accepted."""
        self._own.succeeded((tenant, place))
        self._shared.succeeded(place)
        self._refused_at.pop(place, None)

    @property
    def open_ones(self) -> int:
        """How many breakers hold edits back."""
        return self._own.open_ones + self._shared.open_ones
