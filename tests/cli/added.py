"""A command as another package would bring it."""

import click


@click.command()
def weigh() -> None:
    click.echo("weighed")
