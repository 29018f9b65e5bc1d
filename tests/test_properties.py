"""What holds for every input: the eight properties, for each of the five formats.

`AGORA_EXAMPLES` says how many histories each property sees in each format.
"""

import copy
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agora
from agora.adapters import ADAPTERS, FORMATS, Context, react, transcript
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Reason
from agora.core.recall import TOOL_NAME
from agora.core.scorer import Scorer
from agora.core.tokens import Characters
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer
from agora.testing import EveryNth, FailingScorer, FixedScorer, History, RandomScorer, sample
from agora.testing.pen import LOOKALIKES, Pen
from agora.testing.strategies import histories

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "2000"))
TEXT_FORMATS = ("transcript", "react")

every_format = pytest.mark.parametrize("format_name", FORMATS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep a warning for each failing scorer out of the report."""
    logger = logging.getLogger("agora.compressor")
    logger.disabled = True
    yield
    logger.disabled = False


@dataclass(frozen=True)
class Setup:
    """How a case is compressed."""

    compressor: Compressor
    pins: frozenset[int]

    def compress(self, history: History, messages: Any = None) -> Compression:
        given_messages = history.messages if messages is None else messages
        return self.compressor.compress(given_messages, pins=self.pins, **history.request)


_SETUP_TAPES = st.binary(min_size=24, max_size=24)


def make_setup(tape: bytes, *, epochs: bool = False) -> Setup:
    """Return what a tape of choices says; with `epochs` the schedule is not to edit every call."""
    pen = Pen(tape)
    schedules = (EveryNth(2), EveryNth(3), EveryNth(4)) if epochs else ("every_call",) * 3
    schedule = pen.pick((*schedules, EveryNth(2)))
    pins = frozenset(1 + pen.below(8) for _ in range(pen.pick((0, 0, 1, 3))))
    k_recent = pen.pick((2, 0, 1, 3, 4))
    scorer = _scorer(pen)
    if pen.below(6) == 5:
        paper = Compressor.paper(scorer)
        budget = Budget(keep_ratio=pen.below(9) / 8, unit="characters")
        fields = {"schedule": schedule, "k_recent": k_recent, "budget": budget}
        return Setup(Compressor(**{**_fields(paper), **fields}), pins)
    compressor = Compressor(
        scorer=scorer,
        budget=_budget(pen),
        k_recent=k_recent,
        theta_hi=pen.pick((None, None, 0.9, 0.5)),
        schedule=schedule,
        skeleton_share=pen.pick((0.5, 0.0, 1.0)),
    )
    return Setup(compressor, pins)


def _fields(compressor: Compressor) -> dict[str, Any]:
    return {name: getattr(compressor, name) for name in Compressor.__dataclass_fields__}


def _scorer(pen: Pen) -> Scorer:
    how = pen.below(8)
    if how == 0:
        return RecencyScorer()
    if how == 1:
        return LexicalScorer()
    if how == 2:
        return FailingScorer(RuntimeError("no weights"))
    if how == 3:
        return FixedScorer(tuple(pen.below(11) / 10 for _ in range(8)))
    return RandomScorer(pen.below(256))


def _budget(pen: Pen) -> Budget:
    how = pen.below(8)
    if how == 0:
        return Budget()
    if how < 3:
        return Budget(limit=0)
    if how < 5:
        return Budget(limit=pen.below(256) * 8)
    if how == 5:
        return Budget(limit=pen.below(256) * 32, unit="characters")
    return Budget(keep_ratio=pen.below(17) / 16)


def for_every_case(
    check: Callable[[History, Setup], None], format_name: str, *, epochs: bool = False
) -> None:
    """Run a check on as many drawn cases as were asked for."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(history=histories(format_name), tape=_SETUP_TAPES)
    def run(history: History, tape: bytes) -> None:
        check(history, make_setup(tape, epochs=epochs))

    run()


def broken(history: History, messages: Any, *, strict: bool = False) -> set[str]:
    rules = agora.validate(
        messages,
        format=history.format,
        strict=strict,
        before=history.messages,
        **history.beside,
    )
    return {rule.code for rule in rules}


# 1 — legality


@every_format
def test_1_what_was_legal_stays_legal_and_no_guard_was_needed(format_name: str) -> None:
    for_every_case(check_legal, format_name)


def check_legal(history: History, setup: Setup) -> None:
    assert not broken(history, history.messages), "the generator wrote something illegal"

    compression = setup.compress(history)

    assert compression.reason not in (
        Reason.GUARD,
        Reason.FAILED,
        Reason.ILLEGAL_INPUT,
        Reason.UNREADABLE,
    ), compression.detail
    assert not broken(history, compression.messages)
    new = broken(history, compression.messages, strict=True) - broken(
        history, history.messages, strict=True
    )
    assert not new, f"rules that only some models keep were broken anew: {new}"
    if compression.changed and history.format not in TEXT_FORMATS:
        stays = set(compression.positions)
        for number, positions in enumerate(history.closed, start=1):
            left = stays & set(positions)
            assert left in (set(), set(positions)), f"step {number} was cut through"


@every_format
def test_1_what_was_illegal_comes_back_as_the_same_object(format_name: str) -> None:
    for_every_case(check_illegal, format_name)


def check_illegal(history: History, setup: Setup) -> None:
    messages: Any
    if history.format in TEXT_FORMATS:
        messages = [history.messages]
    elif isinstance(history.messages, str):
        messages = []
    else:
        messages = copy.copy(history.messages)
        at = len(history.recipe.text) + history.recipe.tape[-1]
        kind = history.recipe.tape[-2] % 3
        if kind == 0:
            del messages[at % len(messages)]
        elif kind == 1:
            messages.insert(at % len(messages), messages[at // 2 % len(messages)])
        else:
            messages[at % len(messages)] = "not a message"
    was = copy.deepcopy(messages)
    legal = not agora.validate(messages, format=history.format, **history.beside)

    compression = setup.compress(history, messages)

    assert messages == was
    if legal:
        assert not agora.validate(
            compression.messages, format=history.format, before=messages, **history.beside
        )
    else:
        assert compression.messages is messages
        assert not compression.changed


# 2 — the floor


@every_format
def test_2_the_floor_is_kept_and_only_the_floor_may_overspend(format_name: str) -> None:
    for_every_case(check_floor, format_name)


def check_floor(history: History, setup: Setup) -> None:
    compressor = setup.compressor
    compression = setup.compress(history)
    if not compression.changed:
        return
    outcomes = {decision.number: decision.outcome for decision in compression.decisions}
    assert list(outcomes) == list(range(1, history.steps + 1))

    epoch = history.steps
    if isinstance(compressor.schedule, EveryNth):
        epoch -= epoch % compressor.schedule.n
    recent = range(epoch - max(1, compressor.k_recent) + 1, epoch + 1)
    recalled = {number for by, number in history.recalls if by <= epoch}
    after = range(epoch + 1, history.steps + 1)
    for number in {*recent, *setup.pins, *recalled, *after} & outcomes.keys():
        assert outcomes[number] != "elided", f"step {number} belongs to the floor"
    elided = {number for number, outcome in outcomes.items() if outcome == "elided"}
    whole = [n for n in outcomes if n not in elided]
    _check_whole(history, compression, whole)
    if history.format not in TEXT_FORMATS:
        _check_fixed_text_stays(history, compression)

    trajectory = compression.trajectory
    assert trajectory is not None
    steps = trajectory.steps[:epoch]
    # An edit that stays as it is while more is said may not look at what is said after it.
    edits_always = compressor.schedule == "every_call"
    said = [u for u in trajectory.utterances if edits_always or u.after < epoch]
    fixed = trajectory.preamble_tokens + sum(utterance.tokens for utterance in said)
    total = fixed + sum(step.tokens for step in steps)
    floor = {
        d.number
        for d in compression.decisions
        if d.outcome == "floor" and d.reason != "sure to be needed"
    }
    least = fixed + sum(s.tokens if s.number in floor else s.residue_tokens for s in steps)
    cost = sum(s.residue_tokens if s.number in elided else s.tokens for s in steps)
    budget = compressor.budget.of(total, floor=least)
    if any(outcomes[step.number] == "kept" for step in steps):
        assert fixed + cost <= budget, "a step outside the floor overspent"
    if any(decision.skeleton for decision in compression.decisions):
        later = trajectory.tokens - total
        out = tokens_of(history, compression.messages, compressor)
        assert out - later <= budget, "skeletons overspent"


def _check_whole(history: History, compression: Compression, numbers: list[int]) -> None:
    """Steps that were not elided stand in the output word for word."""
    if history.format in TEXT_FORMATS:
        for number in numbers:
            start, end = history.closed[number - 1]
            assert history.messages[start:end].rstrip() in compression.messages
        return
    place = {position: at for at, position in enumerate(compression.positions)}
    for number in numbers:
        for position in history.closed[number - 1]:
            assert position in place, f"a message of step {number} is gone"
            after = compression.messages[place[position]]
            for text in texts_in(history.messages[position]):
                assert any(other.startswith(text) for other in texts_in(after))


def _check_fixed_text_stays(history: History, compression: Compression) -> None:
    """Whatever is no part of a step and was not said by the agent is still there."""
    in_steps = {position for positions in history.closed for position in positions}
    stays = set(compression.positions)
    for position, message in enumerate(history.messages):
        if position not in in_steps and message.get("role") in ("user", "system", "developer"):
            assert position in stays, f"message {position} is gone"


# 3 — verbatim


@every_format
def test_3_every_text_is_the_callers_or_a_marker_whose_names_stand_in_its_step(
    format_name: str,
) -> None:
    for_every_case(check_verbatim, format_name)


_HINT = rf"(?:; {TOOL_NAME} shows one by its number)?"
_LINE = r"\n\d+ [^\n]+"
_RUN = re.compile(rf"\[(?:step (\d+)|steps (\d+)-(\d+)) elided{_HINT}\]((?:{_LINE})*)")
_MASK = re.compile(rf"\[step (\d+) elided{_HINT}\](?: ([^\n]+))?")
_PAPER = re.compile(r"\[\.\.\. (\d+) step\(s\) elided \.\.\.\]")


def check_verbatim(history: History, setup: Setup) -> None:
    before = copy.deepcopy(history.messages)

    compression = setup.compress(history)

    assert history.messages == before, "the caller's messages were changed"
    if not compression.changed:
        assert compression.messages == before
        return
    elided = {d.number for d in compression.decisions if d.outcome == "elided"}
    if history.format in TEXT_FORMATS:
        told = _markers_in_text(history, compression.messages, elided)
    else:
        told = _markers_in_messages(history, compression)
    if setup.compressor.paper_markers:
        return
    assert told == elided, "the markers do not name the elided steps"


def _markers_in_text(history: History, text: str, elided: set[int]) -> set[int]:
    """Walk the output piece by piece; return the steps that its markers name."""
    told: set[int] = set()
    whole = history.messages
    starts = {n: start for n, (start, _) in enumerate(history.closed, start=1)}
    first = min(elided)
    assert text.startswith(whole[: starts[first]]), "kept text is not verbatim"
    at = starts[first]
    number = first
    while number <= history.steps:
        end = number
        while end + 1 in elided:
            end += 1
        kept_from = history.closed[end - 1][1]
        number = min((n for n in elided if n > end), default=history.steps + 1)
        piece = whole[kept_from : starts.get(number)]
        found = text.find(piece, at)
        assert found >= 0, "kept text is not verbatim"
        if piece:
            gap = whole[kept_from - 1]
            assert text[found - 1] == gap, "a block does not begin where one can begin"
        told |= named_steps(text[at:found].rstrip(), history)
        at = found + len(piece)
    assert at == len(text), "something stands after the last text"
    return told


def _markers_in_messages(history: History, compression: Compression) -> set[int]:
    """Compare each message with the one it was; return the steps that markers name."""
    told: set[int] = set()
    positions = compression.positions
    assert list(positions) == sorted(set(positions)), "messages are out of order"
    assert len(positions) == len(compression.messages)
    owner = {p: n for n, own in enumerate(history.closed, start=1) for p in own}
    for position, after in zip(positions, compression.messages, strict=True):
        before = history.messages[position]
        for text, replaced in added_texts(before, after):
            markers = text.split("\n\n")
            # Where nothing stood, a marker of the step itself is a mask, any other a run's.
            own = _MASK.match(markers[0])
            if replaced or (own and int(own[1]) == owner.get(position)):
                assert position in owner, "a text outside of every step was replaced"
                told |= masked_step(markers.pop(0), owner[position], history)
            for marker in markers:
                told |= named_steps(marker, history)
    return told


def masked_step(marker: str, owner: int, history: History) -> set[int]:
    """Return the step that the marker in place of a result names, once it is checked."""
    if _PAPER.fullmatch(marker):
        return set()
    match = _MASK.fullmatch(marker)
    assert match is not None, f"{marker!r} is neither the caller's nor a marker"
    assert int(match[1]) == owner, "a marker names another step"
    assert_names_stand_in((match[2] or "").split(), owner, history)
    return {owner}


def added_texts(before: Any, after: Any) -> Iterator[tuple[str, bool]]:
    """Yield each text that was added to a message, and whether it replaced what stood there.

    Nothing else may differ, but for cache breakpoints, which move up.
    """
    if before == after:
        return
    if isinstance(before, str) and isinstance(after, str):
        if after.startswith(before + "\n\n"):
            yield after[len(before) + 2 :], False
        else:
            yield after, bool(before)
    elif isinstance(before, str) and isinstance(after, list):
        assert [set(block) <= {"type", "text", "cache_control"} for block in after] == [True]
        yield from added_texts(before, after[0]["text"])
    elif isinstance(before, list) and isinstance(after, list):
        kinds, kinds_after = ([part.get("type") for part in parts] for parts in (before, after))
        if kinds_after[: len(kinds)] == kinds:
            for one, other in zip(before, after, strict=False):
                yield from added_texts(one, other)
            rest = after[len(before) :]
        else:
            yield after[0]["text"], True
            rest = after[1:]
        assert len(rest) <= 1, "blocks were added"
        assert all(map(_is_text, rest))
        yield from ((part["text"], False) for part in rest)
    else:
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        for key in (before.keys() | after.keys()) - {"cache_control"}:
            if key in ("content", "output", "text"):
                yield from added_texts(before.get(key, ""), after[key])
            else:
                assert before[key] == after[key], f"the field {key} was changed"


def _is_text(block: Any) -> bool:
    return set(block) <= {"type", "text", "cache_control"} and block["type"] in (
        "text",
        "input_text",
    )


def named_steps(marker: str, history: History) -> set[int]:
    """Return the steps that a run's marker names, once its grammar and its names are checked."""
    paper = _PAPER.fullmatch(marker)
    if paper:
        return set()
    match = _RUN.fullmatch(marker)
    assert match is not None, f"{marker!r} does not match the grammar of markers"
    first, last = int(match[1] or match[2]), int(match[1] or match[3])
    numbers = set(range(first, last + 1))
    for line in match[4].split("\n")[1:]:
        number, _, words = line.partition(" ")
        assert int(number) in numbers, "a line stands for a step of another run"
        head, _, names = f" {words}".rpartition(" -> ")
        assert_names_stand_in([*head.split(), *names.split()], int(number), history)
    return numbers


def assert_names_stand_in(names: list[str], number: int, history: History) -> None:
    """Check that each name stands word for word in the step it is listed for."""
    positions = history.closed[number - 1]
    if history.format in TEXT_FORMATS:
        source = history.messages[positions[0] : positions[1]]
    else:
        messages = [history.messages[position] for position in positions]
        texts = [text for message in messages for text in texts_in(message)]
        # Where arguments are an object, their text is its JSON.
        source = "\n".join([*texts, json.dumps(messages, ensure_ascii=False)])
    for name in names:
        assert name in source, f"{name!r} does not stand in step {number}"


def texts_in(value: Any) -> Iterator[str]:
    """Yield every string in a message, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)


# 4 — determinism


@every_format
def test_4_the_same_messages_give_the_same_bytes_and_a_second_time_never_larger(
    format_name: str,
) -> None:
    for_every_case(check_deterministic, format_name)


def check_deterministic(history: History, setup: Setup) -> None:
    compression = setup.compress(history)
    again = setup.compress(history, copy.deepcopy(history.messages))
    assert json.dumps(compression.messages) == json.dumps(again.messages)
    assert compression.decisions == again.decisions

    twice = setup.compress(history, compression.messages)

    assert not agora.validate(
        twice.messages, format=history.format, before=compression.messages, **history.beside
    )
    assert twice.reason not in (Reason.GUARD, Reason.FAILED, Reason.ILLEGAL_INPUT), twice.detail
    assert tokens_of(history, twice.messages, setup.compressor) <= tokens_of(
        history, compression.messages, setup.compressor
    )


_DIGEST = """
import hashlib, json, sys
from agora import Budget, Compressor
from agora.testing import sample

digest = hashlib.sha256()
for history in sample(sys.argv[1], 50, seed=11):
    for budget in (Budget(limit=0), Budget(keep_ratio=0.4)):
        compressor = Compressor(budget=budget, schedule="every_call")
        compression = compressor.compress(history.messages, **history.request)
        digest.update(json.dumps([compression.messages, str(compression.decisions)]).encode())
print(digest.hexdigest())
"""


@every_format
def test_4_processes_with_other_hash_seeds_give_the_same_bytes(format_name: str) -> None:
    digests = {_digest_in_a_process(format_name, seed) for seed in ("0", "4242")}

    assert len(digests) == 1
    assert digests != {hashlib.sha256().hexdigest()}


def _digest_in_a_process(format_name: str, seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _DIGEST, format_name],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


# 5 — the prefix


@every_format
def test_5_between_epochs_each_prompt_begins_with_the_one_before_it(format_name: str) -> None:
    for_every_case(check_prefix, format_name, epochs=True)


def check_prefix(history: History, setup: Setup) -> None:
    schedule = setup.compressor.schedule
    assert isinstance(schedule, EveryNth)
    previous: Any = None
    previous_epoch = -1
    for call in history.calls:
        steps = sum(end <= call for *_, end in _ends(history))
        epoch = steps - steps % schedule.n
        prompt = setup.compress(history, history.upto(call)).messages
        if epoch == previous_epoch:
            assert prompt[: len(previous)] == previous, (
                f"with {steps} steps the prompt of epoch {epoch} began in another way"
            )
        previous, previous_epoch = prompt, epoch


def _ends(history: History) -> Iterator[tuple[int, int]]:
    for start, *_, end in history.closed:
        yield start, end if history.format in TEXT_FORMATS else end + 1


# 6 — never more


@every_format
def test_6_never_more_tokens_out_than_in_and_no_gain_gives_the_same_object_back(
    format_name: str,
) -> None:
    for_every_case(check_never_more, format_name)


ESTIMATE_SLACK_TOKENS = 32
"""The estimate counts a text of few and odd bytes as its bytes, and a marker after it as more
than alone: the account, which adds them up, may then be short by some tokens."""


def check_never_more(history: History, setup: Setup) -> None:
    compression = setup.compress(history)

    if not compression.changed:
        assert compression.messages is history.messages
        return
    before = tokens_of(history, history.messages, setup.compressor)
    after = tokens_of(history, compression.messages, setup.compressor)
    assert compression.tokens_before == before
    assert after < before
    assert compression.tokens_after < before
    estimated = setup.compressor.budget.unit == "tokens"
    slack = ESTIMATE_SLACK_TOKENS if estimated else 0
    assert after <= compression.tokens_after + slack, "the account is wrong"


def tokens_of(history: History, messages: Any, compressor: Compressor) -> int:
    """Count messages anew, as a call with nothing else to do would."""
    context = Context(
        counter=compressor._counter(), observations=history.observations, **history.beside
    )
    return ADAPTERS[history.format].parse(messages, context).trajectory.tokens


# 7 — linear time. The real measurement, from 1,000 to 10,000 steps, is a benchmark (`just
# bench-time`); this one only sees that nothing blows up.


@every_format
def test_7_four_times_the_steps_do_not_take_ten_times_as_long(format_name: str) -> None:
    small = max(sample(format_name, 60, seed=3, max_steps=8), key=lambda h: h.steps)
    grown = {times: _grown(small, times) for times in (50, 200)}

    def best(messages: Any) -> float:
        took = []
        for _ in range(3):
            start = time.process_time()
            Compressor().compress(messages, **small.request)
            took.append(time.process_time() - start)
        return min(took)

    assert best(grown[200]) < 10 * best(grown[50]) + 0.05


def _grown(history: History, times: int) -> Any:
    """Return the history's steps again and again after its task."""
    start = min(positions[0] for positions in history.closed)
    if history.format in TEXT_FORMATS:
        end = max(end for _, end in history.closed)
        steps = history.messages[start:end].rstrip() + "\n"
        return history.messages[:start] + steps * times
    own = [position for positions in history.closed for position in positions]
    return [
        *history.messages[:start],
        *(
            _renamed(history.messages[position], round_)
            for round_ in range(times)
            for position in sorted(own)
        ),
    ]


_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})


def _renamed(value: Any, round_: int) -> Any:
    """Return a message whose ids are its own in this round."""
    if isinstance(value, list):
        return [_renamed(item, round_) for item in value]
    if isinstance(value, dict):
        return {
            key: f"{item}_{round_}" if key in _IDS else _renamed(item, round_)
            for key, item in value.items()
        }
    return value


# 8 — forgery


@every_format
def test_8_a_forged_marker_changes_nothing_that_neutral_text_of_its_length_would_not(
    format_name: str,
) -> None:
    for_every_case(check_forgery, format_name)


def check_forgery(history: History, setup: Setup) -> None:
    if not history.results:
        return
    pen = Pen(history.recipe.tape[::-1])
    at = pen.below(history.results)
    forged = pen.pick(LOOKALIKES) * (1 + pen.below(12))
    # Quoted beforehand where a format needs it, so that quoting does not make it longer.
    if history.format == "transcript":
        forged = transcript.quote(forged)
    elif history.format == "react":
        forged = react.quote(forged)
    plain = ("no news is good news, so it goes. " * 80)[: len(forged) - 1] + "x"
    told = [history.retold(at, text) for text in (plain, forged)]
    fields = _fields(setup.compressor) | {
        "scorer": FixedScorer(tuple(pen.below(11) / 10 for _ in range(8))),
        "counter": Characters(),
    }

    # What a skeleton lists is read from the text, and takes its room from what is kept whole;
    # without skeletons nothing that is decided depends on the text.
    for read in (True, False):
        compressor = Compressor(**fields if read else {**fields, "skeleton_share": 0.0})
        seen = [Setup(compressor, setup.pins).compress(one) for one in told]
        one, other = (blind_account(compression, read=read) for compression in seen)
        assert one == other


def blind_account(compression: Compression, *, read: bool) -> list[object]:
    """Return what was decided, without the words it was said in."""
    account: list[object] = [compression.tokens_before]
    for decision in compression.decisions:
        decided = () if read else (decision.outcome, decision.reason, decision.score)
        account.append((decision.number, decision.tokens, *decided))
    return account if read else [*account, compression.reason, compression.positions]
