"""Draws `terminal-wrap-*.svg` and `terminal-top-*.svg`: a wrapped agent, and a gateway watched.

Run with the extra `wrap` installed: python docs/images/make_terminal_served.py
The agent is a program that sends the recorded session of `agora demo` again, call by call, to an
upstream on this machine that bills by an exact prefix cache. Nothing else is asked.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from make_terminal import draw, printed

sys.path.insert(0, str(Path(__file__).parents[2]))

from agora.cli.demo import recorded
from harness.gateway.cached_upstream import Cached
from harness.gateway.loopback import config_for, gateway, serving

WIDER = 124
AGENT = """#!{python}
import json, os, urllib.request
for body in json.load(open({bodies!r})):
    address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    headers = {{"content-type": "application/json", "x-api-key": "none-needed"}}
    asked = urllib.request.Request(address, json.dumps(body).encode(), headers)
    urllib.request.urlopen(asked).read()
print("my-agent: done")
"""


def calls() -> list[dict[str, Any]]:
    """Return the request of every call of the recorded session, as Anthropic's API has them."""
    session = json.loads(recorded())
    system, *rest = session["messages"]
    messages: list[dict[str, Any]] = []
    asked = []
    for message in rest:
        if message["role"] == "assistant":
            head = {"model": session["model"], "max_tokens": 4_096, "system": system["content"]}
            asked.append({**head, "messages": list(messages)})
        messages.append(_anthropic(message))
    return asked


def _anthropic(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        result = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [{"type": "tool_result", **result}]}
    content: list[dict[str, Any]] = []
    if message.get("content"):
        content.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls") or ():
        function = call["function"]
        used = {"name": function["name"], "input": json.loads(function["arguments"])}
        content.append({"type": "tool_use", "id": call["id"], **used})
    return {"role": message["role"], "content": content}


def agent_in(folder: Path) -> Path:
    """Return the agent's program, with what it sends beside it."""
    bodies = folder / "bodies.json"
    bodies.write_text(json.dumps(calls()), encoding="utf-8")
    agent = folder / "my-agent"
    agent.write_text(AGENT.format(python=sys.executable, bodies=str(bodies)), encoding="utf-8")
    agent.chmod(0o755)
    return agent


def main() -> None:
    """Run the agent wrapped, then before a gateway that is watched; each has a cold cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = agent_in(folder)
        with serving(Cached()) as upstream:
            command = f"agora wrap {agent.name}"
            found = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": name}
            said = printed(command, folder, ANTHROPIC_BASE_URL=upstream, **found)
            draw("wrap", command, said)
        with serving(Cached()) as upstream, gateway(config_for(upstream)) as (address, _):
            environment = {**os.environ, "ANTHROPIC_BASE_URL": address}
            subprocess.run([str(agent)], env=environment, check=True)  # noqa: S603 - our own
            command = f"agora top {address} --once"
            draw("top", command, printed(command, folder, width=WIDER), width=WIDER)


if __name__ == "__main__":
    main()
