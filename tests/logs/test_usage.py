import json
import lzma
from pathlib import Path
from typing import Any

from agora.logs import Tally, Usage, read_logs


def conversation(calls: int) -> dict[str, Any]:
    messages: list[dict[str, str]] = [{"role": "user", "content": "Find the key."}]
    for n in range(calls):
        messages.append({"role": "assistant", "content": f"look {n}"})
        messages.append({"role": "user", "content": f"nothing in box {n}"})
    usage = [{"prompt_tokens": 10 + n, "cached_tokens": n} for n in range(calls)]
    return {"id": "task-1", "model": "gpt-5", "messages": messages, "usage": usage}


def test_usage_beside_a_finished_conversation_is_that_of_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl.xz"
    with lzma.open(path, "wt") as out:
        out.write(json.dumps(conversation(3)) + "\n")

    [recording] = read_logs([tmp_path], Tally())

    assert recording.usage == (Usage(10), Usage(10, 1), Usage(10, 2))
    assert recording.task == "task-1"


def test_usage_that_does_not_fit_the_calls_is_left_out(tmp_path: Path) -> None:
    value = conversation(3)
    value["usage"].pop()
    (tmp_path / "runs.jsonl").write_text(json.dumps(value))

    [recording] = read_logs([tmp_path], Tally())

    assert recording.usage == ()


def test_a_damaged_xz_file_is_put_down_and_reading_goes_on(tmp_path: Path) -> None:
    whole = lzma.compress((json.dumps(conversation(2)) + "\n").encode() * 2_000)
    (tmp_path / "cut.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "good.jsonl").write_text(json.dumps(conversation(2)))
    tally = Tally()

    recordings = list(read_logs([tmp_path], tally))

    assert tally.bad
    assert recordings[-1].id == "good.jsonl:1"
