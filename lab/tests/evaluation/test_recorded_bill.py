from agora.core.prices import sheet_for
from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora_lab.evaluation.conversations import Conversation, of_trajectory
from agora_lab.evaluation.recorded_bill import recorded_bills
from agora_lab.methods import MethodSettings, method


def conversation(task: str, steps: int = 8) -> Conversation:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": f"Open the door {task}."},
    ]
    for number in range(steps):
        seen = "key1 key2 key9" if number == 0 else f"Nothing in room {number}, only dust. " * 4
        said = f"use key{number + 1}" if number > 3 else "look"
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": seen})
    return Conversation(source="made up", task=task, id=task, world="", messages=tuple(messages))


def test_tool_calls_are_written_as_text_and_nothing_that_was_said_is_lost() -> None:
    trajectory = Trajectory(
        task="Book it.",
        preamble="You are an agent.\n\nBook it.",
        preamble_tokens=9,
        steps=(
            Step(
                number=1,
                action="",
                observation="2 flights",
                tokens=5,
                calls=(Call("search", '{"to": "JFK"}'),),
            ),
            Step(number=2, action="think", observation="", tokens=5),
        ),
        utterances=(Utterance(after=1, text="The early one.", tokens=3, by_user=True),),
    )
    talk = of_trajectory(trajectory, source="log", task="7", key="7.1")

    assert talk.steps == 2
    assert talk.action(1) == 'search {"to": "JFK"}'
    assert talk.before(2)[-1]["content"] == "2 flights\n\nuser: The early one."
    assert talk.messages[-1]["content"] == "(nothing)"


def test_editing_at_every_call_costs_more_than_sending_everything_with_a_cache() -> None:
    sheets = {name: sheet_for(name) for name in ("claude-sonnet-4-5", "mistral-large")}
    sheets["no cache"] = sheets["mistral-large"].no_cache()
    talks = [conversation(str(n), 40) for n in range(3)]
    bills = list(
        recorded_bills(
            talks,
            ["floor", "agora", "agora_every_call"],
            sheets,
            lambda name, sheet: method(
                name, MethodSettings(options={"sheet": sheet} if name == "agora" else {})
            ),
            lambda name: name == "agora",
        )
    )
    ratio = {(bill.method, bill.sheet): bill.ratio.value for bill in bills}

    assert ratio["none", "no cache"] == 1
    assert ratio["floor", "no cache"] < 0.5
    assert ratio["agora_every_call", "mistral-large"] > ratio["agora", "mistral-large"]
    assert ratio["agora", "mistral-large"] <= 1.02
    assert {bill.trajectories for bill in bills} == {3}
