"""Real coding agents by `agora wrap`, at their pinned versions: minutes each, so not for CI.

`AGORA_AGENTS=claude,codex pytest -m long tests/agents/test_real_sessions.py` runs some of them;
they are installed into AGORA_AGENTS_TOOLS, by default a cache folder.
"""

import os
from pathlib import Path

import pytest

from agora.compressor import Compressor
from harness.agents.analysis import analyse, offline, pair
from harness.agents.drivers import AGENTS
from harness.agents.install import install, installed
from harness.agents.proof import changed_beside_messages, changed_on_disk, home_touched
from harness.agents.record import read_requests
from harness.agents.session import Plan, run_session

NAMES = os.environ.get("AGORA_AGENTS", "claude-sonnet,codex-gpt-5,pi-messages").split(",")
STEPS = int(os.environ.get("AGORA_AGENTS_STEPS", "45"))
TOOLS = Path(os.environ.get("AGORA_AGENTS_TOOLS", Path.home() / ".cache/agora-agents/tools"))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_session_finishes_and_only_messages_are_changed(
    name: str, tmp_path: Path
) -> None:
    agent = AGENTS[name]
    install([agent.package], TOOLS)

    outcome = run_session(
        agent,
        installed(agent.package, TOOLS),
        TOOLS,
        tmp_path / "session",
        Plan(steps=STEPS),
        "",
        lambda _: None,
    )

    folder = tmp_path / "session"
    exchanges = pair(read_requests(folder / "agent"), read_requests(folder / "provider"))
    row = analyse(exchanges, offline(exchanges, Compressor()), 0.0)
    assert outcome.exit_code == 0, (folder / "agent.log").read_text(errors="replace")[-2_000:]
    assert row.calls > STEPS
    assert row.legal
    assert row.lost == 0
    assert row.breaks.unwanted == ()
    assert changed_beside_messages(exchanges) == []
    assert changed_on_disk(folder, exchanges) == []
    assert home_touched(folder) == []
