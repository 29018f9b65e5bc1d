import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agora_lab.chats import text_of
from agora_lab.methods import NAMES, MethodSettings, SkipMethod, close, method
from agora_lab.methods.isolated import Isolated, Peer, PeerError
from agora_lab.methods.tool_form import with_calls

WORKER = """
import os, pathlib, time

def prepare(options):
    if options.get("broken"):
        raise RuntimeError("no weights")
    def answer(request):
        print("chatter")
        todo = request["todo"]
        if todo == "die once":
            flag = pathlib.Path(request["flag"])
            if not flag.exists():
                flag.touch()
                os._exit(3)
        if todo == "die":
            os._exit(3)
        if todo == "sleep":
            time.sleep(60)
        if todo == "raise":
            raise KeyError("content")
        return {"said": todo, "environment": sorted(os.environ), "pid": os.getpid()}
    return answer
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Isolated]:
    monkeypatch.setenv("AGORA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "not for peers")
    (tmp_path / "echo.py").write_text(WORKER)
    started = Isolated(Peer("echo", (), tmp_path), timeout_s=20)
    yield started
    started.close()


def test_answers_come_back_whatever_a_peer_prints(peer: Isolated) -> None:
    answers = [peer.ask({"todo": text}) for text in ("a", "ü\n\ud800", "")]

    assert [answer["said"] for answer in answers] == ["a", "ü\n\ud800", ""]
    assert len({answer["pid"] for answer in answers}) == 1


def test_a_peer_sees_none_of_our_keys(peer: Isolated) -> None:
    assert "OPENAI_API_KEY" not in peer.ask({"todo": "look"})["environment"]


def test_a_peer_that_dies_is_started_again(peer: Isolated, tmp_path: Path) -> None:
    first = peer.ask({"todo": "a"})["pid"]

    again = peer.ask({"todo": "die once", "flag": str(tmp_path / "flag")})

    assert again["said"] == "die once"
    assert again["pid"] != first


def test_a_peer_that_keeps_dying_is_an_error(peer: Isolated) -> None:
    with pytest.raises(PeerError, match="failed 2 times: its process ended"):
        peer.ask({"todo": "die"})
    assert peer.ask({"todo": "a"})["said"] == "a"


def test_a_peer_that_is_too_slow_is_ended(peer: Isolated) -> None:
    peer.ask({"todo": "a"})
    peer.timeout_s = 0.3
    began = time.monotonic()

    with pytest.raises(PeerError, match="no answer within"):
        peer.ask({"todo": "sleep"})

    assert time.monotonic() - began < 30


def test_an_error_of_a_peer_is_told_and_its_process_lives_on(peer: Isolated) -> None:
    first = peer.ask({"todo": "a"})["pid"]

    with pytest.raises(PeerError, match="raised KeyError"):
        peer.ask({"todo": "raise"})

    assert peer.ask({"todo": "a"})["pid"] == first


def test_a_peer_that_cannot_start_is_skipped_with_its_reason(peer: Isolated) -> None:
    peer.options = {"broken": True}

    with pytest.raises(SkipMethod, match="RuntimeError: no weights"):
        peer.ask({"todo": "a"})


def test_the_environment_is_made_once(peer: Isolated, tmp_path: Path) -> None:
    peer.ask({"todo": "a"})
    peer.close()
    made = list((tmp_path / "cache" / "peers").iterdir())
    peer.ask({"todo": "a"})

    assert list((tmp_path / "cache" / "peers").iterdir()) == made


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [n for n in NAMES if n.startswith(("langchain", "litellm", "headroom"))]
)
def test_a_released_peer_keeps_instructions_task_and_pending_observation(name: str) -> None:
    chat = _chat(14)
    try:
        peer = method(name, MethodSettings(model="gpt-4o"))
        shortened = peer.shorten(chat)
    except SkipMethod as why:
        pytest.skip(str(why))

    assert peer.shorten(chat) == shortened
    assert text_of(shortened.messages[0]) == text_of(chat[0])
    assert text_of(shortened.messages[-1]) == text_of(chat[-1])
    assert [m["role"] for m in shortened.messages] == [m["role"] for m in chat]
    assert (list(shortened.messages) == chat) == bool(shortened.detail)
    for garbled in ([], [{"role": "assistant"}], [{"role": "user", "content": None}]):
        peer.shorten(garbled)
    close(peer)


def test_steps_as_tool_calls_are_as_many_messages_in_the_same_order() -> None:
    from agora_lab.chats import read

    calls = with_calls(read(_chat(3)))

    assert [m["role"] for m in calls] == ["system", "user", *["assistant", "tool"] * 3]
    assert calls[2]["tool_calls"][0]["id"] == calls[3]["tool_call_id"]


def _chat(steps: int) -> list[dict[str, Any]]:
    chat = [
        {"role": "system", "content": "You act in a house."},
        {"role": "user", "content": "Put a mug in the desk."},
    ]
    for number in range(steps):
        seen = ", ".join(f"a mug {number + k}" for k in range(40))
        chat.append({"role": "assistant", "content": f"go to shelf {number}"})
        chat.append({"role": "user", "content": f"On the shelf {number}, you see {seen}."})
    return chat
