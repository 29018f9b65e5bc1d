import json
from pathlib import Path
from typing import Any

import pytest

from harness.agents.analysis import Pair
from harness.agents.excerpt import excerpt
from harness.agents.proof import changed_beside_messages, changed_on_disk, home_touched
from harness.agents.record import Request
from harness.agents.session import contents

MARKED = "[steps 1-2 elided]\n1 read a.py -> ID-11111"


def request(text: str, *, path: str = "/v1/chat/completions?beta=1", **known: Any) -> Request:
    body = known.pop("body", {"model": "gpt-5", "messages": [{"role": "user", "content": text}]})
    headers = known.pop("headers", [("Accept", "*/*"), ("X-New", "1")])
    return Request(
        number=1, at=1.0, method="POST", path=path, headers=headers, body=json.dumps(body).encode()
    )


def exchange(**arrived: Any) -> Pair:
    return Pair(request("ID-11111 ID-22222"), (request(MARKED, **arrived),))


def test_an_edit_of_the_messages_alone_is_no_problem() -> None:
    assert changed_beside_messages([exchange()]) == []


@pytest.mark.parametrize(
    "arrived",
    [
        {"path": "/v1/chat/completions"},
        {"headers": [("Accept", "*/*")]},
        {"headers": [("X-New", "1"), ("Accept", "*/*")]},
        {"headers": [("Accept", "*/*"), ("X-New", "2")]},
        {"body": {"model": "gpt-5", "messages": [], "more": 1}},
        {"body": {"messages": [], "model": "gpt-4"}},
    ],
)
def test_anything_else_that_differs_is_found(arrived: dict[str, Any]) -> None:
    assert len(changed_beside_messages([exchange(**arrived)])) == 1


def session(folder: Path, history: str) -> Path:
    for name in ("home", "repository", "tmp"):
        (folder / name).mkdir()
    (folder / "home" / "settings.json").write_text("{}")
    (folder / "home.json").write_text(json.dumps(contents(folder / "home")))
    (folder / "home" / "history.jsonl").write_text(history)
    return folder


def test_a_history_that_is_whole_on_disk_is_no_problem(tmp_path: Path) -> None:
    folder = session(tmp_path, "ID-11111 ID-22222")

    assert changed_on_disk(folder, [exchange()]) == []
    assert home_touched(folder) == []


def test_what_is_missing_on_disk_or_marked_there_is_found(tmp_path: Path) -> None:
    found = changed_on_disk(session(tmp_path, MARKED), [exchange()])

    assert len(found) == 2


def test_a_file_of_the_user_that_was_changed_is_found_unless_the_agent_does_so(
    tmp_path: Path,
) -> None:
    folder = session(tmp_path, "")
    (folder / "home" / "settings.json").write_text("{1}")
    (folder / "tmp" / "agora-wrap-x").mkdir()
    (folder / "gateway.log").write_text("sk-proj-madeup0000000000000000000000000000000000000000")

    assert len(home_touched(folder)) == 3
    (folder / "direct.json").write_text('["settings.json"]')
    assert len(home_touched(folder)) == 2


def test_an_excerpt_shows_the_longest_marker_and_no_place_on_this_machine() -> None:
    text = f"{MARKED}\n2 read /some/where/repository/pkg/b.py"
    found = excerpt([Pair(request("whole"), (request(text),))])

    assert "[steps 1-2 elided]" in found
    assert "/pkg/b.py" in found
    assert "where" not in found
    assert excerpt([]) == ""
