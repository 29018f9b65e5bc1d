"""One request on its way: what is known of it so far."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora.experiment.assignment import Arm, Seat
from agora.gateway.config import Upstream
from agora.gateway.editing.conversation import ConversationState
from agora.gateway.editing.deciding import Prompt
from agora.gateway.editing.job import Edited
from agora.gateway.forwarding.destination import (
    Destination,
    Receive,
    Scope,
    Send,
    no_upstream,
)
from agora.gateway.forwarding.forwarder import Forwarder
from agora.gateway.intake.bodies import read_body, readable
from agora.gateway.intake.gate import Visit
from agora.gateway.intake.refused import RefusedError, say
from agora.gateway.routing.headers import request_headers
from agora.gateway.routing.routes import Header, Route
from agora.gateway.watching.bill import Sent
from agora.gateway.watching.usage import UsageReader


@dataclass(slots=True)
class InFlight:
    """One request on its way, and everything that was found out about it so far."""

    gateway: Forwarder
    scope: Scope
    receive: Receive
    send: Send
    route: Route
    destination: Destination
    visit: Visit
    tenant: str = ""
    body: bytes = b""
    """What the client sent, decompressed."""
    came: bytes = b""
    """The same, unchanged."""
    edited: Edited | None = None
    would: Edited | None = None
    """In shadow mode, what would have been sent."""
    deciding: "asyncio.Task[Edited | str] | None" = None
    conversation: ConversationState | None = None
    sent: Sent = field(default_factory=Sent)
    went_before: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    """What was known of the conversation before this call."""
    reason: str = ""
    upstream: Upstream | None = None
    model: str | None = None
    seat: Seat | None = None
    """Its place in an experiment, None where it is in no arm."""
    status: int = 0
    resent: bool = False
    lost_blocks: int = 0
    """Thinking blocks that this call lacks and the one before had."""
    held: float = 0.0
    first_byte: float = 0.0
    head_at: float = 0.0
    """When the answer began."""
    first_chunk: float = 0.0
    streamed: bool = False
    """Whether the answer comes as events."""
    error: str = ""
    reader: UsageReader | None = None
    quota: Mapping[str, str] = field(default_factory=dict)
    """What the answer's headers say of the provider's quota."""
    began: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    begun_answer: bool = False
    client_left: bool = False
    stopped: RefusedError | None = None
    """Why an upload ended before its end."""

    @property
    def shadow(self) -> bool:
        """Whether its edit is decided on and not made."""
        return self.gateway.shadow or (self.seat is not None and self.seat.arm is Arm.EVERYTHING)

    @property
    def made(self) -> Edited | None:
        """The edit that is sent; None where the client's own body is."""
        return self.edited if self.edited is not None and self.edited.changed else None

    @property
    def state(self) -> ConversationState | None:
        """Its conversation, or in shadow mode the one that would have been edited."""
        return self.conversation or (self.would.conversation if self.would is not None else None)

    async def read_body(self) -> None:
        """Read what the client sends, and take a slot for it."""
        headers, gateway, visit = self.scope["headers"], self.gateway, self.visit
        came = await read_body(headers, self.receive, gateway.bodies, visit.address, visit.tenant)
        if came is None:
            self.client_left = True
            self.error = "client_left"
            raise RefusedError(499, "client_left", "")
        self.visit.take()
        self.came = came
        self.body = await readable(came, headers, gateway.config.limits.body_bytes)

    async def watch(self, task: "asyncio.Task[Any]") -> None:
        """End the exchange when the client leaves."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.client_left = True
        task.cancel()

    def upstream_for(self, model: str | None) -> Upstream | None:
        """Return where a request for this model goes, None if nowhere."""
        model = model or self.destination.model
        return self.gateway.config.upstream_for(self.route.family, model, self.destination.keys)

    def headers_to_send(self, *, plain: bool) -> list[Header]:
        """Return the headers to forward; with a body of ours there is no encoding."""
        gateway = self.gateway
        without = gateway.without | {b"content-encoding"} if plain else gateway.without
        assert self.upstream is not None  # noqa: S101
        families = (*self.upstream.formats, *self.upstream.credentials)
        return request_headers(self.scope["headers"], gateway.also, without, families)

    async def refuse(self, refused: RefusedError) -> None:
        """Answer with a refusal of our own, if nothing was answered yet."""
        self.status = refused.status
        self.reason = refused.reason or self.reason
        if self.begun_answer or self.client_left:
            return
        self.begun_answer = True
        await say(self.send, self.route, refused)

    def route_to(self, model: str | None) -> None:
        """Choose the upstream by the model.

        Raises:
            RefusedError: no upstream is meant.
        """
        self.model = model
        self.upstream = self.upstream_for(model)
        if self.upstream is None:
            raise no_upstream(self.route.family, self.destination.keys, model=True)

    def prompt(self) -> Prompt:
        """Return what an edit is decided by."""
        return Prompt(
            body=self.body,
            route=self.route,
            sheet_of=self._sheet_of,
            window_of=self._window_of,
            model=self.destination.model,
            tenant=self.tenant,
            agent=header(self.scope["headers"], b"user-agent").decode("latin-1"),
        )

    def _sheet_of(self, model: str | None) -> PriceSheet:
        upstream = self.upstream_for(model)
        if upstream is None:
            # It goes nowhere; what it would cost there is nobody's price.
            return sheet_for(model or "", self.gateway.config.sheets)
        return self.gateway.sheet_of(upstream, model or self.destination.model)

    def _window_of(self, model: str | None) -> int | None:
        upstream = self.upstream_for(model)
        return None if upstream is None else self.gateway.sheet_of(upstream, model).window


def header(headers: list[Header], wanted: bytes) -> bytes:
    """Return the value of a header, empty where there is none."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""
