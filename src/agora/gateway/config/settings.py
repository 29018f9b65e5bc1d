"""Every setting of the gateway: its name, its type, its bounds and what it is for."""

from dataclasses import dataclass
from typing import Annotated, Literal

from agora.core.request import Observations
from agora.core.schedule import CEILING, MIN_TOKENS
from agora.experiment.assignment import MOST_SHARE
from agora.experiment.rules import STOP_WHEN
from agora.gateway.config.addresses import server_of
from agora.gateway.config.table import Between, Formerly

Format = Literal["openai", "anthropic", "gemini", "azure", "bedrock"]
FORMATS: tuple[Format, ...] = ("openai", "anthropic", "gemini", "azure", "bedrock")
MIB = 1 << 20
RECALL_AGENTS = ("claude-cli/", "QwenCode/")
"""How the User-Agent of an agent begins that hands a call of a tool it does not know back under
the tool's own name, with an error for an answer. opencode renames such a call, so that markers
would advertise a tool that fails."""
NEVER_FORWARDED = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade http2-settings host content-length expect".split()
)
"""Hop-by-hop headers (RFC 9110, 7.6.1), and those set again for each hop:
no setting makes these be forwarded."""
_SAID_TWICE = ("/openai/v1", "/v1", "/openai", "/v1beta")
"""What may stand at the end of a base URL and at the beginning of a path, and is meant once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A server that requests may be forwarded to."""

    name: str
    """What metrics and logs call it; the host where the file does not say."""
    base_url: str
    """Where it is, without a slash at the end. `/v1` may stand there or not."""
    formats: tuple[Format, ...]
    """Whose shapes of request it takes."""
    credentials: tuple[Format, ...] = ()
    """Whose keys it takes; by default those of its formats."""
    models: tuple[str, ...] = ("*",)
    """Names of models it serves, with `*` and `?`; the first upstream that fits is taken."""
    prices: str | None = None
    """The price sheet of everything sent there; by default that of each request's model."""
    proxy: str | None = None
    """The HTTP proxy through which it is reached; None if directly. The environment's proxies are
    not asked: a gateway for many must not depend on the shell that it was started in."""
    connect_timeout_s: Annotated[float, Between(0.1, 300)] = 10.0
    first_byte_timeout_s: Annotated[float, Between(1, 86_400)] = 600.0
    """How long it may think before its answer begins."""
    idle_timeout_s: Annotated[float, Between(1, 86_400)] = 600.0
    """How long it may pause within an answer."""

    def url(self, target: str) -> str:
        """Return the address for a path (and query) that a client asked the gateway for.

        The result always begins with `base_url` and a slash, so that nothing a
        client writes can lead to another host.

        >>> openai = Upstream(name="o", base_url="https://o.test/v1", formats=("openai",))
        >>> openai.url("/v1/chat/completions?beta=1")
        'https://o.test/v1/chat/completions?beta=1'
        >>> anthropic = Upstream(name="a", base_url="https://a.test", formats=("anthropic",))
        >>> anthropic.url("/v1/messages")
        'https://a.test/v1/messages'

        Raises:
            ValueError: the target is no path.
        """
        if not target.startswith("/"):
            raise ValueError(f"{target[:40]!r} is not a path; a path begins with /")
        for end in _SAID_TWICE:
            if self.base_url.endswith(end) and (
                target == end or target.startswith((f"{end}/", f"{end}?"))
            ):
                return self.base_url + target[len(end) :]
        return self.base_url + target

    @property
    def server(self) -> tuple[str, int]:
        """Its host and port.

        >>> Upstream(name="o", base_url="https://o.test/v1", formats=("openai",)).server
        ('o.test', 443)
        """
        return server_of(self.base_url)

    def takes(self, format: Format, keys: frozenset[Format] = frozenset()) -> bool:
        """Return whether it takes the shape of a request, and every key the request carries."""
        return format in self.formats and keys <= set(self.credentials or self.formats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process takes on before it says no."""

    body_bytes: Annotated[int, Between(1_024, 1 << 30)] = 32 * MIB
    """A longer request body is answered with 413."""
    depth: Annotated[int, Between(8, 500)] = 64
    """JSON nested more deeply is answered with 400."""
    head_bytes: Annotated[int, Between(1_024, 1 << 20)] = 64 * 1024
    """A longer head (target and headers) is answered with 431."""
    headers: Annotated[int, Between(16, 10_000)] = 128
    """More headers are answered with 431."""
    head_seconds: Annotated[float, Between(0.5, 600)] = 10.0
    """How long a client may take to send a head; then 408."""
    body_seconds: Annotated[float, Between(0.5, 3_600)] = 60.0
    """How long it may take to send a body; then 408."""
    connections: Annotated[int, Between(16, 1_000_000)] = 4_096
    """Connections at a time; above it those that wait for a request are closed, oldest first."""
    concurrent: Annotated[int, Between(1, 100_000)] = 256
    """Requests at a time; above it 503 with Retry-After."""
    concurrent_per_address: Annotated[int, Between(0, 100_000)] = 0
    """Of those, from one client address; above it 429. 0 stands for seven eighths."""
    compress_deadline_ms: Annotated[int, Between(1, 60_000)] = 200
    """How long a request is held for an edit that is due, if that is likely to be ready by then.
    Otherwise the last edit goes on at once, and the new one is finished for the calls to come. An
    edit is due once in ten to thirty calls and takes 50 to 150 ms of CPU, on a busy machine several
    times that; each call that it is late costs money."""
    restore_deadline_ms: Annotated[int, Between(1, 60_000)] = 2_000
    """The same for a conversation that this process does not know, after a restart or from another
    replica. It may have been edited before, and sending all of it would cost more than waiting. One
    of more than about a megabyte for each second is not waited for."""
    drain_seconds: Annotated[int, Between(0, 86_400)] = 120
    """How long open streams may continue after the order to stop."""
    settle_seconds: Annotated[int, Between(0, 600)] = 3
    """How long of it new requests are still taken, while /readyz says no and others hear of it."""

    @property
    def per_address(self) -> int:
        """Requests at a time from one address."""
        return self.concurrent_per_address or max(1, self.concurrent * 7 // 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Somebody who may use the gateway, and by which token that is known."""

    name: str
    """Its tenant's name in metrics and logs."""
    sha256: str
    """The SHA-256 of its token, in 64 hexadecimal digits."""
    concurrent: Annotated[int, Between(0, 100_000)] = 0
    """Its requests at a time; 0 for what every tenant may have."""
    requests_per_minute: Annotated[int, Between(0, 1_000_000)] = 0
    """Its requests a minute; 0 for what every tenant may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """How requests are compressed, and which are not."""

    enabled: bool = True
    """The main switch: when off, every request is forwarded unchanged."""
    mode: Literal["edit", "shadow", "experiment"] = "edit"
    """In shadow every request is forwarded unchanged too, but edits are decided on and counted:
    metrics say what they would have saved, and whether what they elide was used afterwards. In an
    experiment some conversations are edited, as many are compared with them, and the rest is
    forwarded unchanged."""
    scorer: str = "default"
    """A scorer's name, or the folder of a bundle that `agora train` wrote."""
    min_tokens: Annotated[int, Between(0, 10_000_000), Formerly("least_tokens")] = MIN_TOKENS
    """A smaller body is forwarded unchanged and unread. There is little to elide in so short a
    prompt, and most providers cache nothing under 1,024 tokens anyway."""
    ceiling: Annotated[float, Between(1, float("inf"))] = CEILING
    """The most that a conversation's bill may be at any of its calls, as a ratio to never editing;
    `inf` for no limit."""
    keep_ratio: Annotated[float, Between(0, 1)] = 0.25
    k_recent: Annotated[int, Between(0, 1_000)] = 2
    lines: bool = True
    """Whether an elided step leaves a line with the names it brought. Without lines, and with the
    scorer `recency`, no text is read at all: the least that compressing can cost."""
    keep_tools: tuple[str, ...] = ()
    """Tools whose steps are always kept whole."""
    changing_tools: tuple[str, ...] = ()
    """Tools that change something, whatever they are called: their steps always leave a line. What
    a request's own tools say of themselves (`readOnlyHint`) comes first."""
    reading_tools: tuple[str, ...] = ()
    """Tools that only read, whatever they are called: their steps may be left out."""
    repeats: bool = False
    """Whether lines that an earlier result shows arrive as a reference to it. Every call is read in
    full then, also small ones: whether a result repeats lines depends on all before it."""
    schedule: Literal["by_price", "every_call"] = "by_price"
    """`every_call` is for a server without a prefix cache; elsewhere it raises the bill."""
    observations: Observations | None = None
    """`user` for agents that act by text, whose observations come as user messages in no frame that
    is known; `none` if no user message is ever an observation."""
    workers: Annotated[int, Between(1, 256)] = 1
    """Threads or processes of a gateway process that compress."""
    drop_block: bool = False
    """On Claude models that bind thinking to the prefix: whether the provider is asked to drop
    what does not hold (`drop_block`, with its beta header) where a conversation was not begun here.
    Without it such a request is sent as it is and, if refused, once more without thinking. The
    filter in Envoy cannot send twice and asks in any case."""
    memory_mb: Annotated[int, Between(16, 65_536)] = 256
    """What a process may remember of conversations and of texts that it has read. Beyond it, the
    least recently used is forgotten and read again; a conversation whose first edit comes when all
    of it is taken by others is forwarded unchanged, to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Who takes part in an experiment, and when it stops; for `compression.mode = "experiment"`."""

    name: str = "experiment"
    """Arms are drawn by it: another name draws anew, and needs another folder."""
    folder: str | None = None
    """Where its figures are written; processes of one gateway share it. No prompt and no key."""
    share: Annotated[float, Between(0, MOST_SHARE)] = 0.05
    """Of all conversations, how many are edited; as many are compared with them. Raising it moves
    none from one arm to the other."""
    header: str = "x-agora-conversation"
    """A header by which calls of one conversation are known. Without it, they are those that begin
    with the same words of the user."""
    models: tuple[str, ...] = ("*",)
    """Models that take part, with `*` and `?`."""
    tenants: tuple[str, ...] = ("*",)
    """Tenants that take part, with `*` and `?`."""
    idle_minutes: Annotated[float, Between(0.01, 10_080)] = 30.0
    """A conversation without a call for so long is over, and counts."""
    stop_when: tuple[str, ...] = STOP_WHEN
    """Harm bounds: when one is surely passed, editing stops for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """How tenants are identified, and when compressing stops for one that loses money by it."""

    header: str | None = None
    """A header that names the tenant. Only behind a proxy that sets it: clients can forge it.
    Without one, a tenant is a keyed hash of the client's API key."""
    affinity_header: str | None = None
    """The header that the filter in Envoy sets to a key of each conversation, so that a route's
    `hash_policy` sends all of its calls to one replica. Without one, none is set."""
    secret_env: str = "AGORA_TENANT_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable with the key of that hash. Without it each start draws one, and
    a tenant's name changes with it."""
    max_named: Annotated[int, Between(1, 100_000), Formerly("most")] = 200
    """Tenants that metrics name; the others are counted together."""
    concurrent: Annotated[int, Between(0, 100_000)] = 0
    """Requests of one tenant at a time; above it 429. 0 stands for seven eighths of
    `limits.concurrent`."""
    requests_per_minute: Annotated[int, Between(0, 1_000_000)] = 0
    """Requests of one tenant a minute; above it 429 with Retry-After. 0 sets no limit."""
    burst: Annotated[int, Between(1, 1_000_000)] = 20
    """How many of them may come at once after a pause."""
    stand_down: bool = True
    window_requests: Annotated[int, Between(10, 1_000_000)] = 1_000
    """Stand down when the net saving over so many requests is negative."""
    rest_seconds: Annotated[float, Between(1, 31_536_000)] = 3_600.0
    """How long a first stand-down lasts; each one that follows, twice as long."""
    longest_rest_seconds: Annotated[float, Between(1, 31_536_000)] = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"
    headers: tuple[str, ...] = (
        "content-type",
        "content-length",
        "user-agent",
        "x-request-id",
        "request-id",
    )
    """The request and answer headers whose values may be written; of others not even names."""
    requests: bool = True
    """Whether each request gets a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Whether an OpenTelemetry collector is told about requests. It never gets content."""

    endpoint: str | None = None
    """Where OTLP over HTTP is taken, for instance http://127.0.0.1:4318; None sends nothing."""
    service_name: str = "agora-gateway"
    sample_ratio: Annotated[float, Between(0, 1)] = 1.0
    """Of requests whose client began no trace, the share that become spans; metrics count all."""
    metrics: bool = True
    """Whether metrics are sent there too, once a minute; a collector for traces alone refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Whether prompts are kept on disk, for labels. Nothing is unless a folder is named."""

    folder: str | None = None
    """Where each process writes a file of its own, which only its user can read."""
    max_mb: Annotated[int, Between(1, 1 << 20), Formerly("most_mb")] = 1_024
    """What one process may write between start and end. Every call writes its whole history."""
