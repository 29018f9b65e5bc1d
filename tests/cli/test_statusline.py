import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra wrap is not installed")

from agora.service import Account

# Private: any report of Claude Code, without a process for each.
from agora.wrapping.status import STATE, status
from tests.cli.conftest import Run

TOLD: dict[str, Any] = json.loads("""
{
 "session_id": "744d36d7-a967-438e-8cb6-c028cca033ca",
 "transcript_path": "/home/me/.claude/projects/-home-me-work/744d36d7.jsonl",
 "cwd": "/home/me/work",
 "prompt_id": "7c95c7f0-b336-4d30-a356-2e70a89ada4a",
 "effort": {
  "level": "medium"
 },
 "model": {
  "id": "claude-opus-5-5",
  "display_name": "Opus 5.5"
 },
 "workspace": {
  "current_dir": "/home/me/work",
  "project_dir": "/home/me/work",
  "added_dirs": []
 },
 "version": "2.1.325",
 "output_style": {
  "name": "default"
 },
 "cost": {
  "total_cost_usd": 0.0073,
  "total_duration_ms": 12843,
  "total_api_duration_ms": 54,
  "total_lines_added": 0,
  "total_lines_removed": 0
 },
 "context_window": {
  "total_input_tokens": 10100,
  "total_output_tokens": 5,
  "context_window_size": 1000000,
  "current_usage": {
   "input_tokens": 100,
   "output_tokens": 5,
   "cache_creation_input_tokens": 1000,
   "cache_read_input_tokens": 9000
  },
  "used_percentage": 1,
  "remaining_percentage": 99
 },
 "exceeds_200k_tokens": false,
 "prompt_cache": {
  "warm": true,
  "caching_observed": true,
  "ttl": "5m",
  "expires_at": 1794954677,
  "requests": 1,
  "misses": 0,
  "expected_rebuilds": 0,
  "hit_ratio": 0.8910891089108911,
  "cache_write_tokens": 1000,
  "miss_recache_tokens": 0,
  "last_miss_at": null,
  "last_miss_cause": null,
  "miss_causes": {},
  "recache_tokens_if_cold": 10100
 },
 "fast_mode": false,
 "thinking": {
  "enabled": true
 }
}
""")
"""What Claude Code 2.1.325 told in a session of `agora wrap`, its paths replaced."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from([*TOLD, *TOLD["context_window"], "x"]), inside, max_size=4
        )
    ),
)


@pytest.mark.parametrize("state", ["", "/no/such/folder/account.json"])
def test_outside_a_session_it_says_so_and_what_claude_code_tells_of_the_cache(
    run: Run, state: str
) -> None:
    result = run("statusline", input=json.dumps(TOLD), **{STATE: state})

    assert result.exit_code == 0
    assert result.stdout == "agora: off, start with `agora wrap claude` · 89% cached\n"


def test_before_the_first_call_claude_code_tells_nothing_of_the_cache() -> None:
    window = {**TOLD["context_window"], "current_usage": None}

    assert status(None, {**TOLD, "context_window": window}) == status(None, None)


@pytest.mark.parametrize("told", ["", "no json", "[]", '{"context_window": 3}', "[" * 100_000])
def test_input_that_is_not_claude_codes_costs_the_cache_and_nothing_else(
    run: Run, told: str
) -> None:
    result = run("statusline", input=told, **{STATE: ""})

    assert result.exit_code == 0
    assert result.stdout == "agora: off, start with `agora wrap claude`\n"


def test_figures_that_cannot_be_read_are_none_yet(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    path.write_text('{"calls": ')

    result = run("statusline", input="{}", **{STATE: str(path)})

    assert (result.exit_code, result.stdout) == (0, "agora: on, no calls yet\n")


@pytest.mark.parametrize(
    ("account", "line"),
    [
        (Account(), "agora: on, no calls yet"),
        (Account(calls=1, billed=1, dollars=0.2), "agora: nothing saved · 1 call, 0 shortened"),
        (Account(calls=2, edited=1), "agora: no usage reported · 2 calls, 1 shortened"),
    ],
)
def test_the_line_says_what_is_known(account: Account, line: str) -> None:
    assert status(account, TOLD) == line


@pytest.mark.parametrize(
    ("saved", "words"),
    [(0.5, "about $0.50 saved"), (-0.25, "about $0.25 more than unshortened")],
)
def test_dollars_are_told_whatever_their_sign(saved: float, words: str) -> None:
    account = Account(calls=2, billed=2, edited=1, dollars=1.0, saved=saved)

    assert status(account, None) == f"agora: {words} · 2 calls, 1 shortened"


@given(JSON)
def test_whatever_is_told_there_is_one_line(told: Any) -> None:
    assert status(None, told).count("\n") == 0
    assert status(None, told).startswith("agora: off")
