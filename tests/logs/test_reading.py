"""Reading logs: what the kinds have in common, and files of any size and state."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora.adapters import validate
from agora.errors import UnknownFormatError
from agora.logs import KINDS, Recording, Tally, read_logs, source

FIXTURES = Path(__file__).parent / "fixtures"


def read(path: Path, kind: str | None = None) -> tuple[list[Recording], Tally]:
    tally = Tally()
    recordings = list(read_logs([path], tally, kind=kind))
    assert tally.recordings == len(recordings)
    return recordings, tally


def lines(values: Iterable[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def game(*steps: str) -> dict[str, Any]:
    moves = "".join(f"\n> go to {step}\nYou see {step}." for step in steps)
    return {"name": "find", "traj": f"You are in a room.{moves}"}


GAMES = [game(f"shelf {n}", f"drawer {n}") for n in range(20)]


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("claude_code.jsonl", "claude-code", 4),
        ("inspect.json", "inspect", 2),
        ("litellm.jsonl", "litellm", 2),
        ("otel.jsonl", "otel", 1),
        ("codex.jsonl", "codex", 1),
        ("gemini_cli.json", "gemini-cli", 1),
        ("gemini_cli.jsonl", "gemini-cli", 2),
        ("opencode.db", "opencode", 1),
        ("opencode.json", "opencode", 1),
        ("mini_swe_agent.traj.json", "mini-swe-agent", 1),
        ("langsmith.jsonl", "langsmith", 1),
        ("langfuse.json", "langfuse", 1),
        ("swe_agent.traj", "recorded", 1),
    ],
)
def test_a_log_is_known_by_its_records_and_what_it_gives_is_legal(
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


@pytest.mark.parametrize("layout", ["lines", "array", "printed array", "printed", "one line"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_records_are_read_from_every_layout(
    layout: str, packed: bool, tmp_path: Path
) -> None:
    text = {
        "lines": lines(GAMES),
        "array": "[\n" + ",\n".join(map(json.dumps, GAMES)) + "\n]\n",
        "printed array": json.dumps(GAMES, indent=2),
        "printed": "\n".join(json.dumps(value, indent=4) for value in GAMES),
        "one line": json.dumps(GAMES),
    }[layout]
    path = tmp_path / "log"
    data = b"\xef\xbb\xbf" + text.encode()
    path.write_bytes(gzip.compress(data) if packed else data)

    recordings, tally = read(path)

    assert [r.messages for r in recordings] == [
        r.messages for value in GAMES for r in _read_one(tmp_path, value)
    ]
    assert (tally.records, tally.bad, tally.bytes_read) == (20, 0, len(data) - 3)


def _read_one(folder: Path, value: Any) -> list[Recording]:
    path = folder / "one"
    path.write_text(json.dumps(value))
    return read(path)[0]


@pytest.mark.parametrize("layout", ["lines", "array", "printed array"])
def test_a_bad_record_costs_only_itself(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_CHUNK_BYTES", 512)
    texts = [json.dumps(value, indent=1 if "printed" in layout else None) for value in GAMES]
    if "printed" in layout:
        texts = [text.replace("\n", "\n  ") for text in texts]
    texts[7] = texts[7].replace('": ', '" ', 1)
    path = tmp_path / "log.json"
    joined = "\n".join(texts) if layout == "lines" else "[\n  " + ",\n  ".join(texts) + "\n]"
    path.write_text(joined)

    recordings, tally = read(path)

    assert len(recordings) == 19
    assert tally.bad == 1
    line = joined.count("\n", 0, joined.index(texts[7])) + 1
    assert tally.examples[0].where == f"log.json:{line}"
    assert tally.examples[0].problem.startswith("is not JSON: Expecting ':' delimiter")


def test_what_is_no_json_at_all_is_said_once_per_line_and_not_forever(tmp_path: Path) -> None:
    path = tmp_path / "notes.log"
    path.write_bytes(b"not json\n" * 5_000 + b"\xff\n")

    recordings, tally = read(path)

    assert not recordings
    assert tally.bad == 1_001
    assert tally.examples[0].where == "notes.log:1"


def test_a_record_too_large_to_hold_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_RECORD_BYTES", 4_096)
    monkeypatch.setattr(source, "_CHUNK_BYTES", 512)
    values = [*GAMES[:3], game("x" * 10_000), *GAMES[3:]]
    for name, text in (
        ("lines", lines(values)),
        ("array", "[\n" + ",\n".join(map(json.dumps, values)) + "\n]"),
    ):
        path = tmp_path / name
        path.write_text(text)

        recordings, tally = read(path)

        assert (len(recordings), tally.bad) == (20, 1)
        assert "more than" in tally.examples[0].problem


@pytest.mark.parametrize("cut", [1, 2, 10, 100])
def test_a_file_cut_off_gives_what_came_before(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(json.dumps(GAMES)[:-cut])
    recordings, tally = read(path)
    assert len(recordings) == 20 - (cut > 1)
    assert tally.bad == (cut > 1)

    data = gzip.compress(lines(GAMES).encode())
    path.write_bytes(data[:-cut])
    _, tally = read(path)
    assert "damaged or cut off" in tally.examples[-1].problem


def test_files_that_cannot_be_opened_or_are_of_no_kind_are_put_down(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(lines([{"failure": 1, "reason": "x"}]))
    (tmp_path / "empty.jsonl").write_text("")
    tally = Tally()

    assert not list(read_logs([tmp_path, tmp_path / "missing.json"], tally))

    assert tally.files == 3
    assert "is an object with failure, reason: no kind of log" in tally.examples[0].problem
    assert "cannot be read: No such file" in tally.examples[1].problem


def test_in_a_folder_only_logs_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.jsonl", "deep/b.jsonl.gz", "LICENSE", "notes.md"):
        data = lines(GAMES[:1]).encode()
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
    "parts events eval version samples epoch target traj history turn_history actions "
    "observations trace problem subtype previous_response_id system tools call_id payload info "
    "tokens toolCalls result functionCall functionResponse projectHash $set $rewindTo parts "
    "messageID sessionID state kind llm_message tool_call tool_call_id thought observation action "
    "args source stats usage_to_metrics trajectory_format extra object run_type inputs outputs "
    "generations kwargs data traceId usageDetails replacement_history num_turns "
    "forgotten_event_ids summary summary_offset llm_response_id".split()
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "tool_use", "tool_result", "text", "completion",
     "compact_boundary", "gemini", "session_meta", "response_item", "compacted", "event_msg",
     "token_count", "thread_rolled_back", "function_call", "function_call_output", "msg_1",
     "prt_1", "ses_1", "step-start", "step-finish", "compaction", "ActionEvent", "MessageEvent",
     "ObservationEvent", "Condensation", "mini-swe-agent-1", "response", "llm", "GENERATION",
     "agent", "", "> go\nok", "[", "\ud800", "2026-01-01T00:00:00Z"]
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


def test_values_nested_too_deeply_are_put_down(tmp_path: Path) -> None:
    deep = '{"messages": [{"role": "user", "content": ' + "[" * 950 + "]" * 950 + "}]}"
    path = tmp_path / "log.jsonl"
    path.write_text(deep + "\n" + "[" * 100_000 + "\n" + deep + "\n" + lines(GAMES[:1]))

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


@given(
    values=st.lists(VALUES.filter(lambda value: isinstance(value, dict | list)), max_size=8),
    indent=st.sampled_from([None, 0, 2]),
    chunk=st.integers(1, 50),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None
)
def test_an_array_is_cut_into_its_values_wherever_it_is_read_off(
    values: list[Any], indent: int | None, chunk: int, tmp_path: Path
) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(values, indent=indent, allow_nan=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_CHUNK_BYTES", chunk)
        found = [record.value for record in source.read_records(path, Tally())]

    assert repr(found) == repr(json.loads(path.read_text()))
