"""The gateway's configuration: one TOML file, read into immutable values.

Three lines are enough:

    [[upstreams]]
    base_url = "https://api.openai.com/v1"
    formats = ["openai"]

Where requests may go stands in this file and nowhere else: no header, path or
body can name another host. No key stands in it: those of the clients go through.
"""

import ipaddress
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from agora.core.prices import PriceSheet, load_sheets, sheet_for, shipped_sheets
from agora.core.request import Observations
from agora.core.schedule import LEAST_TOKENS
from agora.errors import AgoraError, PriceSheetError, nearest
from agora.scorers.built_in import NAMES
from agora.scorers.bundle import MANIFEST

Format = Literal["openai", "anthropic", "gemini", "azure", "bedrock"]
FORMATS: tuple[Format, ...] = ("openai", "anthropic", "gemini", "azure", "bedrock")
MIB = 1 << 20
RECALL_AGENTS = ("claude-cli/", "QwenCode/")
"""How the User-Agent of an agent begins that hands a call of a tool it does not know back under
the tool's own name, with an error for an answer. opencode renames such a call, so that markers
would advertise a tool that fails."""
_SAID_TWICE = ("/openai/v1", "/v1", "/openai", "/v1beta")
"""What may stand at the end of a base URL and at the beginning of a path, and is meant once."""


OWN_SERVER = "self-hosted-cached"
"""The sheet of a server of one's own with a prefix cache, as llama.cpp, vLLM and SGLang have."""
_OWN_SERVER: Mapping[str, Any] = {
    "like": "self-hosted",
    "read": 0.02,
    "ttl_seconds": 86_400,
    "source": "a cached token costs no evaluation, only its share of attention and of memory",
}


class ConfigError(AgoraError):
    """A configuration that cannot be used: every problem, each with its place."""

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        super().__init__(file, tuple(problems))
        self.file = file
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {problem}" for problem in self.problems)


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
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 600.0
    """How long it may think before its answer begins."""
    idle_timeout_s: float = 600.0
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
        return _server(self.base_url)

    def takes(self, format: Format, keys: frozenset[Format] = frozenset()) -> bool:
        """Return whether it takes the shape of a request, and every key the request carries."""
        return format in self.formats and keys <= set(self.credentials or self.formats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process takes on before it says no."""

    body_bytes: int = 32 * MIB
    """A longer request body is answered with 413."""
    depth: int = 64
    """JSON nested more deeply is answered with 400."""
    head_bytes: int = 64 * 1024
    """A longer head (target and headers) is answered with 431."""
    headers: int = 128
    """More headers are answered with 431."""
    head_seconds: float = 10.0
    """How long a client may take to send a head; then 408."""
    body_seconds: float = 60.0
    """How long it may take to send a body; then 408."""
    connections: int = 4_096
    """Connections at a time; above it those that wait for a request are closed, oldest first."""
    concurrent: int = 256
    """Requests at a time; above it 503 with Retry-After."""
    concurrent_per_address: int = 0
    """Of those, from one client address; above it 429. 0 stands for seven eighths."""
    compress_deadline_ms: int = 500
    """How long a request is held for an edit that is due; then the last edit goes on, and the new
    one is finished for the next call. An edit is due once in ten to thirty calls and takes 50 to
    150 ms of CPU, on a busy machine several times that; each call that it is late costs money."""
    restore_deadline_ms: int = 2_000
    """The same for the call after a late one, and for a conversation that this process does not
    know, after a restart or from another replica. It may have been edited before, and sending all
    of it would cost more than waiting."""
    drain_seconds: int = 120
    """How long open streams may continue after the order to stop."""
    settle_seconds: int = 3
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
    concurrent: int = 0
    """Its requests at a time; 0 for what every tenant may have."""
    requests_per_minute: int = 0
    """Its requests a minute; 0 for what every tenant may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """How requests are compressed, and which are not."""

    enabled: bool = True
    """The main switch: when off, every request is forwarded unchanged."""
    mode: Literal["edit", "shadow"] = "edit"
    """In shadow every request is forwarded unchanged too, but edits are decided on and counted:
    metrics say what they would have saved, and whether what they elide was used afterwards."""
    scorer: str = "default"
    """A scorer's name, or the folder of a bundle that `agora train` wrote."""
    least_tokens: int = LEAST_TOKENS
    """A smaller body is forwarded unchanged and unread. There is little to elide in so short a
    prompt, and most providers cache nothing under 1,024 tokens anyway."""
    keep_ratio: float = 0.25
    k_recent: int = 2
    lines: bool = True
    """Whether an elided step leaves a line with the names it brought. Without lines, and with the
    scorer `recency`, no text is read at all: the least that compressing can cost."""
    schedule: Literal["by_price", "every_call"] = "by_price"
    """`every_call` is for a server without a prefix cache; elsewhere it raises the bill."""
    observations: Observations | None = None
    """`user` for agents that act by text, whose observations come as user messages in no frame that
    is known; `none` if no user message is ever an observation."""
    workers: int = 1
    """Threads or processes of a gateway process that compress."""
    outdated: tuple[str, ...] = ()
    """What the file says in words that are no longer used, and what to write instead."""
    memory_mb: int = 256
    """What a process may remember of conversations and of texts that it has read. Beyond it, the
    least recently used is forgotten and read again; a conversation whose first edit comes when all
    of it is taken by others is forwarded unchanged, to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """How tenants are identified, and when compressing stops for one that loses money by it."""

    header: str | None = None
    """A header that names the tenant. Only behind a proxy that sets it: clients can forge it.
    Without one, a tenant is a keyed hash of the client's API key."""
    secret_env: str = "AGORA_TENANT_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable with the key of that hash. Without it each start draws one, and
    a tenant's name changes with it."""
    most: int = 200
    """Tenants that metrics name; the others are counted together."""
    concurrent: int = 0
    """Requests of one tenant at a time; above it 429. 0 stands for seven eighths of
    `limits.concurrent`."""
    requests_per_minute: int = 0
    """Requests of one tenant a minute; above it 429 with Retry-After. 0 sets no limit."""
    burst: int = 20
    """How many of them may come at once after a pause."""
    stand_down: bool = True
    window_requests: int = 1_000
    """Stand down when the net saving over so many requests is negative."""
    rest_seconds: float = 3_600.0
    """How long a first stand-down lasts; each one that follows, twice as long."""
    longest_rest_seconds: float = 86_400.0


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
    sample_ratio: float = 1.0
    """Of requests whose client began no trace, the share that become spans; metrics count all."""
    metrics: bool = True
    """Whether metrics are sent there too, once a minute; a collector for traces alone refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Whether prompts are kept on disk, for labels. Nothing is unless a folder is named."""

    folder: str | None = None
    """Where each process writes a file of its own, which only its user can read."""
    most_mb: int = 1_024
    """What one process may write between start and end. Every call writes its whole history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of the gateway.

    >>> config = parse_config('''
    ... [[upstreams]]
    ... base_url = "https://api.openai.com/v1"
    ... formats = ["openai"]
    ... ''')
    >>> config.listen_port, config.upstreams[0].name
    (8484, 'api.openai.com')
    >>> config.sheet_for(config.upstreams[0], "gpt-4o-2024-08-06").name
    'gpt-4o'
    """

    upstreams: tuple[Upstream, ...]
    listen_host: str = "127.0.0.1"
    listen_port: int = 8484
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names under which clients may call the gateway (the Host header, without its port).
    `*.example.com` takes all below example.com, `ip-address` any address in digits, which is how
    probes and scrapers call and what a rebound name cannot pretend to be, and `*` takes any."""
    limits: Limits = field(default_factory=Limits)
    compression: Compression = field(default_factory=Compression)
    recall: bool = False
    """Whether the recall tool is offered and answered."""
    recall_agents: tuple[str, ...] = RECALL_AGENTS
    """How the User-Agent of agents begins that it is offered to; "*" stands for all."""
    tenants: Tenants = field(default_factory=Tenants)
    clients: tuple[Client, ...] = ()
    """Who may use the gateway, by token; empty for whoever reaches it."""
    forward_headers: tuple[str, ...] = ()
    """Request headers forwarded to upstreams besides those on the list, in lower case; "*" stands
    for all that are not meant for one hop or for the gateway."""
    other_paths: Format | None = None
    """Whose a path is that no API known here has; None if it is nobody's and answered with 404."""
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    journal: Journal = field(default_factory=Journal)
    sheets: Mapping[str, PriceSheet] = field(default_factory=dict)
    """Price sheets of one's own, searched before those that ship."""

    def upstream_for(
        self, format: Format, model: str | None = None, keys: frozenset[Format] = frozenset()
    ) -> Upstream | None:
        """Return the first upstream that takes the format and the keys and serves the model.

        A request without a model goes to the first that serves every model, or to the only one
        there is; otherwise nothing says where it belongs, and it goes nowhere.
        """
        fitting = [upstream for upstream in self.upstreams if upstream.takes(format, keys)]
        if model is None and len(fitting) == 1:
            return fitting[0]
        for upstream in fitting:
            if any(fnmatchcase(model or "", glob) for glob in upstream.models):
                return upstream
        return None

    @property
    def per_tenant(self) -> int:
        """Requests of one tenant at a time."""
        return self.tenants.concurrent or max(1, self.limits.concurrent * 7 // 8)

    def sheet_for(self, upstream: Upstream, model: str | None) -> PriceSheet:
        """Return the prices of a request: the upstream's own sheet, or that of the model."""
        if upstream.prices is not None:
            return self.sheets.get(upstream.prices) or _known_sheets()[upstream.prices]
        return sheet_for(model or "", self.sheets)

    def takes_host(self, host: str) -> bool:
        """Return whether a Host header is one the gateway answers to.

        >>> config = Config(upstreams=(), hosts=("localhost", "*.corp.test"))
        >>> [config.takes_host(h) for h in ("localhost:8484", "a.corp.test", "evil.test", "")]
        [True, True, False, False]
        """
        name = _host_name(host)
        for taken in self.hosts:
            if taken == "*" or (name and name == taken):
                return True
            if taken == "ip-address" and _is_address(name):
                return True
            if taken.startswith("*.") and name.endswith(taken[1:]) and len(name) > len(taken) - 1:
                return True
        return False

    def notes(self) -> tuple[str, ...]:
        """Return what is allowed but worth a second look, for `--check-config` and the start."""
        notes = list(self.compression.outdated)
        for upstream in self.upstreams:
            parts = urlsplit(upstream.base_url)
            if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
                notes.append(
                    f"upstream {upstream.name!r} is reached over plain http: keys and prompts "
                    "can be read on the way"
                )
        if "*" in self.hosts and _is_loopback(self.listen_host):
            notes.append(
                "listen.hosts takes any Host: a web page open on this machine can reach the "
                "gateway by DNS rebinding"
            )
        if self.compression.schedule == "every_call":
            notes.append(
                "compression.schedule is 'every_call': with a provider that caches prefixes this "
                "raises the bill"
            )
        notes += [
            f"upstream {upstream.name!r} has the prices {upstream.prices!r}: nothing is billed as "
            "cached, and every call is edited; for a server that keeps a prefix cache (llama.cpp, "
            f"vLLM, SGLang) use {OWN_SERVER!r}"
            for upstream in self.upstreams
            if upstream.prices is not None and not self.sheet_for(upstream, None).caches
        ]
        if not self.compression.enabled:
            notes.append("compression.enabled is false: every request is forwarded unchanged")
        elif self.compression.mode == "shadow":
            notes.append(
                "compression.mode is 'shadow': every request is forwarded unchanged, and what "
                "edits would have saved is counted"
            )
        if self.journal.folder is not None:
            notes.append(
                f"journal.folder is {self.journal.folder!r}: prompts are written there as they came"
            )
        scorer = self.compression.scorer
        if scorer not in NAMES and not os.path.isfile(Path(scorer) / MANIFEST):
            notes.append(
                f"compression.scorer is the folder {scorer!r}, which has no {MANIFEST}: steps "
                "will be chosen by the fallback rule"
            )
        return tuple(notes)


def load_config(path: Path) -> Config:
    """Return the configuration in a file.

    Raises:
        ConfigError: it cannot be read, or something in it is not right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            str(path), ["no such file; three lines are enough, see docs/guides/gateway.md"]
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from error
    return parse_config(text, file=str(path))


def parse_config(toml_text: str, *, file: str = "gateway.toml") -> Config:
    """Return the configuration that a TOML text describes. `file` is what errors call it.

    Raises:
        ConfigError: with all problems, not only the first.
    """
    try:
        data = tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, [f"is not TOML: {error}"]) from error
    return config_of(data, file=file)


def config_of(data: dict[str, Any], *, file: str = "gateway.toml") -> Config:
    """Return the configuration in the tables of a file that was read already.

    Raises:
        ConfigError: with all problems, not only the first.
    """
    problems: list[str] = []
    top = _Table(data, "", problems)
    sheets = _sheets(top, problems)
    listen = top.table("listen")
    recall = top.table("recall")
    host = listen.text("host", "127.0.0.1")
    config = Config(
        listen_host=host,
        listen_port=listen.integer("port", 8484, least=0, most=65_535),
        hosts=_hosts(listen, host),
        upstreams=_upstreams(top, sheets),
        limits=_limits(top.table("limits")),
        compression=_compression(top.table("compression")),
        recall=recall.flag("enabled", default=False),
        recall_agents=recall.texts("agents", RECALL_AGENTS),
        tenants=_tenants(top.table("tenants")),
        clients=_clients(top),
        forward_headers=_forward_headers(top.table("headers")),
        other_paths=_other_paths(top.table("paths")),
        log=_log(top.table("log")),
        telemetry=_telemetry(top.table("telemetry")),
        journal=_journal(top.table("journal")),
        sheets=sheets,
    )
    top.finish()
    if problems:
        raise ConfigError(file, problems)
    return config


class _Table:
    """One table of the file: gives typed values, and gathers what is wrong with the others."""

    def __init__(self, data: dict[str, Any], path: str, problems: list[str]) -> None:
        self._data = data
        self.path = path
        self._problems = problems
        self._known: list[str] = []
        self._children: list[_Table] = []

    def blame(self, key: str, problem: str) -> None:
        """Note what is wrong with a key."""
        self._problems.append(f"{self.path}{key} {problem}")

    def has(self, key: str) -> bool:
        """Return whether the file says anything about the key."""
        return key in self._data

    def table(self, key: str) -> "_Table":
        """Return a table within this one; an empty one where the file has none."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            self.blame(key, f"is {_say(value)}; it must be a table: write [{self.path}{key}]")
            value = {}
        return self._child(value, f"{self.path}{key}.")

    def tables(self, key: str) -> list["_Table"]:
        """Return the tables of a list of them."""
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.blame(key, f"is {_say(value)}; it must be a list of tables: write [[{key}]]")
            return []
        return [self._child(item, f"{self.path}{key}[{at}].") for at, item in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        """Return a text that is not empty."""
        value = self._take(key, default)
        if not isinstance(value, str) or (self.has(key) and not value.strip()):
            self.blame(key, f"is {_say(value)}; it must be a non-empty string")
            return default
        return value

    def optional(self, key: str) -> str | None:
        """Return a text, or None where the file has none."""
        return self.text(key, "") if self.has(key) else self._take(key, None)

    def one_of(self, key: str, default: str, choices: Sequence[str]) -> str:
        """Return one of some words; a hyphen is read as an underscore."""
        value = self._take(key, default)
        if isinstance(value, str) and value not in choices:
            value = value.replace("-", "_")
        if value not in choices:
            self.blame(
                key,
                f"is {_say(value)}; it must be one of {_list(choices)}{nearest(value, choices)}",
            )
            return default
        return cast("str", value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            self.blame(key, f"is {_say(value)}; it must be true or false")
            return default
        return value

    def integer(self, key: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.blame(
                key, f"is {_say(value)}; it must be a whole number from {least:,} to {most:,}"
            )
            return default
        return value

    def number(self, key: str, default: float, *, least: float, most: float) -> float:
        """Return a number within bounds."""
        value = self._take(key, default)
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= most:
            self.blame(key, f"is {_say(value)}; it must be a number from {least:,g} to {most:,g}")
            return default
        return float(value)

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of texts; a single text is taken for a list of one."""
        value = self._take(key, default)
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple) or not all(
            isinstance(item, str) and item.strip() for item in value
        ):
            self.blame(key, f"is {_say(value)}; it must be a list of strings")
            return default
        return tuple(value)

    def raw(self, key: str) -> dict[str, Any]:
        """Return a table that somebody else reads."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            self.blame(key, f"is {_say(value)}; it must be a table: write [{key}.NAME]")
            return {}
        return value

    def finish(self) -> None:
        """Blame every key that nothing asked for."""
        for key in self._data:
            if key not in self._known:
                near = nearest(key, self._known)
                self.blame(
                    key, f"is not a setting{near or '; the settings are ' + _list(self._known)}"
                )
        for child in self._children:
            child.finish()

    def _child(self, data: dict[str, Any], path: str) -> "_Table":
        child = _Table(data, path, self._problems)
        self._children.append(child)
        return child

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._data.get(key, default)


def _upstreams(top: _Table, sheets: Mapping[str, PriceSheet]) -> tuple[Upstream, ...]:
    tables = top.tables("upstreams")
    if not tables and not top.has("upstreams"):
        top.blame(
            "upstreams", 'is missing; write [[upstreams]] with base_url = "https://..." and formats'
        )
    found: list[Upstream] = []
    for table in tables:
        upstream = _upstream(table, sheets)
        if any(other.name == upstream.name for other in found):
            if table.has("name"):
                table.blame(
                    "name",
                    f"is {upstream.name!r}, which another upstream has too; give each its own",
                )
            else:
                # The host was taken for a name; two upstreams may well be on one host.
                upstream = replace(upstream, name=f"{upstream.name}-{len(found) + 1}")
        found.append(upstream)
    return tuple(found)


def _upstream(table: _Table, sheets: Mapping[str, PriceSheet]) -> Upstream:
    base_url = table.text("base_url", "").rstrip("/")
    problem = (
        _url_problem(base_url) if base_url else "is missing" if not table.has("base_url") else ""
    )
    if problem:
        table.blame("base_url", f'{problem}; it should look like "https://api.openai.com/v1"')
    formats = table.texts("formats", ())
    if not table.has("formats"):
        table.blame("formats", f"is missing; it must list one or more of {_list(FORMATS)}")
    for format in formats:
        if format not in FORMATS:
            table.blame("formats", f"has {format!r}; the formats are {_list(FORMATS)}")
    credentials = table.texts("credentials", ())
    for owner in credentials:
        if owner not in FORMATS:
            table.blame("credentials", f"has {owner!r}; it must be one of {_list(FORMATS)}")
    prices = table.optional("prices")
    known = {**_known_sheets(), **sheets}
    if prices and prices not in known:
        table.blame(
            "prices",
            f"is {prices!r}, which is not a known price sheet{nearest(prices, known)}; "
            f"write one of your own as [prices.{prices}]",
        )
    host = "" if problem else urlsplit(base_url).hostname or ""
    return Upstream(
        name=table.text("name", host),
        base_url=base_url,
        formats=cast("tuple[Format, ...]", formats),
        credentials=cast("tuple[Format, ...]", credentials),
        models=table.texts("models", ("*",)),
        prices=prices,
        proxy=_proxy(table),
        connect_timeout_s=table.number("connect_timeout_s", 10.0, least=0.1, most=300),
        first_byte_timeout_s=table.number("first_byte_timeout_s", 600.0, least=1, most=86_400),
        idle_timeout_s=table.number("idle_timeout_s", 600.0, least=1, most=86_400),
    )


def _proxy(table: _Table) -> str | None:
    proxy = table.optional("proxy")
    try:
        parts = urlsplit(proxy or "")
        fits = parts.scheme == "http" and bool(parts.hostname)
    except ValueError:
        fits = False
    if proxy is not None and not fits:
        # Not shown: a password may stand in it.
        table.blame("proxy", 'is not an HTTP proxy; it should look like "http://proxy:3128"')
    return proxy


def _url_problem(url: str) -> str:
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


def _hosts(listen: _Table, host: str) -> tuple[str, ...]:
    own = ("ip-address",) if host in ("0.0.0.0", "::") else ("127.0.0.1", "[::1]")  # noqa: S104
    named = () if host in ("localhost", "0.0.0.0", "::", *own) else (host,)  # noqa: S104
    hosts = listen.texts("hosts", ("localhost", *own, *named))
    for name in hosts:
        bare = name.removeprefix("*.")
        if name != "*" and ("*" in bare or "/" in name or _host_name(bare) != bare.lower()):
            listen.blame(
                "hosts",
                f'has {name!r}; a host has no scheme, path or port, like "gateway.example.com" '
                'or "*.example.com"',
            )
    return tuple(name.lower() for name in hosts)


def _limits(table: _Table) -> Limits:
    base = Limits()
    return Limits(
        body_bytes=table.integer("body_bytes", base.body_bytes, least=1_024, most=1 << 30),
        depth=table.integer("depth", base.depth, least=8, most=500),
        head_bytes=table.integer("head_bytes", base.head_bytes, least=1_024, most=1 << 20),
        headers=table.integer("headers", base.headers, least=16, most=10_000),
        head_seconds=table.number("head_seconds", base.head_seconds, least=0.5, most=600),
        body_seconds=table.number("body_seconds", base.body_seconds, least=0.5, most=3_600),
        connections=table.integer("connections", base.connections, least=16, most=1_000_000),
        concurrent=table.integer("concurrent", base.concurrent, least=1, most=100_000),
        concurrent_per_address=table.integer(
            "concurrent_per_address", base.concurrent_per_address, least=0, most=100_000
        ),
        compress_deadline_ms=table.integer(
            "compress_deadline_ms", base.compress_deadline_ms, least=1, most=60_000
        ),
        restore_deadline_ms=table.integer(
            "restore_deadline_ms", base.restore_deadline_ms, least=1, most=60_000
        ),
        drain_seconds=table.integer("drain_seconds", base.drain_seconds, least=0, most=86_400),
        settle_seconds=table.integer("settle_seconds", base.settle_seconds, least=0, most=600),
    )


def _compression(table: _Table) -> Compression:
    base = Compression()
    scorer = table.text("scorer", base.scorer)
    if scorer not in NAMES and not any(mark in scorer for mark in "/\\."):
        table.blame(
            "scorer",
            f"is {scorer!r}; it must be one of {_list(NAMES)}{nearest(scorer, NAMES)}, or a folder "
            "(./name)",
        )
    observations = table.optional("observations")
    if observations not in (None, "user", "none"):
        table.blame("observations", f'is {observations!r}; it is "user" or "none", or left out')
    least_tokens = table.integer("least_tokens", base.least_tokens, least=0, most=10_000_000)
    outdated: tuple[str, ...] = ()
    if table.has("min_tokens"):
        # Its name before 0.2: still read, and `notes` asks for the new one.
        if table.has("least_tokens"):
            table.blame("min_tokens", "is the old name of least_tokens; keep only least_tokens")
        least_tokens = table.integer("min_tokens", least_tokens, least=0, most=10_000_000)
        outdated = ("compression.min_tokens is now called least_tokens; please rename it",)
    return Compression(
        enabled=table.flag("enabled", default=base.enabled),
        mode=cast("Literal['edit', 'shadow']", table.one_of("mode", base.mode, ("edit", "shadow"))),
        scorer=scorer,
        least_tokens=least_tokens,
        outdated=outdated,
        keep_ratio=table.number("keep_ratio", base.keep_ratio, least=0, most=1),
        k_recent=table.integer("k_recent", base.k_recent, least=0, most=1_000),
        lines=table.flag("lines", default=base.lines),
        schedule=cast(
            "Literal['by_price', 'every_call']",
            table.one_of("schedule", base.schedule, ("by_price", "every_call")),
        ),
        observations=cast("Observations | None", observations),
        workers=table.integer("workers", base.workers, least=1, most=256),
        memory_mb=table.integer("memory_mb", base.memory_mb, least=16, most=65_536),
    )


def _tenants(table: _Table) -> Tenants:
    base = Tenants()
    header = table.optional("header")
    if header is not None and not _is_header(header):
        table.blame("header", f"is {header!r}, which is not a valid header name")
    return Tenants(
        header=header.lower() if header else None,
        secret_env=table.text("secret_env", base.secret_env),
        most=table.integer("most", base.most, least=1, most=100_000),
        concurrent=table.integer("concurrent", base.concurrent, least=0, most=100_000),
        requests_per_minute=table.integer(
            "requests_per_minute", base.requests_per_minute, least=0, most=1_000_000
        ),
        burst=table.integer("burst", base.burst, least=1, most=1_000_000),
        stand_down=table.flag("stand_down", default=base.stand_down),
        window_requests=table.integer(
            "window_requests", base.window_requests, least=10, most=1_000_000
        ),
        rest_seconds=table.number("rest_seconds", base.rest_seconds, least=1, most=31_536_000),
        longest_rest_seconds=table.number(
            "longest_rest_seconds", base.longest_rest_seconds, least=1, most=31_536_000
        ),
    )


def _clients(top: _Table) -> tuple[Client, ...]:
    found: list[Client] = []
    for table in top.tables("clients"):
        name, digest = table.text("name", ""), table.text("sha256", "").lower()
        if not table.has("name"):
            table.blame("name", "is missing; metrics and logs use it for the client")
        elif not _is_header(name) or len(name) > 64:
            table.blame("name", f"is {_say(name)}; it must be up to 64 letters, digits, - and _")
        if not table.has("sha256") or _SHA256.fullmatch(digest) is None:
            # Not shown: whoever mistook the one for the other has written a token there.
            table.blame(
                "sha256",
                "is missing or not a SHA-256; it must be 64 hexadecimal digits: the hash of "
                "the token, not the token",
            )
        if any(other.name == name or other.sha256 == digest for other in found):
            table.blame("name", f"is {_say(name)}; another client has the same name or hash")
        found.append(
            Client(
                name=name,
                sha256=digest,
                concurrent=table.integer("concurrent", 0, least=0, most=100_000),
                requests_per_minute=table.integer(
                    "requests_per_minute", 0, least=0, most=1_000_000
                ),
            )
        )
    return tuple(found)


_SHA256 = re.compile(r"[0-9a-f]{64}")
NEVER_FORWARDED = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade http2-settings host content-length expect".split()
)
"""Hop-by-hop headers (RFC 9110, 7.6.1), and those set again for each hop:
no setting makes these be forwarded."""


def _forward_headers(table: _Table) -> tuple[str, ...]:
    names = tuple(name.lower() for name in table.texts("forward", ()))
    for name in names:
        if name == "*":
            pass
        elif not _is_header(name):
            table.blame("forward", f"has {name!r}, which is not a valid header name")
        elif name in NEVER_FORWARDED or name.startswith("x-agora-"):
            table.blame(
                "forward", f"has {name!r}, which is meant for the gateway and never forwarded"
            )
    return names


def _other_paths(table: _Table) -> Format | None:
    if not table.has("other"):
        table.optional("other")
        return None
    return cast("Format", table.one_of("other", FORMATS[0], FORMATS))


_SECRET_HEADERS = frozenset(
    "authorization proxy-authorization x-api-key api-key x-goog-api-key cookie set-cookie "
    "x-amz-security-token".split()
)


def _log(table: _Table) -> Log:
    base = Log()
    headers = tuple(name.lower() for name in table.texts("headers", base.headers))
    for name in headers:
        if name in _SECRET_HEADERS:
            table.blame("headers", f"has {name!r}, which carries a secret and is never logged")
        elif not _is_header(name):
            table.blame("headers", f"has {name!r}, which is not a valid header name")
    return Log(
        level=cast(
            "Literal['debug', 'info', 'warning', 'error']",
            table.one_of("level", base.level, ("debug", "info", "warning", "error")),
        ),
        format=cast(
            "Literal['json', 'text']", table.one_of("format", base.format, ("json", "text"))
        ),
        headers=headers,
        requests=table.flag("requests", default=base.requests),
    )


def _telemetry(table: _Table) -> Telemetry:
    base = Telemetry()
    endpoint = table.optional("endpoint")
    problem = _url_problem(endpoint) if endpoint else ""
    if problem:
        table.blame("endpoint", f'{problem}; it should look like "http://127.0.0.1:4318"')
    return Telemetry(
        endpoint=endpoint.rstrip("/") if endpoint else None,
        service_name=table.text("service_name", base.service_name),
        sample_ratio=table.number("sample_ratio", base.sample_ratio, least=0, most=1),
        metrics=table.flag("metrics", default=base.metrics),
    )


def _journal(table: _Table) -> Journal:
    base = Journal()
    return Journal(
        folder=table.optional("folder"),
        most_mb=table.integer("most_mb", base.most_mb, least=1, most=1 << 20),
    )


def _sheets(top: _Table, problems: list[str]) -> dict[str, PriceSheet]:
    tables = top.raw("prices")
    sheets: dict[str, PriceSheet] = {}
    if tables:
        try:
            sheets = load_sheets(_as_toml({OWN_SERVER: _OWN_SERVER, **tables}))
        except PriceSheetError as error:
            problems.append(f"prices: {error}")
    return {name: sheet for name, sheet in sheets.items() if name in tables}


@cache
def _known_sheets() -> Mapping[str, PriceSheet]:
    return {**shipped_sheets(), **load_sheets(_as_toml({OWN_SERVER: _OWN_SERVER}))}


def _as_toml(tables: Mapping[str, Any]) -> str:
    """Return the tables as a text of their own, which is what the price sheets are read from."""
    return "\n".join(f"{_toml(name)} = {_toml(table)}" for name, table in tables.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_escaped(char) for char in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 32 or char in '"\\\x7f' else char


@lru_cache(maxsize=256)
def _server(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _is_header(name: str) -> bool:
    return bool(name) and all(char.isascii() and (char.isalnum() or char in "-_") for char in name)


def _host_name(host: str) -> str:
    """Return a Host header without its port, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1", "[::1]") or host.startswith("127.")


def _say(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _list(words: Sequence[str]) -> str:
    return ", ".join(words)
