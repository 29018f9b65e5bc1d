"""The `agora extproc` command: the gateway's work as a filter in Envoy."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from agora.errors import AgoraError, MissingExtraError
from agora.gateway.config import load_config


@click.command()
@click.argument(
    "config",
    default="gateway.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="[CONFIG]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen for gRPC on this port instead of the one in CONFIG.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65_535),
    default=8485,
    show_default=True,
    help="Serve /livez, /readyz and /metrics on this port.",
)
def extproc(config: Path, *, port: int | None, admin_port: int) -> None:
    """Run AGORA as an external processor for Envoy.

    CONFIG is the gateway's file. Envoy decides where requests go, so upstreams
    are used only for their prices; with `upstreams = []`, prices are those of
    each request's model.

    docs/guides/envoy.md has configurations for Envoy, Envoy Gateway and llm-d,
    and says what happens on each fault. SIGTERM lets open requests finish.
    """
    try:
        loaded = load_config(config)
        if port is not None:
            loaded = replace(loaded, listen_port=port)
        # Here and not above, so that help needs no extra.
        from agora.extproc.server import run
        from agora.gateway.watching.logs import configure

        configure(loaded.log, sys.stderr)
        run(loaded, admin_port, lambda grpc, admin: _greet(loaded.listen_host, grpc, admin))
    except MissingExtraError as error:
        raise click.ClickException(str(MissingExtraError("agora extproc", "extproc"))) from error
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


def _greet(host: str, grpc: int, admin: int) -> None:
    click.echo(f"external processor on {host}:{grpc}, metrics on http://{host}:{admin}", err=True)
