"""A request body in, a body out: what proxy and filter share.

`Service` is the path of a request; it needs an event loop and carries no bytes itself:

    service = Service(load_settings(path))
    await service.start()
    route = route_of(method, path)                     # None: forward it untouched
    service.why_not(route, headers, size)              # a reason: the body need not be read
    call = service.receive(route, headers, body)       # -> Call
    edited = await service.edit(call)                  # -> Edited; send edited.body
    again = await service.rescue(call, edited, status, refusal)   # -> Edited, once, or None
    service.finish(call, edited, Outcome(status=200, usage=stream.usage()))
    await service.close()

Headers are mappings with names in lower case. A caller that cannot read a refusal's body leaves
`refusal` out; the filter names conversations for Envoy by `service.affinity(...)`.

Inside, in the order of the path: `routes` (the path of a URL), `owners` (tenant and conversation),
`agora.Session` decides on known calls and knows how each was sent, `workers` (processes) run `edit`
(the decision on the others), `prompt` writes the body, `standdown`, `metrics` and `account` keep
the sums.
"""

from agora.errors import MissingExtraError

try:
    import msgspec as _msgspec  # noqa: F401
    import prometheus_client as _prometheus_client  # noqa: F401
except ImportError as error:
    raise MissingExtraError(__name__, "gateway") from error

from agora.formats.usage_stream import UsageStream, readable_encodings
from agora.service.account import Account
from agora.service.call import Call, Edited, Outcome
from agora.service.inflate import inflate
from agora.service.metrics import CONTENT_TYPE
from agora.service.routes import FAMILIES, Family, Route, error_body, route_of
from agora.service.service import REFUSED, Service
from agora.service.settings import Settings, SettingsError, load_settings, settings_from

__all__ = [
    "CONTENT_TYPE",
    "FAMILIES",
    "REFUSED",
    "Account",
    "Call",
    "Edited",
    "Family",
    "Outcome",
    "Route",
    "Service",
    "Settings",
    "SettingsError",
    "UsageStream",
    "error_body",
    "inflate",
    "load_settings",
    "readable_encodings",
    "route_of",
    "settings_from",
]
