"""An experiment without a gateway: the same arms, the same files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import AgoraError, Experiment
from agora.errors import SettingError
from agora.experiment.assignment import Arm, Draw, arm_of, owner
from agora.experiment.library import Usage
from agora.experiment.store import read_account, resume, stop

KEY = "a secret that replicas share"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path, key=KEY, share=0.5)


def in_arm(experiment: Experiment, arm: Arm) -> str:
    names = (f"task-{n}" for n in range(100))
    return next(name for name in names if (s := experiment.seat(name, first=True)) and s.arm is arm)


@given(st.text(min_size=1), st.floats(0, 0.5))
def test_a_conversation_is_in_the_arm_that_a_gateway_draws(
    tmp_path_factory: pytest.TempPathFactory, name: str, share: float
) -> None:
    folder = tmp_path_factory.mktemp("figures")
    experiment = Experiment(folder, key=KEY, share=share)
    tenant = owner(b"key", b"sk-1", KEY.encode())
    said = name.encode("utf-8", "replace")
    wanted = arm_of(Draw("experiment", KEY.encode()).id_of(tenant, said), share)
    seat = experiment.seat(said, first=True, tenant=experiment.tenant_of("sk-1"))
    experiment.close()

    assert (Arm.WAITING if seat is None else seat.arm) is wanted


def test_calls_and_outcomes_are_in_the_files_of_the_report(
    experiment: Experiment, tmp_path: Path
) -> None:
    for arm in (Arm.AGORA, Arm.EVERYTHING):
        name = in_arm(experiment, arm)
        for first in (True, False):
            seat = experiment.seat(name, first=first)
            assert seat is not None
            usage = Usage(fresh=1_000, read=2_000, output=50)
            experiment.count(seat, model="gpt-5", usage=usage, waited_ms=40)
        seat = experiment.seat(name, first=False)
        assert seat is not None
        experiment.count(seat, model="gpt-5", usage=Usage(), waited_ms=9, error="429")
        assert experiment.post(name, 1.0) is arm
    experiment.close()
    experiment.close()
    account = read_account(tmp_path)

    assert account.bounds == ["dollars > +5%", "typical_calls > +5%", "errors > +0.02"]
    assert {each.arm for each in account.open.values()} == {"agora", "everything"}
    for each in account.open.values():
        assert (each.calls, each.answered, each.errors) == (3, 2, {"429": 1})
        assert (each.prompt_tokens, each.output_tokens, each.waited_ms) == (6_000, 100, 80)
        assert each.dollars == pytest.approx(2 * (1_000 * 1.25 + 2_000 * 0.125 + 50 * 10) / 1e6)
        assert (each.model, each.outcome, each.born) == ("gpt-5", 1.0, True)


def test_nothing_is_edited_once_it_is_stopped(experiment: Experiment, tmp_path: Path) -> None:
    name = in_arm(experiment, Arm.AGORA)
    stop(tmp_path, "looked at")
    experiment._trial.tick()
    assert experiment.stopped == "looked at"
    assert experiment.seat(name, first=True) is None
    resume(tmp_path)
    experiment._trial.tick()
    assert experiment.seat(name, first=True) is not None
    assert experiment.seat("", first=True) is None


def test_whose_conversations_are_may_be_said(tmp_path: Path) -> None:
    named = Experiment(tmp_path, key=KEY, tenant="team-a")
    assert named.tenant_of("sk-1") == "team-a"
    named.close()
    plain = Experiment(tmp_path, key=KEY)
    assert plain.tenant_of() == "anonymous"
    plain.close()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"key": ""}, "key"), ({"share": 0.6}, "share"), ({"stop_when": ["much"]}, "bound")],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, wrong: dict[str, object], said: str) -> None:
    settings: dict[str, object] = {"key": KEY, **wrong}
    with pytest.raises(AgoraError, match=said) as refused:
        Experiment(tmp_path, **settings)  # type: ignore[arg-type]
    assert isinstance(refused.value, SettingError) or "stop_when" in wrong
