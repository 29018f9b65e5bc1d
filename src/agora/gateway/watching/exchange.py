"""One finished exchange: what is known of a request and its answer when both are over."""

from typing import NamedTuple

from agora.gateway.watching.redaction import model_name


class Exchange(NamedTuple):
    """What may be told about one request and its answer, once both are over. None of it is content.

    Lines, metrics, traces, figures and the journal read this and nothing else, whether the gateway
    or the filter in Envoy served the request.

    A tuple: there is one for each request, and a frozen dataclass of so many fields takes ten times
    as long to make.
    """

    route: str
    tenant: str
    upstream: str = ""
    family: str = ""
    """Whose API it is: openai or anthropic."""
    model: str = ""
    """As the client wrote it; logged only if the upstream accepted it."""
    status: int = 0
    """The answer's; 0 where none came."""
    rung: int = 2
    reason: str = ""
    rule: str = ""
    """The code of the rule that the client's own history breaks."""
    no_steps: bool = False
    """Whether it has many turns and no step was seen: the agent may act by text."""
    stream: bool = False
    resent: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    fresh: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    billed: bool = False
    """Whether the provider said what it cost: the four before are its counts."""
    dollars: float = 0.0
    """The price of those by the sheet."""
    dollars_saved: float = 0.0
    would_rung: int = 2
    would_reason: str = ""
    """What would have become of it, in shadow mode; empty where nothing was decided."""
    would_remove: int = 0
    """Tokens that an edit would have removed, in shadow mode."""
    would_save: float = 0.0
    """Dollars that it would have saved."""
    elided: str = ""
    """The numbers of the steps that an edit at this call elides, or would have elided."""
    arrived: int = 0
    """Of the tokens that were not sent, those left out as they arrived, at this call or before."""
    lost_blocks: int = 0
    """Thinking blocks that are no longer sent from this call on."""
    used_elided: int = 0
    """New steps that use a name which only elided steps have, in shadow mode."""
    rereads: int = 0
    """New steps that do again what an elided step did."""
    asked_again: tuple[str, ...] = ()
    """Of each of these, the form that the elided step was left in, and its tool."""
    elided_kinds: tuple[str, ...] = ()
    """The same of each step that was elided since the call before."""
    after_edit: int = 0
    """New steps after an edit: what the two before are counted among."""
    held_ms: float = 0.0
    """How long the gateway held the request."""
    first_byte_ms: float = 0.0
    first_chunk_ms: float = 0.0
    """From the request that was sent to the first piece of a streamed answer."""
    started_ns: int = 0
    """When it came, in nanoseconds since 1970."""
    ended_ns: int = 0
    error: str = ""
    """The kind of what went wrong, in one of our own words."""
    headers: tuple[tuple[str, str], ...] = ()
    """Request headers; those that are not on the list are left out when it is written."""
    traceparent: str = ""
    server: str = ""
    """The host of the upstream."""
    port: int = 0
    shadow: bool = False
    """Whether edits are decided on and not made."""
    whole: bool = True
    """Whether the answer was seen to its end; its duration is not known otherwise."""

    @property
    def logged_model(self) -> str:
        """The model's name if the upstream took it: a secret in its place is not one it serves."""
        return model_name(self.model) if 200 <= self.status < 300 else ""
