import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from agora.gateway.config import parse_config
from harness.agents.analysis import Pair, pair
from harness.agents.bound import Bound, Edit, Replaced, held, lines_of, measure, notes, problems
from harness.agents.doors import Direct, Serve, settings_for
from harness.agents.matrix import door_for, matrix
from harness.agents.record import Request
from harness.agents.session import Plan, Switch, Wrap, plan_of

MODEL = "claude-opus-5-5"
USAGE = {"uncached": 0, "read": 1_000, "written": 100}
REFUSED = "messages.1.content.0: Invalid `signature` in `thinking` block."


def step(number: int, text: str = "", *, thinks: bool = True) -> list[dict[str, Any]]:
    """An answer with a thought, and what became of its call."""
    thought = [{"type": "thinking", "thinking": "hm", "signature": f"s{number}"}] if thinks else []
    said = {"type": "text", "text": f"step {number}"}
    return [
        {"role": "assistant", "content": [*thought, said]},
        {"role": "user", "content": text or f"result {number}"},
    ]


def steps(count: int, *, edited: int = 0, thinking_from: int = 0) -> list[dict[str, Any]]:
    """A history; the results of its first `edited` steps are shortened."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "task"}]
    for number in range(count):
        text = "elided" if number < edited else ""
        found += step(number, text, thinks=number >= thinking_from)
    return found


def request(at: float, messages: list[Any], **known: Any) -> Request:
    body = json.dumps({"model": MODEL, "messages": messages}).encode()
    return Request(
        number=int(at), at=at, method="POST", path="/v1/messages", headers=[], body=body, **known
    )


def call(count: int, *arrived: Request, status: int = 200) -> Pair:
    return Pair(request(float(count), steps(count), status=status), arrived)


def arrived(count: int, edited: int = 0, thinking_from: int = 0, **known: Any) -> Request:
    messages = steps(count, edited=edited, thinking_from=thinking_from)
    status = 400 if known.get("verdict") else 200
    usage = {} if status == 400 else USAGE
    return request(count + 0.5, messages, status=status, usage=usage, **known)


def test_an_edit_counts_once_with_the_thinking_that_it_takes_out() -> None:
    session = [
        call(1, arrived(1)),
        call(2, arrived(2, edited=1, thinking_from=2)),
        call(3, arrived(3, edited=1, thinking_from=2)),
        call(4, arrived(4, edited=3, thinking_from=4)),
    ]

    found = measure(session, (), "edit")

    assert found.edits == (Edit(2, 2, "edit"), Edit(4, 2, "edit"))
    assert (found.edited_calls, found.blocks_sent, found.blocks_arrived) == (3, 4, 0)
    assert (found.refused, found.answered, found.dropped) == ((), (), ())
    assert found.tokens == 4 * 1_100
    assert found.dollars > 0


def test_thinking_taken_out_alone_is_no_edit() -> None:
    session = [call(1, arrived(1)), call(2, arrived(2, thinking_from=2))]

    assert measure(session, (), "edit").edits == ()


def test_a_refusal_is_told_from_one_that_was_answered_and_both_by_gateway() -> None:
    session = [
        call(1, arrived(1)),
        call(2, arrived(2, verdict=REFUSED), arrived(2, thinking_from=2)),
        call(3, arrived(3, verdict=REFUSED), status=400),
        call(4, arrived(4, thinking={"kept": 1, "dropped": 3, "invalid": 3})),
    ]
    replaced = (Replaced("killed", 1.8), Replaced("before", 3.2), Replaced("now", 4.2))

    found = measure(session, replaced, "now")

    assert found.answered == ((2, "now"),)
    assert found.refused == ((3, "before", REFUSED),)
    assert found.dropped == ((4, "now", 3),)
    assert (found.calls, found.made, found.lost) == (4, 3, 0)


def good() -> Bound:
    return Bound(
        calls=46,
        made=46,
        lost=0,
        refused=(),
        answered=(),
        dropped=(),
        edits=(Edit(11, 12, "edit"),),
        edited_calls=36,
        blocks_sent=40,
        blocks_arrived=3,
        tokens=1,
        dollars=1.0,
    )


def amiss(bound: Bound, switches: int = 0, replaced: int = 0, *, finished: bool = True) -> int:
    gone = [Replaced("shadow", 1.0)] * replaced
    return len(problems(bound, steps=45, finished=finished, switches=switches, replaced=gone))


def test_a_session_with_nothing_amiss_has_no_problems() -> None:
    assert amiss(good()) == 0
    assert amiss(replace(good(), answered=((16, "shadow"),)), 1, 1) == 0


@pytest.mark.parametrize(
    "bound",
    [
        replace(good(), made=45),
        replace(good(), refused=((3, "now", REFUSED),)),
        replace(good(), answered=((3, "now"),)),
        replace(good(), edits=()),
    ],
)
def test_each_goal_that_is_missed_is_a_problem(bound: Bound) -> None:
    assert amiss(bound) == 1


def test_an_agent_that_gave_up_and_a_switch_that_never_came_are_problems() -> None:
    assert amiss(good(), finished=False) == 1
    assert amiss(good(), 2, 1) == 1


def test_what_the_release_before_let_be_refused_is_noted_and_not_held_against_this_one() -> None:
    went_on = replace(good(), refused=((16, "before", REFUSED),))
    ended = replace(good(), calls=34, made=33, refused=((34, "before", REFUSED),))

    assert amiss(went_on, 2, 2) == 0
    assert len(notes(went_on, finished=True)) == 1
    assert amiss(ended, 2, 1, finished=False) == 0
    assert len(notes(ended, finished=False)) == 2
    assert amiss(replace(ended, calls=35), 2, 1, finished=False) == 3


def test_times_are_read_from_the_lines_about_prompts_alone() -> None:
    lines = [
        "Traceback, or whatever else",
        "3",
        json.dumps({"message": "Started server process"}),
        json.dumps({"message": "request", "route": "count_tokens", "held_ms": 90.0}),
        *(
            json.dumps({"message": "request", "route": "messages", "held_ms": float(n)})
            for n in range(1, 41)
        ),
    ]
    log = "\n".join(lines)

    assert len(lines_of(log)) == 40
    assert held(log)["median"] == 20.5
    assert held(log)["most"] == 40.0
    assert held("") == {"calls": 0}


def test_a_call_that_was_sent_again_is_paired_with_what_arrived_of_it() -> None:
    body = steps(2)
    sent = [request(1.0, body), request(2.0, body), request(3.0, body, status=200)]

    got = [request(3.4, body, verdict=REFUSED), request(3.5, body, status=200)]
    lost, again, last = pair(sent, got)

    assert (lost.arrived, again.arrived) == ((), ())
    assert len(last.arrived) == 2


def test_what_an_agent_sends_after_a_refusal_is_not_taken_for_the_gateways_answer() -> None:
    body = steps(2)
    sent = [request(1.0, body, status=400), request(2.0, body, status=200)]
    got = [request(1.5, body, verdict=REFUSED), request(2.5, body, status=200)]

    refused, again = pair(sent, got)

    assert [len(refused.arrived), len(again.arrived)] == [1, 1]
    assert refused.billed is not None
    assert refused.billed.verdict


def test_the_matrix_names_each_session_once_and_has_a_bill_to_compare_with() -> None:
    sessions = matrix()
    names = [one.name for one in sessions]

    assert len(set(names)) == len(names)
    assert {f"{one.agent.name} default direct" for one in sessions} <= set(names)
    assert all(one.switches == 0 for one in sessions if one.kind in ("direct", "plain"))
    assert all(one.switches for one in sessions if one.kind not in ("direct", "plain"))


def test_every_session_goes_through_the_door_that_it_names(tmp_path: Path) -> None:
    for session in matrix():
        door = door_for(session.plan, tmp_path)
        assert type(door) is {"wrap": Wrap, "serve": Serve, "direct": Direct}[session.plan.door]


def test_a_plan_comes_back_from_json_as_it_was() -> None:
    for session in matrix():
        written = json.loads(json.dumps(asdict(session.plan)))
        assert plan_of(written) == session.plan
    assert plan_of({"steps": 3}) == Plan(steps=3)


@pytest.mark.parametrize(("mode", "means"), [("edit", "edit"), ("shadow", "shadow")])
def test_the_file_for_agora_serve_is_one_that_it_takes(mode: Any, means: str) -> None:
    text = settings_for(mode, 4_711, "http://127.0.0.1:9", matrix()[0].plan.settings)

    config = parse_config(text)

    assert (config.listen_host, config.listen_port) == ("127.0.0.1", 4_711)
    assert config.compression.mode == means
    assert config.log.requests


def test_wrap_says_that_it_has_no_way_into_shadow_while_an_agent_runs() -> None:
    with pytest.raises(ValueError, match="'shadow'"):
        Wrap().switch(Switch(1, "shadow"), 0)
