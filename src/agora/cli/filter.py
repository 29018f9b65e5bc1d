"""The `agora filter` command."""

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click

from agora.errors import AgoraError
from agora.extproc.server import Filter
from agora.service import Settings, load_settings
from agora.service.loop import run


@click.command("filter")
@click.argument("settings", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Check SETTINGS and exit.")
def filter(settings: Path, *, check: bool) -> None:
    """Run AGORA as an external processor for Envoy: it shortens prompts in request bodies.

    SETTINGS is a TOML file; [listen] in it says where Envoy calls the filter. deploy/envoy has
    configurations for Envoy and for gateways built on it. Where the filter fails or is gone,
    requests pass unchanged.
    """
    try:
        loaded = load_settings(settings)
        if check:
            click.echo("ok")
            return
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        run(_filter(loaded))
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


async def _filter(settings: Settings) -> None:
    stop = until_told()
    async with Filter(settings) as running:
        host = settings.listen.host
        admin = f"http://{host}:{running.admin_port}/metrics"
        click.echo(f"filter on {host}:{running.port}, metrics on {admin}", err=True)
        await stop.wait()


def until_told() -> asyncio.Event:
    """Return an event that is set when the process is told to end."""
    stop = asyncio.Event()
    for name in ("SIGINT", "SIGTERM"):
        # Windows has no handlers on its loop; Ctrl-C raises there.
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), stop.set)
    return stop
