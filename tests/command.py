"""The `agora` command in this process: the one place of the tests that knows where it is."""

from click.testing import CliRunner, Result

# Private: the command is a program; in this process it has no public name.
from agora.cli.group import agora as program


def run(*arguments: object, typed: str | bytes | None = None, **environment: str | None) -> Result:
    """Run `agora` with arguments, and with `typed` as its input."""
    return CliRunner(env=environment).invoke(
        program, [str(one) for one in arguments], input=typed, prog_name="agora"
    )


__all__ = ["program", "run"]
