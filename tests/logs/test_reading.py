"""Reading logs: what the kinds have in common, and files in any state."""

import gzip
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora.errors import UnknownFormatError
from agora.formats import validate

# Private: a limit made small, so that a file can pass it.
from agora.logs import KINDS, Recording, Tally, read_logs, source

FIXTURES = Path(__file__).parent / "fixtures"


def read(path: Path, kind: str | None = None) -> tuple[list[Recording], Tally]:
    tally = Tally()
    recordings = list(read_logs([path], tally, kind=kind))
    assert tally.recordings == len(recordings)
    return recordings, tally


def lines(values: Iterable[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def request(number: int) -> dict[str, Any]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {
        "model": "gpt-5",
        "messages": [
            {"role": "user", "content": f"Find key {number}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"in drawer {number}"},
        ],
    }


REQUESTS = [request(n) for n in range(20)]


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("claude_code.jsonl", "claude-code", 4),
        ("litellm.jsonl", "litellm", 2),
        ("otel.jsonl", "otel", 1),
        ("codex.jsonl", "codex", 1),
        ("mini_swe_agent.traj.json", "mini-swe-agent", 1),
    ],
)
def test_a_log_is_known_by_its_records_and_its_recordings_are_legal(
    name: str, kind: str, count: int, tmp_path: Path
) -> None:
    other_name = tmp_path / "requests.jsonl"
    other_name.write_bytes((FIXTURES / name).read_bytes())

    recordings, _ = read(other_name)

    assert [(r.messages, r.calls) for r in recordings] == [
        (r.messages, r.calls) for r in read(FIXTURES / name, kind)[0]
    ]
    assert len(recordings) == count
    for recording in recordings:
        assert not validate(
            recording.messages,
            format=recording.format,
            system=recording.system,
            tools=recording.tools,
        )
        assert all(0 < sent <= len(recording.messages) for sent in recording.calls)
        assert list(recording.at_seconds) == sorted(recording.at_seconds)


@pytest.mark.parametrize("layout", ["lines", "array", "printed array", "one line"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_the_same_records_are_read_from_every_layout(
    layout: str, pack: Any, tmp_path: Path
) -> None:
    text = {
        "lines": lines(REQUESTS),
        "array": "[\n" + ",\n".join(map(json.dumps, REQUESTS)) + "\n]\n",
        "printed array": json.dumps(REQUESTS, indent=2),
        "one line": json.dumps(REQUESTS),
    }[layout]
    path = tmp_path / "log"
    path.write_bytes(pack(b"\xef\xbb\xbf" + text.encode()))

    recordings, tally = read(path)

    assert [r.messages for r in recordings] == [value["messages"] for value in REQUESTS]
    assert (tally.records, tally.bad, tally.bytes_read) == (20, 0, len(text))


def test_a_bad_line_costs_only_itself(tmp_path: Path) -> None:
    texts = [json.dumps(value) for value in REQUESTS]
    texts[7] = texts[7].replace('": ', '" ', 1)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(texts))

    recordings, tally = read(path)

    assert len(recordings) == 19
    assert tally.bad == 1
    assert tally.examples[0].where == "log.jsonl:8"
    assert tally.examples[0].problem.startswith("is not JSON: Expecting ':' delimiter")


def test_a_document_cut_off_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(REQUESTS, indent=1)[:-100])

    recordings, tally = read(path)

    assert not recordings
    assert (tally.bad, tally.examples[0].where) == (1, "log.json")
    assert tally.examples[0].problem.startswith("is not JSON")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_cut_off_is_refused_and_reading_goes_on(pack: Any, tmp_path: Path) -> None:
    whole = pack(lines(REQUESTS * 500).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "good.jsonl").write_text(lines(REQUESTS[:1]))

    recordings, tally = read(tmp_path)

    assert "damaged or cut off" in tally.examples[-1].problem
    assert recordings[-1].id == "good.jsonl:1"


def test_text_that_is_not_json_is_given_up_after_a_thousand_lines(tmp_path: Path) -> None:
    path = tmp_path / "notes.log"
    path.write_bytes(b"not json\n" * 5_000 + b"\xff\n")

    recordings, tally = read(path)

    assert not recordings
    assert tally.bad == 1_001
    assert tally.examples[0].where == "notes.log:1"


@pytest.mark.parametrize("document", [False, True])
def test_a_record_too_large_to_hold_is_refused(
    document: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_RECORD_BYTES", 4_096)
    large = {"messages": [{"role": "user", "content": "x" * 10_000}]}
    path = tmp_path / "log"
    path.write_text(json.dumps(large, indent=1) if document else lines([*REQUESTS, large]))

    recordings, tally = read(path)

    assert (len(recordings), tally.bad) == (0 if document else 20, 1)
    assert "more than" in tally.examples[0].problem


def test_files_that_cannot_be_opened_or_are_of_no_kind_are_counted(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(lines([{"failure": 1, "reason": "x"}]))
    (tmp_path / "empty.jsonl").write_text("")
    tally = Tally()

    assert not list(read_logs([tmp_path, tmp_path / "missing.json"], tally))

    assert tally.files == 3
    assert "is an object with failure, reason: not a kind" in tally.examples[0].problem
    assert "cannot be read: No such file" in tally.examples[1].problem


def test_in_a_folder_only_files_named_like_logs_are_read(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.jsonl", "deep/b.jsonl.gz", "LICENSE", "notes.md"):
        data = lines(REQUESTS[:1]).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    tally = Tally()

    ids = [recording.id for recording in read_logs([tmp_path], tally)]

    assert ids == ["a.jsonl:1", "b.jsonl.gz:1"]


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnknownFormatError, match="claude-code"):
        read_logs([], Tally(), kind="langwitch")


def test_the_first_bad_records_are_kept_as_examples_and_all_are_counted() -> None:
    tally = Tally()
    for n in range(30):
        tally.refuse(f"a:{n}", "x")

    assert (tally.bad, len(tally.examples), tally.examples[0].where) == (30, 20, "a:0")


NAMES = st.sampled_from(
    "role content messages input tool_calls id function arguments name type text message "
    "request response body choices output usage model call_type startTime uuid parentUuid "
    "sessionId isSidechain timestamp resourceSpans scopeSpans spans attributes key value "
    "stringValue traceId spanId gen_ai.input.messages gen_ai.prompt.0.role llm.input_messages.0 "
    "parts events subtype previous_response_id system tools call_id payload info tool_call_id "
    "args source trajectory_format extra object replacement_history num_turns".split()
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "tool_use", "tool_result", "text", "completion",
     "compact_boundary", "session_meta", "response_item", "compacted", "event_msg",
     "token_count", "thread_rolled_back", "function_call", "function_call_output",
     "mini-swe-agent-1", "response", "", "> go\nok", "[", "\ud800", "2026-01-01T00:00:00Z"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(values=st.lists(st.dictionaries(NAMES, VALUES, max_size=8) | VALUES, max_size=5))
def test_no_record_stops_the_reading(kind: str, values: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(lines([{}, *values]))

    recordings, tally = read(path, kind)

    assert tally.records == len(values) + 1
    for recording in recordings:
        json.dumps(recording.messages)
        assert all(0 <= sent <= len(recording.messages) for sent in recording.calls)


def test_values_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    deep = '{"messages": [{"role": "user", "content": ' + "[" * 950 + "]" * 950 + "}]}"
    path = tmp_path / "log.jsonl"
    path.write_text(deep + "\n" + "[" * 100_000 + "\n" + deep + "\n" + lines(REQUESTS[:1]))

    for kind in KINDS:
        _, tally = read(path, kind)
        assert tally.bad >= 1


@given(text=st.text(alphabet='[]{}",:1 \n\\ut', max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
def test_any_text_is_read_to_its_end(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)

    _, tally = read(path)

    assert tally.bytes_read == len(text.encode())
