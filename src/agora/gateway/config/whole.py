"""The whole configuration of the gateway: where a request goes, its prices, who is answered."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from agora.core.prices import PriceSheet, sheet_for
from agora.gateway.config.addresses import host_name, is_address, is_loopback
from agora.gateway.config.settings import (
    RECALL_AGENTS,
    Client,
    Compression,
    Experiment,
    Format,
    Journal,
    Limits,
    Log,
    Telemetry,
    Tenants,
    Upstream,
)
from agora.gateway.config.sheets import OWN_SERVER, known_sheets
from agora.scorers.built_in import NAMES
from agora.scorers.bundle import MANIFEST

_PLATFORMS = (
    ("openrouter.ai", "openrouter/"),
    (".azure.com", "azure/"),
    ("aiplatform.googleapis.com", "vertex_ai/"),
)
"""How the hosts of platforms end whose prices or rules are not those of a model's provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of the gateway.

    >>> from agora.gateway.config import parse_config
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
    listen_open: bool = False
    """Whether whoever reaches the port may use the gateway, where that is not only this machine."""
    listen_certificate: str | None = None
    """The file with the certificate to be shown to clients, and those behind it; None for http."""
    listen_key: str | None = None
    """The file with its key, without a password."""
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
    """Which provider gets the paths of no known API; None answers them with 404."""
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    journal: Journal = field(default_factory=Journal)
    experiment: Experiment = field(default_factory=Experiment)
    sheets: Mapping[str, PriceSheet] = field(default_factory=dict)
    """Price sheets of one's own, searched before those that ship."""
    outdated: tuple[str, ...] = ()
    """What the file says in words that are no longer used, and what to write instead."""

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
        """Return the prices of a request: the upstream's own sheet, or that of the model there.

        >>> there = Upstream(name="r", base_url="https://openrouter.ai/api", formats=("openai",))
        >>> Config(upstreams=(there,)).sheet_for(there, "openai/gpt-5.5").ttl_seconds
        600.0
        """
        if upstream.prices is not None:
            return self.sheets.get(upstream.prices) or known_sheets()[upstream.prices]
        host = urlsplit(upstream.base_url).hostname or ""
        platform = next((path for end, path in _PLATFORMS if host.endswith(end)), "")
        return sheet_for(platform + (model or ""), self.sheets)

    def takes_host(self, host: str) -> bool:
        """Return whether a Host header is one the gateway answers to.

        >>> config = Config(upstreams=(), hosts=("localhost", "*.corp.test"))
        >>> [config.takes_host(h) for h in ("localhost:8484", "a.corp.test", "evil.test", "")]
        [True, True, False, False]
        """
        name = host_name(host)
        if name is None:
            return False
        for taken in self.hosts:
            if taken == "*" or (name and name == taken):
                return True
            if taken == "ip-address" and is_address(name):
                return True
            if taken.startswith("*.") and name.endswith(taken[1:]) and len(name) > len(taken) - 1:
                return True
        return False

    @property
    def digest(self) -> str:
        """The beginning of a SHA-256 over all settings, by which two can be told apart."""
        return sha256(repr(self).encode()).hexdigest()[:12]

    def start_problems(self) -> tuple[str, ...]:
        """Return what keeps a gateway from starting, though a filter with this file would.

        >>> Config(upstreams=(), listen_host="0.0.0.0", listen_open=True).start_problems()
        ()
        """
        problems: list[str] = []
        if not (is_loopback(self.listen_host) or self.clients or self.listen_open):
            problems.append(
                f"listen.host is {self.listen_host!r}, which other machines can reach, but no "
                "client has a token; add [[clients]] with name and sha256, or set listen.open = "
                "true to let anyone who reaches the port use it"
            )
        if self.listen_certificate is not None and self.listen_key is not None:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.listen_certificate, self.listen_key, lambda: "")
            except OSError as error:
                problems.append(
                    "listen.certificate and listen.key are not a certificate and its key in PEM, "
                    f"without a password: {error.strerror or error}"
                )
        return tuple(problems)

    def notes(self) -> tuple[str, ...]:
        """Return what is allowed but worth a second look, for `--check-config` and the start."""
        notes = list(self.outdated)
        for upstream in self.upstreams:
            parts = urlsplit(upstream.base_url)
            if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                notes.append(
                    f"upstream {upstream.name!r} is reached over plain http: keys and prompts "
                    "can be read on the way"
                )
        if "*" in self.hosts and is_loopback(self.listen_host):
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
        elif self.compression.mode == "experiment":
            notes.append(
                f"compression.mode is 'experiment': {self.experiment.share:.0%} of the "
                "conversations are edited and as many compared with them; the rest is forwarded "
                "unchanged"
            )
        if self.journal.folder is not None:
            notes.append(
                f"journal.folder is {self.journal.folder!r}: prompts are written there in full"
            )
        scorer = self.compression.scorer
        if scorer not in NAMES and not os.path.isfile(Path(scorer) / MANIFEST):
            notes.append(
                f"compression.scorer is the folder {scorer!r}, which has no {MANIFEST}: steps "
                "will be chosen by the fallback rule"
            )
        return tuple(notes)
