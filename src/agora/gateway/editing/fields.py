"""What a body says besides its messages, as far as an edit depends on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.core.request import Request
from agora.gateway.body import Span, decode
from agora.gateway.editing.job import Job
from agora.gateway.editing.lifetimes import NOTHING_KNOWN, Known, NewestMark, newest_mark, ttl_in
from agora.gateway.routing.routes import Route


@dataclass(frozen=True, slots=True)
class Read:
    """What one look at a body gave."""

    spans: dict[str, Span]
    span: Span
    model: str | None
    stream: bool
    ttl: str | None
    """The time to live that it asks of the provider's cache, None for the usual one."""
    key: tuple[object, ...]
    """Everything an edit depends on besides the messages."""
    mark: NewestMark | None = None
    """The last mark for the cache in the messages; None where nobody asks."""

    @property
    def before(self) -> dict[str, Span]:
        """The fields before the messages."""
        return {name: place for name, place in self.spans.items() if place[1] <= self.span[0]}


def read_fields(job: Job, spans: dict[str, Span], span: Span, known: Known = NOTHING_KNOWN) -> Read:
    """Return what the fields besides the messages, which are at `span`, say."""
    fields = job.route.fields
    model = text_at(job.body, spans.get(fields.model)) or job.model
    stream = _is_true(job.body, spans.get("stream"))
    ttl = mark = None
    if job.sheet_of(model).lifetimes:
        mark = newest_mark(job.body, *span, known)
        ttl = ttl_in(job.body, spans, (*fields.system, *fields.tools), mark)
    return Read(spans, span, model, stream, ttl, (*_key(job, spans, model), ttl), mark)


def read_prompt(body: bytes, read: Read, route: Route, messages: Sequence[Any]) -> Request:
    """Return the request in a body whose messages were decoded, as its format reads it."""
    fields = route.fields
    beside = {name: value_at(body, read.spans.get(name)) for name in fields.beside}
    return fields.request(route.format, {**beside, fields.messages: messages})


def is_server_side(body: bytes, spans: Mapping[str, Span], route: Route) -> bool:
    """Tell whether the provider holds the history."""
    return any(value_at(body, spans.get(name)) for name in route.fields.server_side)


def value_at(body: bytes, span: Span | None) -> Any:
    """Return the value at a place, None where there is none."""
    return None if span is None else decode(memoryview(body)[span[0] : span[1]])


def text_at(body: bytes, span: Span | None) -> str | None:
    """Return the text at a place, None where there is none."""
    value = value_at(body, span)
    return value if isinstance(value, str) else None


def _key(job: Job, spans: Mapping[str, Span], model: str | None) -> tuple[object, ...]:
    """Return everything an edit depends on besides the messages."""
    view = memoryview(job.body)
    options = tuple(
        hash(view[spans[name][0] : spans[name][1]]) if name in spans else None
        for name in job.route.fields.beside
    )
    return (job.tenant, job.route.format, model, options)


def _is_true(body: bytes, span: Span | None) -> bool:
    return span is not None and body[span[0] : span[1]] == b"true"
