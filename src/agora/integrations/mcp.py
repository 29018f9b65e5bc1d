"""Model Context Protocol: a server that shows an agent its elided steps again.

MCP cannot shorten a prompt; it can bring a step back. `python -m agora.integrations.mcp FILE`
serves the steps of a file that the agent's program keeps writing: a request, or bare messages, as
JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agora.adapters import parse, read_request
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME
from agora.errors import AgoraError, MissingExtraError

try:
    from mcp.server.mcpserver import MCPServer
except ImportError as error:
    raise MissingExtraError(__name__, "mcp") from error


def recall_server(source: Callable[[], Any] | Path) -> MCPServer:
    """Return a server with the one tool `agora_recall`.

    Args:
        source: gives the conversation as it stands, whole, in any format that is known: a
            function for a server inside the agent's process, or the path of a JSON file.

    """
    server = MCPServer("agora")

    @server.tool(name=TOOL_NAME, description=TOOL_DESCRIPTION)
    def agora_recall(step: int) -> str:
        try:
            return step_of(source() if callable(source) else _load(source), step)
        except (AgoraError, OSError, ValueError, LookupError, TypeError) as error:
            # The agent can do something with a sentence, and nothing with a protocol's error.
            return f"step {step} cannot be shown: {error}"

    return server


def step_of(request: Any, number: int) -> str:
    r"""Return a step of a conversation in full.

    >>> step_of("[USER] find it [ASSISTANT] look [USER] a key lies here", 1)
    'step 1\nlook\na key lies here'

    Raises:
        AgoraError: there is no such step, or the conversation cannot be read.
    """
    return parse(read_request(request)).trajectory.recall(number)


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Serve the file that the first argument names, over standard input and output."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m agora.integrations.mcp FILE (the conversation, as JSON)")
    recall_server(Path(sys.argv[1])).run("stdio")


if __name__ == "__main__":
    main()
