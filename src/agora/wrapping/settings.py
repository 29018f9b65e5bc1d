"""Where the settings of `agora wrap` are found, and the gateway's configuration made of them."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agora.gateway.config import Config, ConfigError, config_of
from agora.wrapping.plan import Plan

NAME = "agora.toml"
Tables = dict[str, Any]
_PATIENT = {"compress_deadline_ms": 2_000, "restore_deadline_ms": 5_000}


def places(folder: Path, home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where settings are looked for, in order."""
    config = environment.get("XDG_CONFIG_HOME", "")
    return (folder / NAME, (Path(config) if config else home / ".config") / "agora" / NAME)


def state(home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder for what sessions leave for later ones."""
    given = environment.get("XDG_STATE_HOME", "")
    return (Path(given) if given else home / ".local" / "state") / "agora"


def find(folder: Path, home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the first settings file that there is."""
    return next((path for path in places(folder, home, environment) if path.is_file()), None)


def read(path: Path | None) -> Tables:
    """Return the tables of a settings file; none without a file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise ConfigError(str(path), [f"cannot be read: {said}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error


def tables_for(
    settings: Tables,
    plan: Plan,
    environment: Mapping[str, str],
    *,
    shadow: bool = False,
    compression: Mapping[str, Any] = MappingProxyType({}),
) -> Tables:
    """Return the gateway's configuration for one session, as the tables of a file.

    The upstreams of the settings stand for the providers' own addresses; what the user's
    environment or the agent's own configuration names comes before both. What `compression` says
    comes before the settings' own; lists of names are added to theirs.
    """
    chosen = [one for one in plan.upstreams if one.chosen]
    others = [one for one in plan.upstreams if not one.chosen]
    given = [dict(one) for one in settings.get("upstreams", ()) if isinstance(one, dict)]
    covered = {format for one in given for format in one.get("formats", ())}
    others = [one for one in others if one.format not in covered]
    upstreams = [one.table(n, environment) for n, one in enumerate(chosen)]
    upstreams += given
    upstreams += [one.table(0, environment) | {"name": f"{one.format}-own"} for one in others]
    tables: Tables = {**settings, "upstreams": upstreams}
    tables["listen"] = {"host": "127.0.0.1", "port": 0}
    # One person's agent and its own provider: whatever the agent sends, its provider gets.
    tables["headers"] = {"forward": ["*"], **settings.get("headers", {})}
    # An edit is due once in ten to thirty calls of seconds each, and a late one costs money.
    tables["limits"] = {**_PATIENT, **settings.get("limits", {})}
    if plan.other_paths is not None:
        tables["paths"] = {"other": plan.other_paths, **settings.get("paths", {})}
    tables["log"] = {"level": "warning", "requests": False, **settings.get("log", {})}
    own = settings.get("compression", {})
    asked = {name: _with(own.get(name), value) for name, value in compression.items()}
    if shadow:
        asked["mode"] = "shadow"
    if asked:
        tables["compression"] = {**own, **asked}
    return tables


def _with(own: object, asked: object) -> object:
    """Return what was asked for; names are added to those of the file."""
    if own is None or not isinstance(asked, list):
        return asked
    if isinstance(own, str):
        own = [own]
    # What is no list stays, to be blamed.
    return [*own, *asked] if isinstance(own, list) else own


def configuration(tables: Tables, file: str) -> Config:
    """Return the configuration that some tables mean.

    Raises:
        ConfigError: with every problem; `file` is what it calls the tables.
    """
    return config_of(tables, file=file)
