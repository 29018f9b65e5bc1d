"""The configuration file read: TOML into immutable values, or every problem with its place."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agora.core.prices import PriceSheet
from agora.errors import AgoraError, PriceSheetError, nearest
from agora.experiment.rules import RuleError, parse_rule
from agora.gateway.config.addresses import host_name, is_http_proxy, url_problem
from agora.gateway.config.settings import (
    FORMATS,
    NEVER_FORWARDED,
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
from agora.gateway.config.sheets import known_sheets, read_sheets
from agora.gateway.config.table import Table, is_header, say, words
from agora.gateway.config.whole import Config
from agora.scorers.built_in import NAMES

_LEAST = """
[[upstreams]]
base_url = "https://api.openai.com/v1"
formats = ["openai"]"""
"""A file that is enough. Who installed a wheel has no pages at hand."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SECRET_HEADERS = frozenset(
    "authorization proxy-authorization x-api-key api-key x-goog-api-key cookie set-cookie "
    "x-amz-security-token".split()
)


class ConfigError(AgoraError):
    """A configuration that cannot be used: every problem, each with its place."""

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        super().__init__(file, tuple(problems))
        self.file = file
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {problem}" for problem in self.problems)


def load_config(path: Path) -> Config:
    """Return the configuration in a file.

    Raises:
        ConfigError: it cannot be read, or something in it is not right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            str(path), [f"no such file; three lines are enough, for example\n{_LEAST}"]
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
    outdated: list[str] = []
    top = Table(data, "", problems, outdated)
    sheets = _sheets(top, problems)
    listen = top.table("listen")
    recall = top.table("recall")
    host = listen.text("host", "127.0.0.1")
    certificate, key = _certificate(listen)
    compression = _compression(top.table("compression"))
    config = Config(
        listen_host=host,
        listen_port=listen.integer("port", 8484, least=0, most=65_535),
        hosts=_hosts(listen, host),
        listen_open=listen.flag("open", default=False),
        listen_certificate=certificate,
        listen_key=key,
        upstreams=_upstreams(top, sheets),
        limits=top.table("limits").section(Limits),
        compression=compression,
        recall=recall.flag("enabled", default=False),
        recall_agents=recall.texts("agents", RECALL_AGENTS),
        tenants=_tenants(top.table("tenants")),
        clients=_clients(top),
        forward_headers=_forward_headers(top.table("headers")),
        other_paths=_other_paths(top.table("paths")),
        log=_log(top.table("log")),
        telemetry=_telemetry(top.table("telemetry")),
        journal=top.table("journal").section(Journal),
        experiment=_experiment(top.table("experiment"), compression.mode),
        sheets=sheets,
    )
    top.finish()
    if problems:
        raise ConfigError(file, problems)
    return replace(config, outdated=tuple(outdated))


def _upstreams(top: Table, sheets: Mapping[str, PriceSheet]) -> tuple[Upstream, ...]:
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


def _upstream(table: Table, sheets: Mapping[str, PriceSheet]) -> Upstream:
    base_url = table.text("base_url", "").rstrip("/")
    problem = (
        url_problem(base_url) if base_url else "is missing" if not table.has("base_url") else ""
    )
    if problem:
        table.blame("base_url", f'{problem}; it should look like "https://api.openai.com/v1"')
    formats = table.texts("formats", ())
    if not table.has("formats"):
        table.blame("formats", f"is missing; it must list one or more of {words(FORMATS)}")
    for format in formats:
        if format not in FORMATS:
            table.blame("formats", f"has {format!r}; the formats are {words(FORMATS)}")
    credentials = table.texts("credentials", ())
    for owner in credentials:
        if owner not in FORMATS:
            table.blame("credentials", f"has {owner!r}; it must be one of {words(FORMATS)}")
    host = "" if problem else urlsplit(base_url).hostname or ""
    return table.section(
        Upstream,
        name=table.text("name", host),
        base_url=base_url,
        formats=formats,
        credentials=credentials,
        prices=_prices(table, sheets),
        proxy=_proxy(table),
    )


def _prices(table: Table, sheets: Mapping[str, PriceSheet]) -> str | None:
    prices = table.optional("prices")
    known = {**known_sheets(), **sheets}
    if prices and prices not in known:
        table.blame(
            "prices",
            f"is {prices!r}, which is not a known price sheet{nearest(prices, known)}; "
            f"write one of your own as [prices.{prices}]",
        )
    return prices


def _proxy(table: Table) -> str | None:
    proxy = table.optional("proxy")
    if proxy is not None and not is_http_proxy(proxy):
        # Not shown: a password may stand in it.
        table.blame("proxy", 'is not an HTTP proxy; it should look like "http://proxy:3128"')
    return proxy


def _hosts(listen: Table, host: str) -> tuple[str, ...]:
    own = ("ip-address",) if host in ("0.0.0.0", "::") else ("127.0.0.1", "[::1]")  # noqa: S104
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    named = () if shown in ("localhost", "0.0.0.0", "[::]", *own) else (shown,)  # noqa: S104
    hosts = listen.texts("hosts", ("localhost", *own, *named))
    for name in hosts:
        bare = name.removeprefix("*.")
        if name != "*" and ("*" in bare or "/" in name or host_name(bare) != bare.lower()):
            listen.blame(
                "hosts",
                f'has {name!r}; a host has no scheme, path or port, like "gateway.example.com" '
                'or "*.example.com"',
            )
    return tuple(name.lower() for name in hosts)


def _certificate(listen: Table) -> tuple[str | None, str | None]:
    certificate, key = listen.optional("certificate"), listen.optional("key")
    if (certificate is None) != (key is None):
        missing = "key" if key is None else "certificate"
        listen.blame(missing, "is missing; a certificate and its key are two files in PEM")
    return certificate, key


def _compression(table: Table) -> Compression:
    scorer = table.text("scorer", Compression().scorer)
    if scorer not in NAMES and not any(mark in scorer for mark in "/\\."):
        table.blame(
            "scorer",
            f"is {scorer!r}; it must be one of {words(NAMES)}{nearest(scorer, NAMES)}, or a folder "
            "(./name)",
        )
    observations = table.optional("observations")
    if observations not in (None, "user", "none"):
        table.blame("observations", f'is {observations!r}; it is "user" or "none", or left out')
    found = table.section(Compression, scorer=scorer, observations=observations)
    for name in found.changing_tools:
        if name in found.reading_tools:
            table.blame(
                "changing_tools",
                f"has {name!r}, which reading_tools has too; a tool changes something or only "
                "reads: name it once",
            )
    return found


def _experiment(table: Table, mode: str) -> Experiment:
    found = table.section(Experiment)
    for text in found.stop_when:
        try:
            parse_rule(text)
        except RuleError as error:
            table.blame("stop_when", f"has {error}")
    if not is_header(found.header):
        table.blame("header", f"is {found.header!r}, which is not a valid header name")
    if mode == "experiment" and found.folder is None:
        table.blame("folder", "is missing; compression.mode is 'experiment', which writes there")
    return replace(found, header=found.header.lower())


def _tenants(table: Table) -> Tenants:
    named = {}
    for key in ("header", "affinity_header"):
        header = table.optional(key)
        if header is not None and not is_header(header):
            table.blame(key, f"is {header!r}, which is not a valid header name")
        named[key] = header.lower() if header else None
    return table.section(Tenants, **named)


def _clients(top: Table) -> tuple[Client, ...]:
    found: list[Client] = []
    for table in top.tables("clients"):
        name, digest = table.text("name", ""), table.text("sha256", "").lower()
        if not table.has("name"):
            table.blame("name", "is missing; metrics and logs use it for the client")
        elif not is_header(name) or len(name) > 64:
            table.blame("name", f"is {say(name)}; it must be up to 64 letters, digits, - and _")
        if not table.has("sha256") or _SHA256.fullmatch(digest) is None:
            # Not shown: whoever mistook the one for the other has written a token there.
            table.blame(
                "sha256",
                "is missing or not a SHA-256; it must be 64 hexadecimal digits: the hash of "
                "the token, not the token",
            )
        if any(other.name == name or other.sha256 == digest for other in found):
            table.blame("name", f"is {say(name)}; another client has the same name or hash")
        found.append(table.section(Client, name=name, sha256=digest))
    return tuple(found)


def _forward_headers(table: Table) -> tuple[str, ...]:
    names = tuple(name.lower() for name in table.texts("forward", ()))
    for name in names:
        if name == "*":
            pass
        elif not is_header(name):
            table.blame("forward", f"has {name!r}, which is not a valid header name")
        elif name in NEVER_FORWARDED or name.startswith("x-agora-"):
            table.blame(
                "forward", f"has {name!r}, which is meant for the gateway and never forwarded"
            )
    return names


def _other_paths(table: Table) -> Format | None:
    if not table.has("other"):
        table.optional("other")
        return None
    found: Format = table.one_of("other", FORMATS[0], FORMATS)
    return found


def _log(table: Table) -> Log:
    headers = tuple(name.lower() for name in table.texts("headers", Log().headers))
    for name in headers:
        if name in _SECRET_HEADERS:
            table.blame("headers", f"has {name!r}, which carries a secret and is never logged")
        elif not is_header(name):
            table.blame("headers", f"has {name!r}, which is not a valid header name")
    return table.section(Log, headers=headers)


def _telemetry(table: Table) -> Telemetry:
    endpoint = table.optional("endpoint")
    problem = url_problem(endpoint) if endpoint else ""
    if problem:
        table.blame("endpoint", f'{problem}; it should look like "http://127.0.0.1:4318"')
    return table.section(Telemetry, endpoint=endpoint.rstrip("/") if endpoint else None)


def _sheets(top: Table, problems: list[str]) -> dict[str, PriceSheet]:
    tables = top.raw("prices")
    try:
        return read_sheets(tables)
    except PriceSheetError as error:
        problems.append(f"prices: {error}")
        return {}
