"""Claude Code itself in `agora wrap`, where `python -m benchmarks.agents` has installed it."""

from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra wrap is not installed")

from benchmarks.agents import CACHE, analysed
from harness.agents.drivers import AGENTS
from harness.agents.install import installed
from harness.agents.session import Plan, run_session

TOOLS = CACHE / "tools"


@pytest.mark.long
@pytest.mark.skipif(
    not installed(AGENTS["claude"].package, TOOLS), reason="Claude Code is not installed"
)
@pytest.mark.parametrize("kill_after", [0, 20])
def test_a_session_is_legal_whole_and_billed_as_claimed(tmp_path: Path, kill_after: int) -> None:
    plan = Plan(steps=30, kill_after=kill_after)

    code = run_session(AGENTS["claude"], TOOLS, tmp_path / "session", plan, lambda _: None)

    row, problems = analysed(tmp_path / "session", plan, code)
    assert problems == []
    assert row.edited > 10
