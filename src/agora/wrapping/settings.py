"""The settings of `agora wrap`: a settings file and options of the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agora.service import Settings, load_settings
from agora.service.settings import Limits

NAME = "agora.toml"
_PATIENT_MS = 10_000
"""Long enough for an edit: one is due every ten to thirty calls, and a late one costs more."""


def places(folder: Path, home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths of settings files, first to last."""
    config = environment.get("XDG_CONFIG_HOME", "")
    return (folder / NAME, (Path(config) if config else home / ".config") / "agora" / NAME)


def find(folder: Path, home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the first settings file that exists."""
    return next((path for path in places(folder, home, environment) if path.is_file()), None)


def settings_for(path: Path | None, *, shadow: bool, compression: Mapping[str, Any]) -> Settings:
    """Return the settings of a session.

    Args:
        path: The settings file; None for the defaults.
        shadow: True to change nothing.
        compression: Options of the command line. Lists of tools are added to the file's, other
            options replace the file's.

    Raises:
        SettingsError: The file cannot be read or used.
    """
    settings = load_settings(path) if path is not None else Settings()
    options = {
        name: (*(getattr(settings.compression, name) or ()), *value)
        if isinstance(value, tuple)
        else value
        for name, value in compression.items()
    }
    limits = settings.limits
    if limits == Limits():
        limits = replace(limits, deadline_ms=_PATIENT_MS)
    return replace(
        settings,
        limits=limits,
        mode="shadow" if shadow else settings.mode,
        compression=replace(settings.compression, **options),
    )
