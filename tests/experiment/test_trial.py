"""An experiment: calls become conversations, conversations a tally, and harm a stop."""

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.experiment.assignment import Arm, Draw
from agora.experiment.conversations import NAMES, Conversation, figures
from agora.experiment.rules import Rule, RuleError, Verdict, alpha_each, parse_rule
from agora.experiment.store import (
    STOPPED,
    TALLY,
    Account,
    Store,
    StoreError,
    read_account,
    resume,
    stop,
    stopped,
)
from agora.experiment.tally import OTHER, Tally, together
from agora.experiment.trial import Terms, Trial, harm

RULES = (parse_rule("typical_calls > +5%"), parse_rule("errors > +0.02"))
DRAW = Draw("ours", b"secret")


def terms(folder: Path, *rules: Rule, share: float = 0.5) -> Terms:
    return Terms(name="ours", folder=folder, share=share, idle_seconds=60, rules=rules or RULES)


def ended(arm: Arm, calls: int, **others: object) -> Conversation:
    return Conversation(arm=arm, calls=calls, answered=calls, born=True, affected=True, **others)  # type: ignore[arg-type]


def played(count: int, harm_factor: float, seed: int = 1) -> Tally:
    chance, tally = random.Random(seed), Tally()
    for _ in range(count):
        arm = chance.choice((Arm.AGORA, Arm.EVERYTHING))
        calls = 3 + chance.lognormvariate(2, 0.6) * (harm_factor if arm is Arm.AGORA else 1)
        tally.add(ended(arm, round(calls), model="m"), now=1.0)
    return tally


calls_of_one = st.builds(
    Conversation,
    arm=st.just("agora"),
    born=st.booleans(),
    affected=st.booleans(),
    calls=st.integers(0, 9),
    dollars=st.integers(0, 100).map(float),
    errors=st.dictionaries(st.sampled_from(["429", "late"]), st.integers(1, 3)),
    outcome=st.none() | st.floats(-1, 1),
    seen_at=st.integers(0, 99).map(float),
)


@given(calls_of_one)
def test_a_conversation_comes_back_from_a_file_as_it_went_there(one: Conversation) -> None:
    assert Conversation.from_json(json.loads(json.dumps(one.as_json()))) == one


@given(st.lists(calls_of_one, max_size=5))
def test_calls_add_up_to_the_same_conversation_in_parts_or_at_once(
    calls: list[Conversation],
) -> None:
    at_once, first, second = Conversation(), Conversation(), Conversation()
    for at, each in enumerate(calls):
        at_once.add(each)
        (first if at < 2 else second).add(each)
    first.add(second)

    assert first == at_once


def test_a_conversation_has_every_figure_it_can_have() -> None:
    full = ended(
        Arm.AGORA, 4, dollars=2.0, prompt_tokens=9, output_tokens=8, waited_ms=4.0, outcome=0.0
    )

    assert set(figures(full)) == set(NAMES)
    assert "typical_dollars" not in figures(ended(Arm.AGORA, 1))


def test_kinds_of_errors_are_bounded() -> None:
    many = Conversation()
    for kind in range(99):
        many.add(Conversation(errors={str(kind): 1}))

    assert len(many.errors) == 61
    assert sum(many.errors.values()) == 99


def test_only_conversations_that_can_be_compared_are_counted() -> None:
    tally = Tally()
    one = ended(Arm.AGORA, 3)
    for broken in ({"born": False}, {"affected": False}, {"arm": "waiting"}):
        tally.add(Conversation(**{**one.as_json(), **broken}), now=0.0)
    assert tally.conversations == 0

    tally.add(one, now=0.0)
    assert tally.conversations == 1
    assert tally.arms[Arm.AGORA].mean("calls") == 3
    assert tally.arms[Arm.AGORA].mean("outcome") is None


def test_models_are_compared_apart_up_to_a_number() -> None:
    tally = Tally()
    for at in range(30):
        tally.add(ended(Arm.AGORA, 3, model=f"m{at}"), now=0.0)

    assert len(tally.by_model) == 21
    assert OTHER in tally.by_model


def test_what_two_gateways_found_is_reported_together() -> None:
    one, other = played(400, 1.0, seed=1), played(300, 1.0, seed=2)
    whole = together([one, other])

    assert whole.conversations == 700
    assert whole.compared["calls"].treated == (
        one.compared["calls"].treated + other.compared["calls"].treated
    )
    assert Tally.from_json(json.loads(json.dumps(whole.as_json()))) == whole


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("calls", "is no bound"),
        ("calls > 5%", "is no bound"),
        ("cals > +5%", "did you mean calls?"),
        ("outcome < -5%", "cannot be in percent"),
        ("typical_calls > +0.05", "must be in percent"),
        ("calls < -100%", "below -100 %"),
    ],
)
def test_a_bound_that_cannot_be_meant_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(RuleError, match=re.escape(sentence)):
        parse_rule(text)


def test_harm_beyond_a_bound_is_seen_and_less_is_cleared() -> None:
    worse, same = played(3_000, 1.5), played(12_000, 1.0)
    above, below = parse_rule("typical_calls > +10%"), parse_rule("calls < -10%")

    assert above.verdict(worse.compared["typical_calls"], 0.05) is Verdict.HARM
    assert above.verdict(same.compared["typical_calls"], 0.05) is Verdict.CLEARED
    assert below.verdict(same.compared["calls"], 0.05) is Verdict.CLEARED
    assert below.verdict(played(3_000, 0.5).compared["calls"], 0.05) is Verdict.HARM
    assert above.verdict(None, 0.05) is Verdict.OPEN
    assert above.verdict(played(5, 1.0).compared["typical_calls"], 0.05) is Verdict.OPEN
    assert harm(worse, RULES).startswith("typical_calls > +5%, after 3000")
    assert harm(same, RULES) == ""
    assert alpha_each(2) == 0.025


def test_no_errors_at_all_clear_a_bound_on_errors() -> None:
    rule = parse_rule("errors > +0.02")

    assert rule.verdict(played(1_000, 1.0).compared["errors"], 0.01) is Verdict.CLEARED
    assert rule.verdict(played(50, 1.0).compared["errors"], 0.01) is Verdict.OPEN


def test_an_idle_conversation_is_counted_and_a_living_one_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path, "ours")
    store.hand_in({"a": ended(Arm.AGORA, 2, seen_at=100.0), "b": ended(Arm.AGORA, 1, seen_at=50.0)})
    store.hand_in({"b": ended(Arm.AGORA, 1, seen_at=60.0)})
    store.hand_in({})
    account = store.add_up(130.0, 60.0)

    assert account is not None
    assert list(account.open) == ["a"]
    assert account.tally.arms[Arm.AGORA].mean("calls") == 2
    assert read_account(tmp_path) == account
    assert not list(tmp_path.glob("part-*"))
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
    store.close()


def test_a_part_is_taken_in_once_though_a_process_died_before_it_was_deleted(
    tmp_path: Path,
) -> None:
    first = Store(tmp_path, "ours")
    first.hand_in({"a": ended(Arm.AGORA, 2, seen_at=100.0)})
    (part,) = tmp_path.glob("part-*")
    again = part.read_bytes()
    first.add_up(100.0, 60.0)
    first.close()
    part.write_bytes(again)
    (tmp_path / "part-9-broken.json").write_text("{")
    second = Store(tmp_path, "ours")
    account = second.add_up(101.0, 60.0)

    assert account is not None
    assert account.open["a"].calls == 2
    second.close()


def test_one_process_adds_up_and_another_takes_over_when_it_ends(tmp_path: Path) -> None:
    first, second = Store(tmp_path, "ours"), Store(tmp_path, "ours")
    assert first.add_up(1.0, 60.0) is not None
    second.hand_in({"a": ended(Arm.AGORA, 1, seen_at=1.0)})
    assert second.add_up(1.0, 60.0) is None
    first.close()
    taken = second.add_up(2.0, 60.0)

    assert taken is not None
    assert list(taken.open) == ["a"]
    second.close()


def test_a_killed_process_loses_nothing_that_was_handed_in(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        "from agora.experiment.store import Store;"
        "from agora.experiment.conversations import Conversation;"
        "store = Store(Path(sys.argv[1]), 'ours'); store.add_up(1.0, 60.0);"
        "store.hand_in({'a': Conversation(arm='agora', calls=1, seen_at=1.0)});"
        "os.kill(os.getpid(), 9)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ran.returncode == -9
    store = Store(tmp_path, "ours")
    account = store.add_up(2.0, 60.0)

    assert account is not None
    assert account.open["a"].calls == 1
    store.close()


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, "theirs")
    with pytest.raises(StoreError, match="no experiment has run"):
        read_account(tmp_path)
    store.add_up(1.0, 1.0)
    store.close()
    with pytest.raises(StoreError, match="has the experiment 'theirs', not 'ours'"):
        Store(tmp_path, "ours")
    (tmp_path / TALLY).write_text('{"version": 7}')
    with pytest.raises(StoreError, match="another version"):
        read_account(tmp_path)
    (tmp_path / TALLY).write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        read_account(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        Store(tmp_path / "file", "ours")


def test_conversations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agora.experiment.store._MOST_OPEN", 3)
    account = Account(name="ours")
    account.take({str(at): ended(Arm.AGORA, 1, seen_at=float(at)) for at in range(5)})
    account.close_idle(5.0, 1_000.0)

    assert list(account.open) == ["2", "3", "4"]
    assert account.tally.conversations == 2


def test_harm_stops_the_experiment_in_every_process_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bool] = []
    leader = Trial(terms(tmp_path), DRAW, told.append)
    other = Trial(terms(tmp_path), DRAW)
    leader.tick()
    chance = random.Random(3)
    for at in range(2_000):
        called = DRAW.id_of("t", str(at).encode())
        calls = round(
            3 + chance.lognormvariate(2, 0.5) * (2 if leader.arm(called) == "agora" else 1)
        )
        other.record(called, ended(other.arm(called), calls, seen_at=1.0))
    assert told == [False]
    other.tick()
    leader.tick()
    other.tick()

    assert "typical_calls > +5%" in leader.stopped
    assert other.stopped == leader.stopped == stopped(tmp_path)
    assert told == [False, True]
    assert "AGORA is off: typical_calls > +5%" in caplog.text
    resume(tmp_path)
    other.tick()
    assert other.stopped == ""
    other.close()
    leader.close()


def test_an_operator_stops_it_and_a_stop_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    trial = Trial(terms(tmp_path), DRAW)
    assert trial.stopped == ""
    stop(tmp_path, "a holiday")
    trial.tick()
    assert trial.stopped == "a holiday"
    (tmp_path / STOPPED).write_text("?")
    trial.tick()
    assert "cannot be read" in trial.stopped
    trial.close()


def test_an_outcome_finds_its_conversation_by_id_or_by_name(tmp_path: Path) -> None:
    trial = Trial(terms(tmp_path), DRAW)
    called = DRAW.id_of("t", b"session-7")
    trial.record(called, ended(trial.arm(called), 3, seen_at=time.time()))
    assert trial.post("t", "session-7", 1.0) == trial.arm(called)
    assert trial.post("t", called, 0.0) == trial.arm(called)
    trial.tick()
    (conversation,) = read_account(tmp_path).open.values()

    assert conversation.outcome == 0.0
    assert conversation.calls == 3
    trial.close()
    waiting = Trial(terms(tmp_path, share=0.0), DRAW)
    assert waiting.post("t", "session-7", 1.0) is Arm.WAITING
    waiting.close()


def test_a_disk_that_fails_is_told_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agora.experiment.trial._TICK_SECONDS", 0.01)
    trial = Trial(terms(tmp_path), DRAW)

    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(Store, "hand_in", fail)
    trial.start()
    time.sleep(0.1)
    monkeypatch.undo()
    trial.close()

    assert caplog.text.count("could not be written: OSError") == 1
    assert os.path.exists(tmp_path / TALLY)
