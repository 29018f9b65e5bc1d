"""A configuration in the place of another: what is in force at once, what waits, what stays."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.core.trajectory import Anchor, Step
from agora.errors import AgoraError, MissingExtraError
from agora.gateway import reload as reloading
from agora.gateway.app import App, make_app
from agora.gateway.config import Compression, Config, Journal, Limits, Telemetry, Tenants
from agora.gateway.reload import AT_START_ONLY, Reloaded, differences, reload
from harness.gateway.loopback import config_for

BASE = config_for("http://127.0.0.1:9/v1")


class Half:
    """A scorer that finds everything half as good as can be."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        return [0.5] * len(steps)


def reloaded(new: Config, *, before: Config = BASE) -> tuple[App, list[object], Reloaded]:
    """Return a running application after a reload, what it was made of before, and the outcome."""

    async def run() -> tuple[App, list[object], Reloaded]:
        app = make_app(before, scorer=Half())
        await app.start()
        running = app.forwarder
        parts = [running, running.client, running.meter, running.ledger, running.rules]
        parts += [running.pool, running.editing.judge, running.editing.editor, running.reporter]
        try:
            return app, parts, await reload(app, new)
        finally:
            await app.stop()

    return asyncio.run(run())


def test_requests_that_come_are_served_by_the_new_one_and_what_was_learned_stays() -> None:
    new = replace(BASE, limits=Limits(concurrent=7), tenants=Tenants(max_named=9, stand_down=False))
    app, (was, client, meter, ledger, rules, pool, judge, again, _), outcome = reloaded(new)
    now = app.forwarder

    assert set(outcome.changed) >= {"limits.concurrent", "tenants.max_named", "tenants.stand_down"}
    assert app.config.limits.concurrent == now.config.limits.concurrent == 7
    # Those under way keep the one they began with.
    assert now is not was
    assert (now.client, now.meter, now.ledger, now.rules) == (client, meter, ledger, rules)
    assert (now.pool, now.editing.judge) == (pool, judge)
    assert now.editing.editor is again
    assert now.pool.deadline_seconds == new.limits.compress_deadline_ms / 1e3


def test_another_way_to_compress_takes_another_editor() -> None:
    new = replace(BASE, compression=Compression(keep_ratio=0.5))
    app, (_, _, meter, _, _, pool, judge, again, _), outcome = reloaded(new)

    assert set(outcome.changed) == {"compression.keep_ratio", "compression.min_tokens"}
    assert app.forwarder.pool is not pool
    assert app.editing.judge is not judge
    assert app.editing.editor is not again
    assert app.forwarder.meter is meter


def test_prices_and_upstreams_are_those_of_the_new_file() -> None:
    [upstream] = BASE.upstreams
    new = replace(BASE, upstreams=(replace(upstream, prices="self-hosted"),))
    app, _, outcome = reloaded(new)

    assert outcome == Reloaded(changed=("upstreams",), waiting=())
    assert app.forwarder.sheet_of(app.config.upstreams[0], "gpt-4o").name == "self-hosted"


def test_what_is_settled_at_the_start_waits_and_is_named() -> None:
    new = replace(
        BASE,
        listen_host="0.0.0.0",  # noqa: S104
        listen_port=1,
        limits=replace(BASE.limits, drain_seconds=77, settle_seconds=7),
        tenants=Tenants(secret_env="ANOTHER"),  # noqa: S106
    )
    app, (was, *_), outcome = reloaded(new)

    assert set(outcome.waiting) == {
        "listen.host",
        "listen.port",
        "limits.drain_seconds",
        "limits.settle_seconds",
        "tenants.secret_env",
    }
    assert set(outcome.waiting) <= AT_START_ONLY
    assert outcome.changed == ()
    assert app.config == BASE
    assert app.forwarder is was


def test_the_same_file_changes_nothing() -> None:
    app, (was, *_), outcome = reloaded(BASE)

    assert outcome == Reloaded(changed=(), waiting=())
    assert app.forwarder is was


def test_one_that_cannot_be_put_in_force_leaves_everything_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: Telemetry) -> None:
        raise MissingExtraError("agora.gateway.telemetry", "telemetry")

    monkeypatch.setattr(reloading, "reporter_for", missing)
    new = replace(BASE, telemetry=Telemetry(endpoint="http://127.0.0.1:9"), hosts=("elsewhere",))

    async def run() -> tuple[App, object]:
        app = make_app(BASE, scorer=Half())
        await app.start()
        was = app.forwarder
        with pytest.raises(AgoraError):
            await reload(app, new)
        await app.stop()
        return app, was

    app, was = asyncio.run(run())
    assert app.forwarder is was
    assert app.config is BASE


def test_spans_go_to_the_new_collector() -> None:
    pytest.importorskip("opentelemetry", reason="the extra telemetry is not installed")
    new = replace(BASE, telemetry=Telemetry(endpoint="http://127.0.0.1:9"))
    app, (*_, reporter), outcome = reloaded(new)

    assert outcome.changed == ("telemetry.endpoint",)
    assert reporter is None
    assert app.forwarder.reporter is not None


def test_a_journal_begins_with_the_configuration_that_names_it(tmp_path: Path) -> None:
    app, _, outcome = reloaded(replace(BASE, journal=Journal(folder=str(tmp_path / "kept"))))

    assert outcome.changed == ("journal.folder",)
    assert app.forwarder.journal is not None
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_settings_are_named_as_the_file_names_them() -> None:
    new = replace(
        BASE, recall=True, hosts=("a",), sheets={"x": BASE.sheet_for(BASE.upstreams[0], None)}
    )

    assert differences(BASE, new) == ("listen.hosts", "recall.enabled", "prices")
