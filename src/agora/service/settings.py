"""The settings of proxy and filter: one TOML file, every name and bound in this module.

mode = "edit"                    # or "shadow", "experiment", "off"
states = "states.json"           # of `agora filter`: the conversations it knows, without any text

[compression]                    # as in agora.Compressor
scorer = "recency"
keep_ratio = 0.25
k_recent = 2
min_tokens = 4096
max_cost_ratio = 1.05
forgetting = 1.0
edits = "by_price"               # or "free", "every_call"
tools = {}                       # by name: "keep", "changes" or "reads"

[limits]
body_mb = 32                     # longer bodies pass unchanged
deadline_ms = 2000               # how long a request waits for its edit
workers = 2                      # processes; 0: a thread of this process
queue = 64                       # requests that may wait for a worker
memory_mb = 128                  # edits in force that are remembered

[owners]
header = "x-team"                # trusted name of the tenant; default: a hash of the API key
secret_env = "AGORA_SECRET"      # the variable with the key of that hash
stand_down = true                # no new edits for an owner whom they cost money
affinity_header = "x-agora-conversation"

[experiment]
name = "experiment"              # another name draws anew
share = 0.05                     # of all conversations, for each arm

[upstreams]                      # of `agora proxy` and `agora serve`
openai = "https://api.openai.com"

[listen]                         # of `agora filter` and `agora serve`
host = "127.0.0.1"
port = 10000                     # of `agora serve`: where agents call
filter_port = 8484               # where Envoy calls the filter
admin_port = 8485                # /livez, /readyz and /metrics

[log]
requests = true                  # a line for each request

[prices.my-model]                # price sheets, as `agora prices` lists them
like = "claude-opus-4-5"
input = 4.0
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec

from agora import Budget, Compressor, PriceSheet, TokenCounter, load_scorer
from agora.core.prices import load_sheets, sheet_for
from agora.errors import AgoraError, nearest

UPSTREAMS = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
Url = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s?#]+$")]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class SettingsError(AgoraError):
    """A settings file that cannot be used."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class CompressionSettings(_Table, frozen=True):
    """The settings of `agora.Compressor`; those not set have its defaults."""

    scorer: str = "recency"
    """A name or folder that `agora.load_scorer` takes."""
    keep_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    k_recent: Annotated[int, msgspec.Meta(ge=0, le=1_000)] | None = None
    min_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_cost_ratio: Annotated[float, msgspec.Meta(ge=1)] | None = None
    forgetting: Annotated[float, msgspec.Meta(ge=0)] | None = None
    edits: Literal["by_price", "free", "every_call"] | None = None
    tools: dict[str, Literal["keep", "changes", "reads"]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced(Compressor):
    """A compressor with price sheets that come before the shipped ones."""

    prices: Mapping[str, PriceSheet] = field(default_factory=dict)

    def policy(self, model: str | None = None, ttl: str | None = None) -> Any:
        sheet = sheet_for(model or "", self.prices)
        # Not super(): it does not work in a class with slots.
        return replace(Compressor.policy(self, model), sheet=sheet.for_ttl(ttl) if ttl else sheet)


class Limits(_Table, frozen=True):
    """How much time, work and memory one process takes."""

    body_mb: Annotated[int, msgspec.Meta(ge=1, le=1_024)] = 32
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] = 2_000
    workers: Annotated[int, msgspec.Meta(ge=0, le=256)] = 2
    queue: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 64
    memory_mb: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 128


class Owners(_Table, frozen=True):
    """How tenants are distinguished, and if edits stop for a tenant who loses money by them."""

    header: str | None = None
    secret_env: str = "AGORA_SECRET"  # noqa: S105 - the name of a variable
    stand_down: bool = True
    affinity_header: str | None = None
    """The header in which the filter names the conversation, for Envoy to choose a replica by."""


class Experiment(_Table, frozen=True):
    """Which share of conversations each arm gets, in the mode `experiment`."""

    name: str = "experiment"
    share: Annotated[float, msgspec.Meta(gt=0, le=0.5)] = 0.05


class Listen(_Table, frozen=True):
    """The addresses of `agora filter` and `agora serve`."""

    host: Annotated[str, msgspec.Meta(pattern=r"^[\w.:-]+$")] = "127.0.0.1"
    port: Port = 10_000
    """Of `agora serve`: where agents call."""
    filter_port: Port = 8_484
    """The port on which Envoy calls the filter."""
    admin_port: Port = 8_485
    """Of /livez, /readyz and /metrics."""


class Log(_Table, frozen=True):
    """The log of requests, which never has their text."""

    requests: bool = True


class Settings(_Table, frozen=True):
    """A whole file."""

    mode: Literal["edit", "shadow", "experiment", "off"] = "edit"
    compression: CompressionSettings = CompressionSettings()
    limits: Limits = Limits()
    owners: Owners = Owners()
    experiment: Experiment = Experiment()
    states: str | None = None
    """The file in which the filter keeps its states; no file if there is none."""
    upstreams: dict[Literal["openai", "anthropic", "gemini", "bedrock"], Url] = {}
    listen: Listen = Listen()
    log: Log = Log()
    prices: dict[str, dict[str, Any]] = {}

    def sheet(self, model: str) -> PriceSheet:
        """Return the prices of a model: those of the file before the shipped ones."""
        return sheet_for(model, _sheets(json.dumps(self.prices)) if self.prices else None)

    def compressor(self, counter: TokenCounter | None = None) -> Compressor:
        """Return the compressor that these settings describe, at their prices.

        Raises:
            AgoraError: A setting is not one that `Compressor` takes, or there is no such scorer.
        """
        named = msgspec.structs.asdict(self.compression)
        options = {name: value for name, value in named.items() if value is not None}
        options["scorer"] = load_scorer(options["scorer"])
        if "keep_ratio" in options:
            options["budget"] = Budget(keep_ratio=options.pop("keep_ratio"))
        prices = _sheets(json.dumps(self.prices)) if self.prices else {}
        shadow = self.mode == "shadow"
        return _Priced(**options, counter=counter, shadow=shadow, prices=prices)


def load_settings(path: Path) -> Settings:
    """Return the settings in a TOML file, checked.

    Raises:
        SettingsError: It cannot be read, or a setting is unknown, out of bounds or contradictory.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(str(path), error.strerror or str(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(str(path), str(error)) from error
    return settings_from(tables, str(path))


def settings_from(tables: Mapping[str, Any], source: str = "settings") -> Settings:
    """Return settings from decoded TOML, checked.

    >>> settings_from({"limits": {"deadline_mss": 5}})
    Traceback (most recent call last):
    agora.service.settings.SettingsError: settings: limits.deadline_mss is not a setting (did you mean deadline_ms?)

    Raises:
        SettingsError: A setting is unknown, out of bounds or contradictory.
    """  # noqa: E501 - the message is one line
    if unknown := _unknown(tables, Settings):
        raise SettingsError(source, unknown)
    try:
        settings = msgspec.convert(tables, Settings)
        settings.compressor()
        _sheets(json.dumps(settings.prices))
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise SettingsError(
            source, f"{place.rstrip('`')}: {problem}" if place else problem
        ) from error
    except AgoraError as error:
        raise SettingsError(source, str(error)) from error
    return settings


def _unknown(tables: Mapping[str, Any], kind: type[msgspec.Struct], path: str = "") -> str:
    """Return a message about the first unknown setting, or an empty text."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in tables.items():
        if name not in fields:
            return f"{path}{name} is not a setting{nearest(name, fields)}"
        inner = fields[name]
        is_table = isinstance(inner, type) and issubclass(inner, _Table)
        if is_table and isinstance(value, dict):
            problem = _unknown(value, inner, f"{path}{name}.")
            if problem:
                return problem
    return ""


@lru_cache(maxsize=8)
def _sheets(tables: str) -> Mapping[str, PriceSheet]:
    """Return price sheets from their tables as JSON, by way of the reader that TOML has."""
    lines = []
    for name, table in cast("dict[str, dict[str, Any]]", json.loads(tables)).items():
        lines.append(f"[{json.dumps(name)}]")
        lines += [f"{field} = {_toml(value)}" for field, value in table.items()]
    return load_sheets("\n".join(lines))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{name} = {_toml(inner)}" for name, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
