"""Arms are drawn by a keyed hash: balanced, the same everywhere, and never changed by a ramp."""

import json
import os
import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agora.experiment import Arm, Draw, arm_of

DRAW = Draw("ours", b"a secret of all replicas")
MANY = [f"conversation {number}".encode() for number in range(10_000)]
ARMS = (
    "import json; from agora.experiment.assignment import Draw, arm_of;"
    "draw = Draw('ours', b'a secret of all replicas');"
    "ids = [draw.id_of(f't-{n % 7}', f'conversation {n}'.encode()) for n in range(10_000)];"
    "print(json.dumps([arm_of(id, 0.5) for id in ids]))"
)
shares = st.floats(0, 0.5)
ids = st.binary(min_size=12, max_size=12).map(bytes.hex)


def test_both_arms_get_their_share_of_ten_thousand_conversations() -> None:
    for share in (0.05, 0.25, 0.5):
        arms = Counter(arm_of(DRAW.id_of("t-1", each), share) for each in MANY)

        for arm in (Arm.AGORA, Arm.EVERYTHING):
            # Four standard deviations of a fair draw.
            assert abs(arms[arm] - share * 10_000) < 4 * (10_000 * share * (1 - share)) ** 0.5


def test_three_processes_give_none_of_ten_thousand_conversations_another_arm() -> None:
    told = []
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", ARMS], capture_output=True, check=True, env=environment
        )
        told.append(json.loads(ran.stdout))

    here = [arm_of(DRAW.id_of(f"t-{at % 7}", each), 0.5) for at, each in enumerate(MANY)]
    assert told == [here, here, here]


@given(ids, shares, shares)
def test_a_ramp_moves_conversations_from_waiting_only(drawn: str, one: float, other: float) -> None:
    before, after = arm_of(drawn, min(one, other)), arm_of(drawn, max(one, other))

    assert after is before or before is Arm.WAITING


def test_no_conversation_goes_from_one_arm_to_the_other_while_the_share_is_raised() -> None:
    drawn = [DRAW.id_of("t-1", each) for each in MANY]
    seen = [{arm_of(each, share) for share in (0.01, 0.05, 0.1, 0.25, 0.5)} for each in drawn]

    assert sum({Arm.AGORA, Arm.EVERYTHING} <= arms for arms in seen) == 0


@given(ids)
def test_nobody_waits_where_each_arm_has_half(drawn: str) -> None:
    assert arm_of(drawn, 0.5) is not Arm.WAITING
    assert arm_of(drawn, 0.0) is Arm.WAITING


@given(st.text(), st.binary(), st.text(), st.binary())
def test_other_conversations_and_other_tenants_have_other_ids(
    tenant: str, said: bytes, other: str, other_said: bytes
) -> None:
    tenant, other = (name.encode("ascii", "ignore").decode() for name in (tenant, other))
    same = (tenant, said) == (other, other_said)

    assert (DRAW.id_of(tenant, said) == DRAW.id_of(other, other_said)) == same


def test_another_name_or_another_secret_draws_anew() -> None:
    for other in (Draw("theirs", DRAW.secret), Draw("ours", b"another")):
        alike = sum(
            arm_of(DRAW.id_of("t", each), 0.5) == arm_of(other.id_of("t", each), 0.5)
            for each in MANY
        )

        assert abs(alike - 5_000) < 200
