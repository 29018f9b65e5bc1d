import json
import logging
import os
import stat
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.gateway.config import Compression, Journal, parse_config
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.journal import CannotKeepError, journal_for, line_of
from agora.gateway.watching.journal import Journal as Written
from agora.gateway.watching.metrics import Meter
from harness.gateway.histories import chat
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

KEY = "sk-canary-7f3a9c1e5b2d8f60"


def lines_in(folder: Path) -> list[bytes]:
    files = sorted(folder.glob("*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines() if line]


def send(url: str, body: bytes) -> None:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
        answer.read()


def test_a_prompt_is_kept_as_it_came_with_what_was_decided_and_no_key(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    body = json.dumps(chat(40), indent=1).encode()
    with serving(StrictUpstream()) as up:
        config = config_for(up, journal=Journal(folder=str(folder)))
        with gateway(config) as (url, _):
            send(url, body)
            send(url, json.dumps(chat(0)).encode())

    # The second is too short to be decided on.
    [line] = lines_in(folder)
    told = json.loads(line)
    assert told["request"] == chat(40)
    assert told["route"] == "chat"
    assert told["reason"] == "compressed"
    assert KEY.encode() not in line
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_kept_unless_a_folder_is_named(tmp_path: Path) -> None:
    assert journal_for(parse_config("upstreams = []").journal, print) is None
    told = parse_config(f'upstreams = []\n[journal]\nfolder = "{tmp_path}"\nmax_mb = 3\n')

    assert told.journal == Journal(folder=str(tmp_path), max_mb=3)
    assert any(str(tmp_path) in note for note in told.notes())


def test_beyond_the_most_nothing_more_is_written_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = Exchange(route="chat", tenant="t")
    body = b'{"messages": ["' + b"x" * (1 << 19) + b'"]}'
    lost: list[str] = []
    with caplog.at_level(logging.WARNING):
        journal = Written(Journal(folder=str(tmp_path), max_mb=1), lost.append)
        for _ in range(5):
            journal.add(exchange, body)
        journal.close()

    assert lines_in(tmp_path) == [line_of(exchange, body).rstrip(b"\n")]
    assert [record.getMessage() for record in caplog.records] == [
        "prompts are missing from the journal: journal.max_mb is reached"
    ]
    assert lost == ["max_mb"] * 4


def test_a_folder_that_cannot_be_written_to_is_found_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    with pytest.raises(CannotKeepError, match="cannot be written to"):
        journal_for(Journal(folder=str(file / "below")), print)


def test_a_disk_that_is_full_is_seen_in_the_metrics_alone_and_may_have_room_again(
    tmp_path: Path,
) -> None:
    exchange, meter = Exchange(route="chat", tenant="t"), Meter()
    body = b'{"messages": ["' + b"x" * 3_000 + b'"]}'
    journal = Written(Journal(folder=str(tmp_path)), meter.journal_lost)

    def lost() -> float:
        return meter.snapshot().total("agora_journal_lost_total", why="write_failed")

    # Where it is written to a device that is always full, and afterwards to its file again.
    file = os.dup(journal._file)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, journal._file)
    for n in (1, 2):
        journal.add(exchange, body)
        until = time.monotonic() + 20
        while lost() < n and time.monotonic() < until:
            time.sleep(0.01)
    os.dup2(file, journal._file)
    assert lost() == 2
    journal.add(exchange, body)
    journal.close()
    os.close(file)
    os.close(full)

    assert lines_in(tmp_path) == [line_of(exchange, body).rstrip(b"\n")]


def test_in_shadow_prompts_are_kept_too(tmp_path: Path) -> None:
    with serving(StrictUpstream()) as up:
        shadow = Compression(min_tokens=200, mode="shadow")
        config = config_for(up, compression=shadow, journal=Journal(folder=str(tmp_path)))
        with gateway(config) as (url, app):
            send(url, json.dumps(chat(40)).encode())
            # Deciding goes on behind the answer; stopping would give it up.
            until = time.monotonic() + 60
            while not app.forwarder.meter.snapshot().total("agora_shadow_requests_total"):
                assert time.monotonic() < until, "nothing was decided"
                time.sleep(0.01)

    [line] = lines_in(tmp_path)
    told = json.loads(line)
    assert told["reason"] == "shadow"
    assert told["would_remove"] > 0
