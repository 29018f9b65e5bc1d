"""The `agora proxy` command."""

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from agora.errors import AgoraError
from agora.proxy import HOST, run, serve
from agora.service import FAMILIES, Settings, SettingsError, load_settings


@click.command()
@click.argument("settings", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65_535), default=8484, show_default=True)
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="FAMILY=URL",
    help=f"Where requests of {', '.join(FAMILIES)} go; by default their providers.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file of calls and dollars, continued if it exists.",
)
def proxy(
    settings: Path | None,
    *,
    port: int,
    upstreams: tuple[str, ...],
    state: Path | None,
) -> None:
    """Run a proxy on this machine that shortens the prompts of its owner's agents.

    SETTINGS is a TOML file; nothing has to be in it. Point an agent at the proxy, for instance
    with OPENAI_BASE_URL=http://127.0.0.1:8484/v1 or ANTHROPIC_BASE_URL=http://127.0.0.1:8484.
    Keys pass through and are not stored.
    """
    try:
        loaded = load_settings(settings) if settings else Settings()
        loaded = _with_upstreams(loaded, upstreams)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        run(_serve(loaded, port, state))
    except OSError as error:
        raise click.ClickException(f"cannot listen on {HOST}:{port}: {error.strerror}") from error


def _with_upstreams(settings: Settings, upstreams: tuple[str, ...]) -> Settings:
    found = dict(settings.upstreams)
    for text in upstreams:
        family, mark, url = text.partition("=")
        if not mark or family not in FAMILIES or not url.startswith(("http://", "https://")):
            raise SettingsError("--upstream", f"{text!r} is not like openai=https://host/v1")
        found[family] = url
    return msgspec.structs.replace(settings, upstreams=found)


async def _serve(settings: Settings, port: int, state: Path | None) -> None:
    loop = asyncio.get_running_loop()
    started: asyncio.Future[int] = loop.create_future()
    serving = asyncio.ensure_future(serve(settings, port=port, state=state, started=started))
    for name in ("SIGINT", "SIGTERM"):
        # Windows has no handlers on its loop; Ctrl-C raises there.
        with suppress(NotImplementedError):
            loop.add_signal_handler(getattr(signal, name), serving.cancel)
    await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
    if started.done():
        click.echo(f"listening on http://{HOST}:{started.result()}", err=True)
    with suppress(asyncio.CancelledError):
        await serving
