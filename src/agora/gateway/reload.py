"""One configuration in the place of another while the gateway runs."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

from agora.gateway.app import App, app_with
from agora.gateway.config import Config
from agora.gateway.editing.score import Judge
from agora.gateway.editing.workers import Editing, make_editing
from agora.gateway.forwarding.arms import trial_for
from agora.gateway.watching.journal import journal_for
from agora.gateway.watching.report import reporter_for

AT_START_ONLY = frozenset(
    {
        "listen.certificate",
        "listen.host",
        "listen.key",
        "listen.port",
        "limits.connections",
        "limits.drain_seconds",
        "limits.head_bytes",
        "limits.head_seconds",
        "limits.headers",
        "limits.settle_seconds",
        "tenants.secret_env",
    }
)
"""What is settled when a process starts: its socket, how heads are read there, how it stops, and
what it calls tenants."""
_PLACES = {
    "listen_host": "listen.host",
    "listen_port": "listen.port",
    "listen_open": "listen.open",
    "listen_certificate": "listen.certificate",
    "listen_key": "listen.key",
    "hosts": "listen.hosts",
    "sheets": "prices",
    "recall": "recall.enabled",
}
_LET_GO_SECONDS = 10.0
"""How long what was replaced stays for the requests that began with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What became of a new configuration."""

    changed: tuple[str, ...]
    """Settings that are in force from now on."""
    waiting: tuple[str, ...]
    """Settings that the file changes and that wait for the next start."""


def differences(old: Config, new: Config) -> tuple[str, ...]:
    """Return the settings in which two configurations differ, as a file names them.

    >>> from agora.gateway.config import Limits
    >>> before = Config(upstreams=())
    >>> differences(before, Config(upstreams=(), listen_port=1, limits=Limits(depth=9)))
    ('listen.port', 'limits.depth')
    """
    return tuple(_differences(old, new))


async def reload(app: App, new: Config) -> Reloaded:
    """Put a configuration in force for the requests that come from now on.

    Those under way end as they began. Connections, counts, accounts and breakers stay; what is
    remembered of conversations stays unless the way they are compressed changes.

    Raises:
        AgoraError: it cannot be put in force; the old one then stays as it was.
    """
    old = app.config
    found = differences(old, new)
    waiting = tuple(name for name in found if name in AT_START_ONLY)
    new = _with_start_settings(old, new)
    changed = tuple(name for name in found if name not in AT_START_ONLY)
    if changed:
        await _replace_parts(app, old, new)
    return Reloaded(changed=changed, waiting=waiting)


async def _replace_parts(app: App, old: Config, new: Config) -> None:
    # Whatever can fail comes first: until all of it has worked nothing is touched.
    running = app.forwarder
    editing = await _editing(app, old, new)
    reporter = running.reporter
    if old.telemetry != new.telemetry:
        reporter = await asyncio.to_thread(reporter_for, new.telemetry)
    journal = running.journal
    if old.journal != new.journal:
        journal = await asyncio.to_thread(journal_for, new.journal, running.meter.journal_lost)
    trial = await asyncio.to_thread(trial_for, new, running.secret, running.meter, running.trial)
    fresh = app_with(editing, new, running.meter, clock=running.clock)
    forwarder = fresh.forwarder
    forwarder.client, forwarder.secret = running.client, running.secret
    forwarder.ledger, forwarder.rules = running.ledger, running.rules
    forwarder.thinking = running.thinking
    forwarder.reporter, forwarder.journal, forwarder.trial = reporter, journal, trial
    forwarder.ledger.settle(new.tenants)
    forwarder.meter.name_tenants(new.tenants.max_named)
    forwarder.pool.deadline_seconds = new.limits.compress_deadline_ms / 1e3
    loop = asyncio.get_running_loop()
    if editing is not running.editing:
        for pool in editing.pools:
            pool.start()
        for pool in running.editing.pools:
            loop.call_later(_LET_GO_SECONDS, pool.close)
    if running.reporter is not None and running.reporter is not reporter:
        loop.call_later(_LET_GO_SECONDS, loop.run_in_executor, None, running.reporter.close)
    if running.journal is not None and running.journal is not journal:
        loop.call_later(_LET_GO_SECONDS, loop.run_in_executor, None, running.journal.close)
    if running.trial is not None and running.trial is not trial:
        loop.call_later(_LET_GO_SECONDS, loop.run_in_executor, None, running.trial.close)
    for part in fields(App):
        # What is counted while it runs stays.
        if part.init and part.name != "draining":
            setattr(app, part.name, getattr(fresh, part.name))


async def _editing(app: App, old: Config, new: Config) -> Editing:
    """Return what edits under the new configuration: what does already, if it edits alike."""
    alike = old.compression == new.compression and (old.recall, old.recall_agents) == (
        new.recall,
        new.recall_agents,
    )
    alike = alike and old.sheets == new.sheets
    if alike and old.limits.depth == new.limits.depth:
        return app.editing
    judge = app.editing.judge.work
    same_scorer = old.compression.scorer == new.compression.scorer
    scorer = judge.scorer if same_scorer and isinstance(judge, Judge) else None
    # In a thread: a scorer may take seconds to load.
    return await asyncio.to_thread(make_editing, new, scorer)


def _with_start_settings(old: Config, new: Config) -> Config:
    """Return the new configuration with what was settled at the start."""
    parts = {}
    for name in ("limits", "tenants"):
        before, after = getattr(old, name), getattr(new, name)
        settled = {
            setting.name: getattr(before, setting.name)
            for setting in fields(before)
            if f"{name}.{setting.name}" in AT_START_ONLY
        }
        parts[name] = replace(after, **settled)
    return replace(
        new,
        listen_host=old.listen_host,
        listen_port=old.listen_port,
        listen_certificate=old.listen_certificate,
        listen_key=old.listen_key,
        **parts,
    )


def _differences(old: Config, new: Config) -> Iterator[str]:
    for part in fields(Config):
        before, after = getattr(old, part.name), getattr(new, part.name)
        if is_dataclass(before) and not isinstance(before, type):
            for setting in fields(before):
                if getattr(before, setting.name) != getattr(after, setting.name):
                    yield f"{part.name}.{setting.name}"
        elif before != after:
            yield _PLACES.get(part.name, part.name)
