"""The `agora` command: its entry point, and the error when its extra is not installed."""

import sys

from agora.errors import MissingExtraError


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        sys.stderr.write(f"{MissingExtraError('agora', 'cli')}\n")
        sys.exit(1)
    from agora.cli.group import agora

    agora(prog_name="agora")


__all__ = ["main"]
