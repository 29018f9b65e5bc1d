import json
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import agora
from agora import (
    Budget,
    Compressor,
    FallbackLevel,
    PriceSheet,
    Query,
    Reason,
    Step,
    Trajectory,
    sheet_for,
    validate,
)
from agora.core import Characters, Edit
from agora.errors import (
    IllegalMessagesError,
    ScoreError,
    SettingError,
    UnknownFormatError,
)
from agora.formats import Rendered, format_named
from agora.scorers import RecencyScorer
from harness.histories import edit_after, sample

NOTE = "lorem ipsum dolor sit amet " * 20


def call(number: int, name: str = "look", arguments: str | None = None) -> dict[str, Any]:
    arguments = arguments or json.dumps({"place": f"box {number}"})
    function = {"name": name, "arguments": arguments}
    tool_call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]}


def saw(number: int, text: str = NOTE) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": f"KEY{number:03} {text}"}


def history(steps: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the key."}]
    for number in range(1, steps + 1):
        messages += [call(number), saw(number)]
    return messages


@dataclass(frozen=True)
class Scores:
    """A scorer that returns what it is given, right or wrong."""

    values: tuple[Any, ...] = ()
    error: Exception | None = None
    seen: list[int] = field(default_factory=list)

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        self.seen.append(len(steps))
        if self.error:
            raise self.error
        return self.values or [0.5] * len(steps)


def every_call(**options: Any) -> Compressor:
    """Return a compressor that edits whatever an edit costs."""
    return Compressor(**{"edits": "every_call", **options})


def outcomes(compression: agora.Compression) -> dict[int, str]:
    return {decision.number: decision.outcome for decision in compression.decisions}


def test_the_first_example_of_the_readme_works() -> None:
    compression = agora.compress(history(120), model="gpt-5-mini")

    assert compression.reason is Reason.COMPRESSED
    assert compression.tokens_after < compression.tokens_before
    assert agora.validate(compression.messages, format="openai") == []


def test_a_pinned_step_is_never_elided() -> None:
    compression = every_call(budget=Budget(limit=0)).compress(history(6), pins=[3])

    assert outcomes(compression)[3] == "protected"
    assert compression.decisions[2].reason == "pinned"


def test_a_recalled_step_is_part_of_the_floor() -> None:
    messages = history(5)
    messages += [call(6, "agora_recall", '{"step": 2}'), saw(6), *history(8)[13:]]
    compression = every_call(budget=Budget(limit=0)).compress(messages)

    assert compression.decisions[1].reason == "recalled"


def test_markers_mention_recall_when_the_tool_is_among_the_tools() -> None:
    compressor = every_call(budget=Budget(limit=0))
    offered = compressor.compress(history(6), tools=[agora.recall_tool("openai")])

    assert "agora_recall shows one by its number" in offered.messages[2]["content"]
    assert "recall" not in str(compressor.compress(history(6)).messages)
    assert offered.recall(1).startswith('step 1\nlook {"place": "box 1"}\nKEY001 lorem')


def test_lines_keep_the_names_that_only_elided_steps_had() -> None:
    compression = every_call(budget=Budget(keep_ratio=0.5)).compress(history(6))

    text = json.dumps(compression.messages)
    assert all(f"KEY{number:03}" in text for number in range(1, 7))


def test_a_prompt_within_its_budget_comes_back_as_the_same_object() -> None:
    messages = history(6)
    compression = every_call(budget=Budget(keep_ratio=1.0)).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.WITHIN_BUDGET
    assert compression.fallback_level is FallbackLevel.UNTOUCHED


@pytest.mark.parametrize("messages", [history(2), history(0)])
def test_a_prompt_that_is_all_floor_comes_back_as_the_same_object(messages: Any) -> None:
    compression = every_call().compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.NOTHING_TO_ELIDE


def test_a_schedule_that_never_edits_leaves_the_prompt_alone() -> None:
    compression = every_call(edits="never").compress(history(9))

    assert compression.reason is Reason.NOT_WORTH_IT_YET
    assert outcomes(compression) == dict.fromkeys(range(1, 10), "kept")


def test_a_first_try_on_a_short_history_says_when_an_edit_would_pay() -> None:
    messages = history(9)
    compression = agora.compress(messages, model="claude-sonnet-5")

    assert compression.messages is messages
    assert compression.reason is Reason.NOT_WORTH_IT_YET
    assert re.search(r"an edit is due in about \d+ calls", compression.summary())


def test_where_reading_again_costs_nothing_an_edit_never_pays() -> None:
    free = replace(sheet_for("gpt-5-mini"), read=0.0, hit=1.0)
    compression = Compressor(sheet=free).compress(history(9))

    assert compression.detail == "no edit is due within 100 calls"


def test_without_a_cache_every_call_is_an_edit() -> None:
    sheet = PriceSheet.no_cache(sheet_for("gpt-5-mini"))
    by_price = Compressor(sheet=sheet, k_recent=1, min_tokens=0).compress(history(9))

    assert by_price.messages == every_call(k_recent=1).compress(history(9)).messages
    assert by_price.reason is Reason.COMPRESSED


def test_a_small_prompt_is_left_alone_by_price() -> None:
    sheet = PriceSheet.no_cache(sheet_for("gpt-5-mini"))
    compression = Compressor(sheet=sheet).compress(history(9))

    assert compression.reason is Reason.NOT_WORTH_IT_YET
    assert compression.detail == "an edit is due in about 24 calls"


def test_between_epochs_a_prompt_only_grows_at_its_end() -> None:
    compressor = every_call(edits="never", budget=Budget(limit=0))
    before = compressor.compress(history(7), state=edit_after(6)).messages
    after = compressor.compress(history(8), state=edit_after(6)).messages

    assert after[: len(before)] == before
    assert len(after) == len(before) + 2


def test_nothing_after_the_epoch_is_scored_or_elided() -> None:
    scores = Scores()
    compressor = every_call(scorer=scores, edits="never", budget=Budget(limit=0), k_recent=1)
    compression = compressor.compress(history(9), state=edit_after(6))

    assert scores.seen == [6]
    assert compression.last_edit == 6
    assert [d.reason for d in compression.decisions[6:]] == ["after the edit"] * 3
    assert outcomes(compression)[5] == "elided"


@pytest.mark.parametrize(
    "scorer",
    [
        Scores(error=RuntimeError("no model")),
        Scores((0.1,)),
        Scores((math.nan,) * 6),
        Scores((1.5,) * 6),
        Scores(("high",) * 6),
    ],
)
def test_a_scorer_that_fails_costs_a_rung_and_nothing_else(
    scorer: Scores, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(limit=0)
    compression = every_call(scorer=scorer, budget=budget).compress(history(6))
    by_age = every_call(budget=budget).compress(history(6))

    assert compression.fallback_level is FallbackLevel.PARTIAL
    assert compression.messages == by_age.messages
    assert "newest steps first instead" in caplog.text
    with pytest.raises((ScoreError, RuntimeError)):
        every_call(scorer=scorer, strict=True, budget=budget).compress(history(6))


def test_illegal_messages_come_back_as_they_are_with_the_rule_they_break() -> None:
    messages = history(6)[:-1]
    compression = agora.compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.ILLEGAL_INPUT
    assert compression.detail.startswith("O1")
    with pytest.raises(IllegalMessagesError, match="O1"):
        every_call(strict=True).compress(messages)


@pytest.mark.parametrize("pins", [["1"], "12", [1.0], [True], [[3]], [0], [-1], 3, None])
def test_pins_that_are_no_numbers_of_steps_are_refused(pins: Any) -> None:
    with pytest.raises(SettingError, match=r"^pins is .*; it must be numbers of steps"):
        agora.compress(history(6), pins=pins)
    with pytest.raises(SettingError, match=r"^pins is "):
        agora.Session().compress(history(6), pins=pins)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("keep_ration", 0.4, r"budget=Budget\(keep_ratio=0\.4\)"),
        ("limit", 500, r"budget=Budget\(limit=500\)"),
        ("keep_recent", 3, "k_recent"),
        ("zeal", "high", "one of budget, k_recent, .*, strict"),
    ],
)
def test_a_setting_that_does_not_exist_is_answered_with_what_was_meant(
    name: str, value: object, meant: str
) -> None:
    with pytest.raises(SettingError, match=f"^{name} is no setting; it must be {meant}$"):
        Compressor(**{name: value})  # type: ignore[arg-type]


def test_a_pin_beyond_the_last_step_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    agora.compress(history(6), pins=[3, 99])

    assert caplog.messages == ["there is no step [99] to pin; the steps are 1 to 6"]


def test_pins_may_come_in_any_collection() -> None:
    collections: list[Any] = [[3], (3,), {3}, range(3, 4), iter([3]), {3: "why"}]
    for pins in collections:
        compression = every_call(budget=Budget(limit=0)).compress(history(6), pins=pins)
        assert compression.decisions[2].reason == "pinned"


@pytest.mark.parametrize("messages", [None, 3, "hello", {"role": "user"}])
def test_what_cannot_be_read_comes_back_as_it_is(messages: Any) -> None:
    compression = agora.compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.UNREADABLE
    assert (compression.tokens_before, compression.tokens_after) == (0, 0)
    with pytest.raises(UnknownFormatError):
        every_call(strict=True).compress(messages)


@pytest.mark.parametrize("strict", [False, True])
def test_a_misspelt_format_raises_and_says_what_was_probably_meant(strict: bool) -> None:
    with pytest.raises(UnknownFormatError, match=r"no format 'opneai' \(did you mean openai\?\)"):
        Compressor(strict=strict).compress(history(3), format="opneai")


class BrokenCounter:
    """A counter that fails."""

    def count(self, text: str) -> int:
        raise RuntimeError("no tokenizer")


def test_any_other_error_hands_the_messages_on_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages = history(6)
    with caplog.at_level(logging.WARNING):
        compression = every_call(counter=BrokenCounter()).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.FAILED
    assert compression.detail == "RuntimeError: no tokenizer"
    assert "sent unchanged" in caplog.text
    with pytest.raises(RuntimeError):
        every_call(counter=BrokenCounter(), strict=True).compress(messages)


def test_what_would_break_a_rule_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = history(6)

    def drop_last(parsed: Any, elided: Any, markers: Any) -> Any:
        return Rendered(parsed.messages[:-1], ())

    monkeypatch.setattr(type(format_named("openai")), "render", staticmethod(drop_last))

    compression = every_call(budget=Budget(limit=0)).compress(messages)

    assert compression.messages is messages
    assert compression.reason is Reason.GUARD
    assert "O1" in compression.detail
    with pytest.raises(IllegalMessagesError, match="would be refused"):
        every_call(budget=Budget(limit=0), strict=True).compress(messages)


def test_lines_give_way_where_counts_of_parts_do_not_add_up() -> None:
    class Steep:
        """Counts long texts higher than the sum of their parts."""

        def count(self, text: str) -> int:
            return len(text) + max(0, len(text) - 60)

    for ratio in (0.5, 0.6, 0.7):
        compressor = every_call(counter=Steep(), budget=Budget(keep_ratio=ratio))
        compression = compressor.compress(history(12))

        assert compression.reason is Reason.COMPRESSED
        assert compression.tokens_after <= int(compression.tokens_before * ratio)


def test_an_edit_can_be_looked_at_without_writing_messages() -> None:
    compressor = every_call(budget=Budget(limit=0))
    compression = compressor.compress(history(6))
    assert compression.trajectory is not None

    decisions = compressor.decide(compression.trajectory, Edit(6, why="every call"))
    assert [d.outcome for d in decisions] == [d.outcome for d in compression.decisions]
    kept = compressor.decide(compression.trajectory, Edit(2))
    assert {d.reason for d in kept} == {"nothing_to_elide"}


def test_sizes_can_be_counted_by_the_callers_own_counter() -> None:
    compression = every_call(counter=Characters()).compress(history(6))

    assert compression.tokens_before > 6 * len(NOTE)


def test_in_shadow_the_messages_stay_and_the_account_says_what_would_go() -> None:
    messages = history(30)
    plain = Compressor(edits="every_call", min_tokens=0).compress(messages)
    shadow = Compressor(edits="every_call", min_tokens=0, shadow=True).compress(messages)

    assert plain.changed
    assert not shadow.changed
    assert shadow.messages is messages
    assert shadow.reason == "shadow"
    assert shadow.tokens_after == plain.tokens_after
    assert shadow.decisions == plain.decisions
    assert shadow.summary() == f"unchanged (shadow): would be {plain.summary()}"
    assert Compressor(shadow=True).compress(messages[:1]).reason != "shadow"


def test_sizes_that_messages_do_not_show_count_where_the_caller_knows_them() -> None:
    def sized(trajectory: Trajectory) -> Trajectory:
        return replace(trajectory, preamble_tokens=trajectory.preamble_tokens + 20_000)

    compressor = Compressor(scorer=RecencyScorer(), max_cost_ratio=math.inf, forgetting=0.0)
    shown = compressor.compress(history(24), model="gpt-4o")
    known = compressor.compress(history(24), model="gpt-4o", sized=sized)

    assert not shown.changed
    assert known.changed
    assert known.tokens_before == shown.tokens_before + 20_000


def test_what_tools_said_never_stands_in_a_user_s_message() -> None:
    messages = [*history(5), {"role": "user", "content": "Go on."}, *history(12)[11:]]

    compression = every_call(budget=Budget(limit=0)).compress(messages)

    users = [m["content"] for m in compression.messages if m["role"] == "user"]
    assert users == [m["content"] for m in messages if m["role"] == "user"]
    assert [d.kind for d in compression.decisions[:7]].count("line") == 4


@pytest.mark.parametrize("format", sorted(agora.formats.FORMATS))
def test_what_was_compressed_may_come_back_as_a_conversation_of_its_own(format: str) -> None:
    eager = every_call(budget=Budget(limit=0), k_recent=1, strict=True)
    changed = 0
    for drawn in sample(format, 30, seed=7):
        options: dict[str, Any] = {"format": format, **drawn.options}
        compression = Compressor(edits="every_call", k_recent=1).compress(drawn.messages, **options)
        if not compression.changed or validate(compression.messages, **options):
            continue
        changed += 1

        again = eager.compress(compression.messages, **options)

        assert not validate(again.messages, before=compression.messages, **options)
        assert again.tokens_after <= again.tokens_before
        # Markers are text like any other: none of them is taken for a step.
        assert len(again.decisions) <= len(compression.decisions)
    assert changed > 5
