import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.wrapping.account import Account
from agora.wrapping.status import METRICS, status
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


@pytest.mark.parametrize("folder", ["", "/no/such/folder"])
def test_outside_a_session_it_says_so_and_what_claude_code_tells_of_the_cache(
    run: Run, folder: str
) -> None:
    result = run("statusline", input=json.dumps(TOLD), **{METRICS: folder})

    assert result.exit_code == 0
    assert result.stdout == "agora: off, start with `agora wrap claude` · 89% cached\n"


def test_before_the_first_call_claude_code_tells_nothing_of_the_cache() -> None:
    window = {**TOLD["context_window"], "current_usage": None}

    assert status(None, {**TOLD, "context_window": window}) == status(None, None)


@pytest.mark.parametrize("told", ["", "no json", "[]", '{"context_window": 3}', "[" * 100_000])
def test_input_that_is_not_claude_codes_costs_the_cache_and_nothing_else(
    run: Run, told: str
) -> None:
    result = run("statusline", input=told, **{METRICS: ""})

    assert result.exit_code == 0
    assert result.stdout == "agora: off, start with `agora wrap claude`\n"


def test_figures_that_cannot_be_read_are_said_and_no_error(run: Run, tmp_path: Path) -> None:
    # It says that a name of 10,000 bytes follows.
    (tmp_path / "counter_1.db").write_bytes(struct.pack("<iii", 64, 0, 10_000) + bytes(64))

    result = run("statusline", input="{}", **{METRICS: str(tmp_path)})

    assert result.exit_code == 0
    assert result.stdout.startswith("agora: no figures (")


EDITED = Account(calls=2, edited=1, tokens_in=100, tokens_cached=50, tokens_elided=1_234)


@pytest.mark.parametrize(
    ("account", "line"),
    [
        (Account(), "agora: on, no calls yet"),
        (Account(calls=1, dollars=0.2), "agora: nothing to save yet · 1 call, 0 edited"),
        (EDITED, "agora: 1,234 tokens elided · 2 calls, 1 edited · 50% cached"),
    ],
)
def test_the_line_says_what_is_known(account: Account, line: str) -> None:
    assert status(account, TOLD) == line


@pytest.mark.parametrize(
    ("saved", "shadow", "words"),
    [
        (0.5, False, "$0.50 of $1.50 saved"),
        (-0.25, False, "$0.25 lost so far"),
        (0.5, True, "$0.50 would be saved"),
        (-0.25, True, "$0.25 would be lost"),
    ],
)
def test_dollars_are_told_whatever_their_sign(saved: float, shadow: bool, words: str) -> None:
    account = Account(calls=2, edited=1, dollars=1.0, dollars_saved=saved, shadow=shadow)

    assert status(account, None) == f"agora: {words} · 2 calls, 1 edited"


@given(JSON)
def test_whatever_is_told_there_is_one_line(told: Any) -> None:
    assert status(None, told).count("\n") == 0
    assert status(None, told).startswith("agora: off")
