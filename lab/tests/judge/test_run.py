import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from lab.harness.bookings import CODE, by_calls, by_text
from lab.harness.tiny_judge import tiny_tokenizer

from agora_lab.jsonl import BusyError
from agora_lab.judge import rows as table
from agora_lab.judge.anchors import Anchor, anchors_of
from agora_lab.judge.likelihood import Scored
from agora_lab.judge.making import PromptMaker
from agora_lab.judge.records import Prompts, Run, read_anchors, read_measured
from agora_lab.judge.rendering import ModelTokens, Rendering
from agora_lab.judge.rows import FIRST, GATE, LAB_METHODS, SECOND, Row, chosen, made
from agora_lab.judge.run import Job, Judging, Schedule, blocks, go
from agora_lab.judge.workers import WorkerError, spread

PEERS = ("langchain", "litellm")
OURS = [row for row in (*FIRST, *SECOND) if row.method not in PEERS]


@dataclass
class Finds:
    """Finds a token likely if the needed name is in the prompt, and unlikely if not."""

    tokenizer: Any
    asked: list[str] = field(default_factory=list)
    dies: bool = False

    def score(self, prompt: Sequence[int], continuation: Sequence[int]) -> Scored:
        text = self.tokenizer.decode(prompt)
        self.asked.append(text)
        if self.dies and len(self.asked) > 1:
            raise SystemExit(3)
        nats = 0.1 if CODE in text else 3.0
        return Scored((nats,) * len(continuation), len(prompt), 0.01)


def judging(folder: Path, scorer: Finds | None = None) -> Judging:
    tokenizer = tiny_tokenizer()
    return Judging(
        run=Run(folder),
        prompts=Prompts(folder),
        scorer=scorer or Finds(tokenizer),
        rendering=Rendering(tokenizer),
        counter=ModelTokens.of(tokenizer),
    )


def anchors(count: int = 3, made_by: Any = by_calls) -> list[Anchor]:
    found = []
    for task in range(count):
        found += list(anchors_of(made_by(str(task), steps=8)))
    return found


def test_an_anchor_passes_where_the_floor_loses_the_margin(tmp_path: Path) -> None:
    own = judging(tmp_path)
    [anchor] = anchors(1)
    drawn = own.gate(anchor)

    assert drawn.passed is True
    assert drawn.gap == pytest.approx(2.9 * len(CODE), abs=0.01)
    assert drawn.needed == (CODE,)
    assert drawn.tokens_floor < drawn.tokens_whole
    assert own.gate(anchor) is drawn
    assert len(own.scorer.asked) == 2  # type: ignore[attr-defined]


def test_one_that_does_not_pass_is_written_down_and_not_measured_further(tmp_path: Path) -> None:
    own = replace(judging(tmp_path), margin=100.0)
    go(own, Schedule({"made": anchors(2)}, first=FIRST[:1], second=()))

    assert [one.passed for one in read_anchors(tmp_path)] == [False, False]
    assert {one.method for one in read_measured(tmp_path)} == {"everything", "floor"}


@pytest.mark.parametrize("made_by", [by_calls, by_text])
def test_every_method_keeps_to_its_share_of_what_is_outside_the_floor(
    tmp_path: Path, made_by: Any
) -> None:
    own = judging(tmp_path)
    [anchor] = anchors(1, made_by)
    own.measure(anchor, [*GATE, *OURS])
    found = {one.key[1:]: one for one in own.run.measured.values()}
    outside = found["everything", None].tokens_sent - found["floor", None].tokens_sent

    for (method, keep), one in found.items():
        assert not one.error
        assert one.tokens_whole == found["everything", None].tokens_sent
        assert one.tokens_floor == found["floor", None].tokens_sent
        if keep is not None:
            # Markers and the frame of messages come on top. Actions all stay under masking.
            room = 1.0 if method == "masking" else keep
            assert one.tokens_sent <= one.tokens_floor + room * outside + 120, (method, keep)
        text = "".join(piece[0] for piece in one.pieces)
        assert text == own.prompts.read(anchor.key)["target"]  # type: ignore[index]


def test_prompts_are_there_to_look_into(tmp_path: Path) -> None:
    own = judging(tmp_path)
    [anchor] = anchors(1)
    own.measure(anchor, GATE)
    own.measure(anchor, FIRST[:2])
    value = own.prompts.read(anchor.key)

    assert value is not None
    assert set(value["sent"]) == {"everything", "floor", "newest@0.25", "forms_now@0.25"}
    assert value["sent"]["everything"] == value["whole"] == anchor.messages
    assert own.prompts.read("another") is None


def test_a_method_that_comes_later_is_all_that_is_computed(tmp_path: Path) -> None:
    first = judging(tmp_path)
    queue = {"made": anchors(2)}
    go(first, Schedule(queue, first=FIRST[:1], second=()))
    first.run.close()  # type: ignore[attr-defined]
    again = judging(tmp_path)
    go(again, Schedule(queue, first=FIRST[:2], second=()))

    assert len(first.scorer.asked) == 6  # type: ignore[attr-defined]
    assert len(again.scorer.asked) == 2  # type: ignore[attr-defined]
    assert {one.method for one in read_measured(tmp_path)} == {
        "everything",
        "floor",
        FIRST[0].method,
        FIRST[1].method,
    }


def test_sources_take_turns_and_second_methods_follow_each_block() -> None:
    one, two = anchors(4), anchors(2, by_text)
    found = [
        [anchor.recorded.source for anchor in block] for block in blocks({"a": one, "b": two}, 2)
    ]
    schedule = Schedule({"made": one}, first=FIRST[:1], second=SECOND[:1], most=3)
    jobs: list[Job] = []
    while (job := schedule.next()) is not None:
        jobs.append(job)
        schedule.done(job, passed=True)

    assert found == [["made", "made", "text", "text"], ["made", "made"]]
    assert [job.gate for job in jobs] == [True, True, True, False, False, False]


def test_another_model_judges_the_prompts_of_a_run_and_all_of_its_anchors(tmp_path: Path) -> None:
    first = judging(tmp_path / "first")
    queue = {"made": anchors(1)}
    go(first, Schedule(queue, first=FIRST[:1], second=()))
    second = replace(
        judging(tmp_path / "second"), given=Prompts(tmp_path / "first"), margin=1_000.0
    )
    go(second, Schedule(queue, first=FIRST[:2], second=()))
    lines = (tmp_path / "second" / "fidelity.jsonl").read_text().splitlines()
    errors = [value["method"] for value in map(json.loads, lines) if value["error"]]

    assert {one.method for one in read_measured(tmp_path / "second")} == {
        "everything",
        "floor",
        FIRST[0].method,
    }
    assert errors == [FIRST[1].method]


def test_processes_find_what_one_process_finds(tmp_path: Path) -> None:
    queue = {"made": anchors(4)}
    alone, several = judging(tmp_path / "alone"), judging(tmp_path / "several")
    go(alone, Schedule(queue, first=FIRST[:2], second=SECOND[:1]))
    notes: list[str] = []
    spread(several, Schedule(queue, first=FIRST[:2], second=SECOND[:1]), 2, notes.append)

    assert dict(several.run.measured) == dict(alone.run.measured)
    assert {one.anchor for one in read_anchors(tmp_path / "several")} == {
        anchor.key for anchor in queue["made"]
    }
    assert len(notes) == len(alone.run.measured)


def test_a_process_that_dies_is_reported_and_what_it_finished_stays(tmp_path: Path) -> None:
    own = judging(tmp_path, Finds(tiny_tokenizer(), dies=True))
    with pytest.raises(WorkerError, match="ended with 3"):
        spread(own, Schedule({"made": anchors(1)}), 1, lambda _: None)

    assert [one.method for one in read_measured(tmp_path)] == ["everything"]


def test_a_plan_is_fixed_and_a_folder_has_one_writer(tmp_path: Path) -> None:
    run = Run(tmp_path)
    plan: dict[str, Any] = {"model": "m", "margin": 2.0, "seed": 0, "arithmetic": "int8"}
    run.plan({**plan, "date": "1", "halves": ["validation"]})
    run.plan({**plan, "date": "2", "halves": ["test"]})

    written = json.loads((tmp_path / "plan.json").read_text())
    assert (written["date"], written["halves"]) == ("1", ["validation", "test"])
    with pytest.raises(ValueError, match=r"fixed margin 2\.0, not 1\.0"):
        run.plan({**plan, "margin": 1.0})
    with pytest.raises(BusyError):
        Run(tmp_path)


def test_a_method_that_cannot_run_is_skipped_and_one_that_fails_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agora.errors import AgoraError
    from agora_lab.judge import making
    from agora_lab.methods import SkipMethod

    def failing(row: Row, **_: Any) -> Any:
        if row.method == "forms_now":
            raise SkipMethod("no such package")
        if row.method == "commands_first":
            raise AgoraError("it broke")
        return made(row, **_)

    monkeypatch.setattr(making, "made", failing)
    own = judging(tmp_path)
    go(own, Schedule({"made": anchors(1)}, first=FIRST[:3], second=()))
    lines = (tmp_path / "fidelity.jsonl").read_text().splitlines()

    assert own.skipped == {"forms_now": "no such package"}
    assert {v["method"]: v["error"] for v in map(json.loads, lines) if v["error"]} == {
        "commands_first": "it broke"
    }


def test_the_table_names_lab_methods_and_the_order_is_the_most_telling_first() -> None:
    from agora_lab.methods import NAMES

    assert set(LAB_METHODS.values()) <= set(NAMES)
    assert [row.method for row in FIRST] == ["newest", "forms_now", "commands_first", "masking"]
    assert [row.label for row in SECOND[-4:]] == [
        "newest@0.15",
        "forms_now@0.15",
        "newest@0.5",
        "forms_now@0.5",
    ]
    assert GATE[0].method == table.EVERYTHING


def test_methods_are_compared_by_what_is_sent(tmp_path: Path) -> None:
    own = judging(tmp_path)
    [anchor] = anchors(1)
    rows = [Row(name, 0.5) for name in ("newest", "forms_now")]
    own.measure(anchor, (*GATE, *rows))

    found = {one.method: one for one in own.run.measured.values()}
    whole, floor = found["everything"].tokens_sent, found["floor"].tokens_sent
    for name in ("newest", "forms_now"):
        assert floor <= found[name].tokens_sent <= floor + 0.5 * (whole - floor), name


def test_a_method_that_has_to_send_more_than_the_share_sends_as_little_as_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = judging(tmp_path)
    [anchor] = anchors(1)
    kept: list[float | None] = []

    def everything(_self: Any, _anchor: Anchor, row: Row, share: float | None = None) -> Any:
        kept.append(share)
        cut = anchor.messages[:-1] if share is not None and share < 0.1 else anchor.messages
        return (cut if row.keep is not None else anchor.messages[:2]), ""

    monkeypatch.setattr(PromptMaker, "_shortened", everything)
    sizes = 1_000, 10
    messages, error = own.making.fitted(anchor, Row("newest", 0.0), (10, 10))
    assert (len(messages), error) == (len(anchor.messages) - 1, "")
    assert own.making.fitted(anchor, Row("langchain", 0.25), sizes)[0] == anchor.messages
    assert kept[-1] is None


def test_named_shares_are_measured_instead_of_the_usual_ones() -> None:
    first, second = chosen(["newest", "commands_first"], shares=[0.15, 0.4])

    assert [row.label for row in first] == [
        "newest@0.15",
        "commands_first@0.15",
        "newest@0.4",
        "commands_first@0.4",
    ]
    assert second == []


def test_a_method_of_any_name_is_measured_where_its_prompts_are_given() -> None:
    assert [row.label for row in chosen(["older"], given=True)[0]] == ["older@0.25"]
    with pytest.raises(ValueError, match="unknown method 'older'; use one of newest"):
        chosen(["older"])
