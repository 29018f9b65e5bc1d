from typing import Any

from agora.formats import Parsed, format_named
from harness import shortened
from harness.shortened import marker, note, signed_marker

FORMAT: Any = format_named("gemini")
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "A" * 10_000}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


USER = user("Find it.")


def acts(*names: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    calls: list[dict[str, Any]] = [{"functionCall": {"name": n, "args": {"at": n}}} for n in names]
    calls[0]["thoughtSignature"] = "c2ln"
    return {"role": "model", "parts": [*before, *calls]}


def saw(name: str, response: Any = None, **more: Any) -> dict[str, Any]:
    said = {"output": "a key"} if response is None else response
    return {"functionResponse": {"name": name, "response": said, **more}}


def parse(*contents: dict[str, Any], **options: Any) -> Parsed:
    return shortened.read(list(contents), "gemini", **options)


def elide(*contents: dict[str, Any], **numbers: str) -> list[Any]:
    elided = {int(name[1:]): line for name, line in numbers.items()}
    parsed = parse(*contents)
    rendered: list[Any] = shortened.write(parsed, "gemini", elided).messages
    return rendered


def test_a_step_is_a_turn_with_calls_and_the_turn_that_answers_them() -> None:
    thought = {"text": "hm", "thought": True}
    parsed = parse(USER, acts("a", "b", before=(thought,)), user(saw("a"), saw("b", {"x": [1]})))

    step = parsed.trajectory.steps[0]
    assert parsed.step_of_message == [0, 1, -1]
    assert (step.action, step.thought) == ('a {"at": "a"}\nb {"at": "b"}', "hm")
    assert step.observation == 'a key\n{"x": [1]}'
    assert step.removable


def test_elided_steps_leave_their_marker_inside_the_response_before_them_or_in_user_text() -> None:
    contents = (USER, acts("a"), user(saw("a")), acts("b"), user(saw("b")), acts("c"))
    out = elide(*contents, user(saw("c")), n2="b -> x1")

    assert out[2] == user(saw("a", {"output": f"a key\n\n{marker(2)}\n2 b -> x1"}))
    assert out[1] is contents[1]
    first = elide(*contents, user(saw("c")), n1="")[0]
    assert first == user("Find it.", signed_marker(1))


def test_a_marker_finds_a_field_for_itself_in_any_object() -> None:
    def marked(response: dict[str, Any]) -> Any:
        later = (acts("b"), user(saw("b")), acts("c"), user(saw("c")))
        out = elide(USER, acts("a"), user(saw("a", response)), *later, n2="")
        return out[2]["parts"][0]["functionResponse"]["response"]

    note = marker(2)
    assert marked({}) == {"output": note}
    assert marked({"output": ""}) == {"output": note}
    assert marked({"result": "ok", "n": 1}) == {"result": f"ok\n\n{note}", "n": 1}
    assert marked({"output": [1]}) == {"output": [1], "note": note}


def test_where_no_field_is_free_the_marker_goes_to_the_turn_before() -> None:
    full = user(saw("a", {"output": 1, "note": 2}))
    out = elide(USER, acts("a"), full, acts("b"), user(saw("b")), acts("c"), user(saw("c")), n2="")

    assert out[0] == user("Find it.", signed_marker(2))
    assert out[2] is full


def test_a_step_that_the_user_speaks_in_is_masked_and_keeps_calls_and_signatures() -> None:
    answered = user(saw("a", id="1"), saw("b", {"n": 1}, parts=[PICTURE]), "Hurry.")
    contents = (USER, acts("a", "b"), answered, acts("c"), user(saw("c")))

    out = elide(*contents, n1="a -> x1")

    assert out[1] is contents[1]
    assert out[2] == user(
        saw("a", {"output": note(1, "x1")}, id="1"),
        saw("b", {"output": note(1)}),
        "Hurry.",
    )
    utterances = parse(*contents).trajectory.utterances
    assert [(u.text, u.by_user) for u in utterances] == [("Hurry.", True)]


def test_what_an_agent_that_acts_by_text_observed_is_masked_whole() -> None:
    says = {"role": "model", "parts": [{"text": "Thought: hm\nAction: open box 1"}]}
    contents = (USER, says, user("Observation: a key"), user("Go on."), says)

    out = elide(*contents, user("Observation: x"), n1="open -> key 1")

    assert out[2] == user(f"Observation: {note(1, 'key 1')}")


def test_the_spelling_of_the_python_sdk_is_read_and_kept() -> None:
    call = {"function_call": {"name": "a", "args": None}, "thought_signature": b"sig", "text": None}
    response = {"function_response": {"name": "a", "response": {"result": "seen"}}}
    step = ({"role": "model", "parts": [call]}, {"role": "user", "parts": [response]})

    out = elide(USER, *step, *step, *step, n2="")

    marked = {"name": "a", "response": {"result": f"seen\n\n{marker(2)}"}}
    assert out[2]["parts"] == [{"function_response": marked}]
    assert parse(USER, *step).trajectory.steps[0].calls[0].arguments == "{}"


def test_parts_we_do_not_know_keep_their_step_from_being_a_candidate() -> None:
    ran = {"executableCode": {"code": "1"}}
    odd: dict[str, Any] = {"toolCall": {}}
    parsed = parse(USER, acts("a", before=(ran,)), user(saw("a")), acts("b", before=(odd,)))
    more = parse(USER, acts("b", before=(odd,)), user(saw("b")))

    assert parsed.trajectory.steps[0].fixed == ""
    assert more.trajectory.steps[0].fixed == "holds a toolCall part"
