"""The gateway's configuration: one TOML file, read into immutable values.

Three lines are enough:

    [[upstreams]]
    base_url = "https://api.openai.com/v1"
    formats = ["openai"]

Where requests may go stands in this file and nowhere else: no header, path or
body can name another host. No key stands in it: those of the clients go through.
"""

from agora.gateway.config.read import ConfigError, config_of, load_config, parse_config
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
from agora.gateway.config.sheets import OWN_SERVER
from agora.gateway.config.whole import Config

__all__ = [
    "FORMATS",
    "NEVER_FORWARDED",
    "OWN_SERVER",
    "RECALL_AGENTS",
    "Client",
    "Compression",
    "Config",
    "ConfigError",
    "Experiment",
    "Format",
    "Journal",
    "Limits",
    "Log",
    "Telemetry",
    "Tenants",
    "Upstream",
    "config_of",
    "load_config",
    "parse_config",
]
