"""What the gateway is told before it starts: one TOML file, read into values that do not change.

Three lines are enough:

    [[upstreams]]
    base_url = "https://api.openai.com/v1"
    formats = ["openai"]

Where requests may go stands in this file and nowhere else: no header, path or
body can name another host. No key stands in it: those of the clients go through.
"""

import difflib
import ipaddress
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from agora.core.prices import PriceSheet, load_sheets, sheet_for, shipped_sheets
from agora.errors import AgoraError, PriceSheetError
from agora.scorers.bundle import MANIFEST
from agora.scorers.load import NAMES

Format = Literal["openai", "anthropic"]
FORMATS: tuple[Format, ...] = ("openai", "anthropic")
MIB = 1 << 20


OWN_SERVER = "self-hosted-cached"
"""The sheet of a server of one's own with a prefix cache, as llama.cpp, vLLM and SGLang have."""
_OWN_SERVER: Mapping[str, Any] = {
    "like": "self-hosted",
    "read": 0.02,
    "ttl_seconds": 86_400,
    "source": "a cached token costs no evaluation, only its share of attention and of memory",
}


class ConfigError(AgoraError):
    """A configuration that cannot be used; every problem of it, each with its place."""

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        super().__init__(file, tuple(problems))
        self.file = file
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {problem}" for problem in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A server that requests may go on to."""

    name: str
    """What metrics and logs call it; the host where the file does not say."""
    base_url: str
    """Where it is, without a slash at the end. `/v1` may stand there or not."""
    formats: tuple[Format, ...]
    """Which shapes of request it takes."""
    models: tuple[str, ...] = ("*",)
    """Names of models it serves, with `*` and `?`; the first upstream that fits is taken."""
    prices: str | None = None
    """The price sheet of everything sent there; by default that of each request's model."""
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
            raise ValueError(f"{target[:40]!r} is no path; a path begins with /")
        if self.base_url.endswith("/v1") and (
            target == "/v1" or target.startswith(("/v1/", "/v1?"))
        ):
            target = target[3:]
        return self.base_url + target


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one process takes on before it says no."""

    body_bytes: int = 32 * MIB
    """A longer request body is answered with 413."""
    depth: int = 64
    """JSON nested more deeply is answered with 400."""
    concurrent: int = 256
    """Requests at a time; above it 503 with Retry-After."""
    compress_deadline_ms: int = 150
    """How long compressing may take before the rule is taken, or the client's own bytes."""
    drain_seconds: int = 120
    """How long open streams may go on after the order to stop."""
    settle_seconds: int = 3
    """How long of it new requests are still taken, while /readyz says no and others hear of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """How requests are compressed, and which are not."""

    enabled: bool = True
    """The switch for everything: off, every request goes on as it came."""
    scorer: str = "default"
    """A scorer's name, or the folder of a bundle that `agora train` wrote."""
    min_tokens: int = 4_000
    """Below this a body goes on as it came, unread. There is little to elide in so short a
    prompt, and most providers cache nothing under 1,024 tokens anyway."""
    keep_ratio: float = 0.25
    k_recent: int = 2
    lines: bool = True
    """Whether an elided step leaves a line with the names it brought. Without lines, and with the
    scorer `recency`, no text is read at all: the least that compressing can cost."""
    schedule: Literal["by_price", "every_call"] = "by_price"
    """`every_call` is for a server without a prefix cache; elsewhere it raises the bill."""
    observations: Literal["user"] | None = None
    """`user` for agents that act by text, whose observations come as user messages."""
    workers: int = 1
    """Threads or processes of a gateway process that compress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """How tenants are told apart, and when compressing stops for one that it costs money."""

    header: str | None = None
    """A header that names the tenant. Only behind a proxy that sets it: clients can forge it.
    Without one, a tenant is a keyed hash of the client's API key."""
    secret_env: str = "AGORA_TENANT_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable with the key of that hash. Without it each start draws one, and
    a tenant's name changes with it."""
    most: int = 200
    """Tenants that metrics name; the others are counted together."""
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
    """Whether spans are sent to an OpenTelemetry collector. They never hold content."""

    endpoint: str | None = None
    """Where OTLP over HTTP is taken, for instance http://127.0.0.1:4318; None sends nothing."""
    service_name: str = "agora-gateway"
    sample_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the gateway is told.

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
    tenants: Tenants = field(default_factory=Tenants)
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    sheets: Mapping[str, PriceSheet] = field(default_factory=dict)
    """Price sheets of one's own, searched before those that ship."""

    def upstream_for(self, format: Format, model: str | None = None) -> Upstream | None:
        """Return the first upstream that takes the format and serves the model, if there is one.

        Without a model, the first that takes the format.
        """
        for upstream in self.upstreams:
            if format in upstream.formats and (
                model is None or any(fnmatchcase(model, glob) for glob in upstream.models)
            ):
                return upstream
        return None

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
        notes = []
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
            f"upstream {upstream.name!r} has the prices {upstream.prices!r}: nothing counts as "
            "cached, and every call is edited; for a server that keeps a prefix cache (llama.cpp, "
            f"vLLM, SGLang) take {OWN_SERVER!r}"
            for upstream in self.upstreams
            if upstream.prices is not None and not self.sheet_for(upstream, None).caches
        ]
        if not self.compression.enabled:
            notes.append("compression.enabled is false: every request goes on as it came")
        scorer = self.compression.scorer
        if scorer not in NAMES and not (Path(scorer) / MANIFEST).is_file():
            notes.append(
                f"compression.scorer is the folder {scorer!r}, which has no {MANIFEST}: steps "
                "will be chosen by the rule instead"
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
            str(path), ["there is no such file; three lines are enough, see docs/guides/gateway.md"]
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
    problems: list[str] = []
    top = _Table(data, "", problems)
    sheets = _sheets(top, problems)
    listen = top.table("listen")
    host = listen.text("host", "127.0.0.1")
    config = Config(
        listen_host=host,
        listen_port=listen.integer("port", 8484, least=0, most=65_535),
        hosts=_hosts(listen, host),
        upstreams=_upstreams(top, sheets),
        limits=_limits(top.table("limits")),
        compression=_compression(top.table("compression")),
        recall=top.table("recall").flag("enabled", default=False),
        tenants=_tenants(top.table("tenants")),
        log=_log(top.table("log")),
        telemetry=_telemetry(top.table("telemetry")),
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
            self.blame(key, f"is {_say(value)}; it is a table: write [{self.path}{key}]")
            value = {}
        return self._child(value, f"{self.path}{key}.")

    def tables(self, key: str) -> list["_Table"]:
        """Return the tables of a list of them."""
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.blame(key, f"is {_say(value)}; it is a list of tables: write [[{key}]]")
            return []
        return [self._child(item, f"{self.path}{key}[{at}].") for at, item in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        """Return a text that is not empty."""
        value = self._take(key, default)
        if not isinstance(value, str) or (self.has(key) and not value.strip()):
            self.blame(key, f"is {_say(value)}; it is a text")
            return default
        return value

    def optional(self, key: str) -> str | None:
        """Return a text, or None where the file has none."""
        return self.text(key, "") if self.has(key) else self._take(key, None)

    def one_of(self, key: str, default: str, choices: Sequence[str]) -> str:
        """Return one of some words."""
        value = self._take(key, default)
        if value not in choices:
            self.blame(
                key, f"is {_say(value)}; it is one of {_list(choices)}{_near(value, choices)}"
            )
            return default
        return cast("str", value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            self.blame(key, f"is {_say(value)}; it is true or false")
            return default
        return value

    def integer(self, key: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.blame(key, f"is {_say(value)}; it is a whole number from {least:,} to {most:,}")
            return default
        return value

    def number(self, key: str, default: float, *, least: float, most: float) -> float:
        """Return a number within bounds."""
        value = self._take(key, default)
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= most:
            self.blame(key, f"is {_say(value)}; it is a number from {least:,g} to {most:,g}")
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
            self.blame(key, f"is {_say(value)}; it is a list of texts")
            return default
        return tuple(value)

    def raw(self, key: str) -> dict[str, Any]:
        """Return a table that somebody else reads."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            self.blame(key, f"is {_say(value)}; it is a table: write [{key}.NAME]")
            return {}
        return value

    def finish(self) -> None:
        """Blame every key that nothing asked for."""
        for key in self._data:
            if key not in self._known:
                near = _near(key, self._known)
                self.blame(key, f"is no setting{near or '; there are ' + _list(self._known)}")
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
                table.blame("name", f"is {upstream.name!r} like that of another; give each its own")
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
        table.blame("base_url", f'{problem}; it is like "https://api.openai.com/v1"')
    formats = table.texts("formats", ())
    if not table.has("formats"):
        table.blame("formats", f"is missing; it is a list of {_list(FORMATS)}")
    for format in formats:
        if format not in FORMATS:
            table.blame("formats", f"has {format!r}; the formats are {_list(FORMATS)}")
    prices = table.optional("prices")
    known = {**_known_sheets(), **sheets}
    if prices and prices not in known:
        table.blame(
            "prices",
            f"is {prices!r}, and there is no such price sheet{_near(prices, known)}; "
            f"write one of your own as [prices.{prices}]",
        )
    host = "" if problem else urlsplit(base_url).hostname or ""
    return Upstream(
        name=table.text("name", host),
        base_url=base_url,
        formats=cast("tuple[Format, ...]", formats),
        models=table.texts("models", ("*",)),
        prices=prices,
        connect_timeout_s=table.number("connect_timeout_s", 10.0, least=0.1, most=300),
        first_byte_timeout_s=table.number("first_byte_timeout_s", 600.0, least=1, most=86_400),
        idle_timeout_s=table.number("idle_timeout_s", 600.0, least=1, most=86_400),
    )


def _url_problem(url: str) -> str:
    """Return what is wrong with an upstream's address, or nothing."""
    shown = repr(url)
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or 0 < parts.port < 65_536
    except ValueError:
        return f"is {shown}, which is no address"
    if "@" in parts.netloc:
        return "has a name or password before the host; keys come with each request"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
        return f"is {shown}, which is no http or https address"
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return f"is {shown}; it has no ? and no #"
    if any(ord(char) <= 32 or ord(char) == 127 for char in url) or "\\" in url:
        return f"is {shown}, which has characters that no address has"
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
        concurrent=table.integer("concurrent", base.concurrent, least=1, most=100_000),
        compress_deadline_ms=table.integer(
            "compress_deadline_ms", base.compress_deadline_ms, least=1, most=60_000
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
            f"is {scorer!r}; it is one of {_list(NAMES)}{_near(scorer, NAMES)}, or a folder "
            "(./name)",
        )
    observations = table.optional("observations")
    if observations not in (None, "user"):
        table.blame("observations", f'is {observations!r}; it is "user", or left out')
    return Compression(
        enabled=table.flag("enabled", default=base.enabled),
        scorer=scorer,
        min_tokens=table.integer("min_tokens", base.min_tokens, least=0, most=10_000_000),
        keep_ratio=table.number("keep_ratio", base.keep_ratio, least=0, most=1),
        k_recent=table.integer("k_recent", base.k_recent, least=0, most=1_000),
        lines=table.flag("lines", default=base.lines),
        schedule=cast(
            "Literal['by_price', 'every_call']",
            table.one_of("schedule", base.schedule, ("by_price", "every_call")),
        ),
        observations="user" if observations == "user" else None,
        workers=table.integer("workers", base.workers, least=1, most=256),
    )


def _tenants(table: _Table) -> Tenants:
    base = Tenants()
    header = table.optional("header")
    if header is not None and not _is_header(header):
        table.blame("header", f"is {header!r}, which is no name of a header")
    return Tenants(
        header=header.lower() if header else None,
        secret_env=table.text("secret_env", base.secret_env),
        most=table.integer("most", base.most, least=1, most=100_000),
        stand_down=table.flag("stand_down", default=base.stand_down),
        window_requests=table.integer(
            "window_requests", base.window_requests, least=10, most=1_000_000
        ),
        rest_seconds=table.number("rest_seconds", base.rest_seconds, least=1, most=31_536_000),
        longest_rest_seconds=table.number(
            "longest_rest_seconds", base.longest_rest_seconds, least=1, most=31_536_000
        ),
    )


_SECRET_HEADERS = frozenset(
    "authorization proxy-authorization x-api-key api-key x-goog-api-key cookie set-cookie "
    "x-amz-security-token".split()
)


def _log(table: _Table) -> Log:
    base = Log()
    headers = tuple(name.lower() for name in table.texts("headers", base.headers))
    for name in headers:
        if name in _SECRET_HEADERS:
            table.blame("headers", f"has {name!r}, which carries a secret; it is never written")
        elif not _is_header(name):
            table.blame("headers", f"has {name!r}, which is no name of a header")
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
        table.blame("endpoint", f'{problem}; it is like "http://127.0.0.1:4318"')
    return Telemetry(
        endpoint=endpoint.rstrip("/") if endpoint else None,
        service_name=table.text("service_name", base.service_name),
        sample_ratio=table.number("sample_ratio", base.sample_ratio, least=0, most=1),
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


def _near(word: object, words: "Sequence[str] | Mapping[str, object]") -> str:
    near = difflib.get_close_matches(str(word), list(words), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
