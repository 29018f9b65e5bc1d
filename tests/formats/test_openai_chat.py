from typing import Any

from agora.formats import Parsed, validate
from harness import shortened
from harness.shortened import marker, note, signed_marker

USER = {"role": "user", "content": "Find it."}


def read(messages: Any, **options: Any) -> Parsed:
    return shortened.read(messages, "openai", **options)


def call(call_id: str, arguments: str = "{}", name: str = "look") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def acts(*ids: str, content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [call(i) for i in ids]}


def saw(call_id: str, content: Any = "a key") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def says(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def steps_of(*messages: dict[str, Any]) -> list[tuple[str, str, bool]]:
    steps = read(list(messages)).trajectory.steps
    return [(step.action, step.observation, step.removable) for step in steps]


def elide(*messages: dict[str, Any], **numbers: str) -> list[Any]:
    parsed = read(list(messages))
    elided = {int(name[1:]): line for name, line in numbers.items()}
    rendered: list[Any] = shortened.write(parsed, "openai", elided).messages
    return rendered


def test_a_step_is_a_call_with_its_result() -> None:
    assert steps_of(USER, acts("a"), saw("a"), acts("b"), saw("b", "a door")) == [
        ("look {}", "a key", True),
        ("look {}", "a door", True),
    ]


def test_parallel_calls_and_results_in_any_order_are_one_step() -> None:
    messages = (USER, acts("a", "b"), saw("b", "two"), saw("a", "one"))

    assert steps_of(*messages) == [("look {}\nlook {}", "two\none", True)]


def test_what_the_agent_says_in_a_message_before_its_call_stays() -> None:
    parsed = read([USER, says("I will look."), acts("a"), saw("a")])

    assert parsed.step_of_message == [0, 0, 1, -1]


def test_an_answer_to_the_user_and_the_users_text_are_never_steps() -> None:
    parsed = read([USER, says("Which one?"), USER, acts("a"), saw("a")])

    assert [u.by_user for u in parsed.trajectory.utterances] == [False, True]
    assert parsed.step_of_message == [0, 0, 0, 1, -1]


def test_a_call_without_its_result_is_pending() -> None:
    trajectory = read([USER, acts("a", "b"), saw("a")]).trajectory

    assert not trajectory.steps
    assert trajectory.pending_tokens > 0


def test_a_step_right_before_user_text_is_masked_so_that_roles_still_alternate() -> None:
    messages = (USER, acts("a"), saw("a"), USER, acts("b"), saw("b"))

    assert [removable for _, _, removable in steps_of(*messages)] == [False, True]
    assert elide(*messages, n1="look -> key 1") == [
        USER,
        acts("a"),
        saw("a", note(1, "key 1")),
        USER,
        acts("b"),
        saw("b"),
    ]


def test_a_system_message_between_call_and_result_stays_and_the_step_stays_closed() -> None:
    system = {"role": "system", "content": "Time passes."}
    parsed = read([USER, acts("a"), system, saw("a"), acts("b"), saw("b")])

    assert parsed.step_of_message == [0, 1, 0, -1, 2, -2]


def test_a_run_of_elided_steps_leaves_one_marker_in_the_message_before_it() -> None:
    messages = (USER, acts("a"), saw("a"), acts("b"), saw("b"), acts("c"), saw("c"))

    assert elide(*messages, n1="look -> x1", n2="") == [
        {"role": "user", "content": f"Find it.\n\n{signed_marker(1, 2)}\n1 look -> x1"},
        acts("c"),
        saw("c"),
    ]


def test_a_run_goes_on_through_what_is_said_and_its_marker_stays_among_results() -> None:
    messages = [USER, acts("a"), saw("a"), acts("b"), saw("b"), says("So?"), USER, acts("c")]
    messages += [saw("c"), says("Well."), USER]
    marked = saw("a", f"a key\n\n{marker(2, 3)}\n3 look -> x1")

    out = elide(*messages, n2="", n3="look -> x1")
    assert out == [USER, acts("a"), marked, says("So?"), USER, says("Well."), USER]
    more = elide(*messages, acts("d"), saw("d"), n2="", n3="look -> x1")
    assert more == [*out, acts("d"), saw("d")]


def test_the_words_of_a_user_hold_a_marker_where_no_result_stays_before_them() -> None:
    messages = (USER, acts("a"), saw("a"), says("So?"), USER, acts("b"), saw("b"), acts("c"))
    out = elide(*messages, saw("c"), n1="", n2="")

    signed = [signed_marker(n) for n in (1, 2)]
    assert [out[0]["content"], out[2]["content"]] == [f"Find it.\n\n{text}" for text in signed]


def test_a_message_that_is_not_touched_is_the_callers_own_object() -> None:
    messages = [USER, acts("a"), saw("a"), acts("b"), saw("b")]
    parsed = read(messages)
    out = shortened.write(parsed, "openai", {1: ""})

    assert out.messages[1] is messages[3]
    assert out.positions == (0, 3, 4)
    assert messages[0] == USER


def test_images_cost_a_constant_whatever_their_encoding_weighs() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    user = {"role": "user", "content": [{"type": "text", "text": "x"}, image, "odd"]}

    assert read([user]).trajectory.tokens < 2_000


def test_system_text_and_tools_beside_the_messages_are_counted() -> None:
    options: Any = {"system": "x" * 100, "tools": [{"type": "function"}]}

    bare = read([USER]).trajectory.tokens
    assert read([USER], **options).trajectory.tokens > bare + 100


def test_calls_of_before_tool_calls_and_custom_calls_are_read_too() -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    custom = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
    }
    answer = {"role": "function", "name": "f", "content": "one"}

    assert steps_of(USER, legacy, answer, custom, saw("c")) == [
        ("f ", "one", True),
        ("sh ls", "a key", True),
    ]


def test_reasoning_in_a_message_is_the_steps_thought() -> None:
    thinks = {**acts("a"), "reasoning_content": "Perhaps here."}
    odd = {**acts("b"), "reasoning_content": ["not text"]}
    steps = read([USER, thinks, saw("a"), odd, saw("b")]).trajectory.steps

    assert [step.thought for step in steps] == ["Perhaps here.", ""]
    assert steps[0].tokens > steps[1].tokens


def test_an_agent_that_acts_by_react_text_is_read_in_chat_messages() -> None:
    act = says("Thought: hm\nAction: open box 1")
    answer = {"role": "user", "content": "Observation: a key"}
    parsed = read([USER, act, answer, act, answer])

    assert parsed.step_of_message == [0, 1, -1, 2, -2]
    assert parsed.trajectory.steps[0].thought == "Thought: hm"
    assert parsed.trajectory.steps[0].action == "open box 1"


def test_without_marks_an_agent_acts_by_text_only_when_the_caller_says_so() -> None:
    messages = [USER, says("open box 1"), {"role": "user", "content": "a key"}]

    assert not read(messages).trajectory.steps
    assert read(messages, observations="user").trajectory.steps[0].action == "open box 1"


def test_behind_a_tool_call_no_user_message_is_an_observation() -> None:
    act = says("Thought: hm\nAction: open box 1")
    answer = {"role": "user", "content": "Observation: a key"}

    assert read([USER, act, answer, acts("a"), saw("a")]).step_of_message == [0, 1, -1, 2, -2]
    assert read([USER, acts("a"), saw("a"), act, answer]).step_of_message == [0, 1, -1, 0, 0]


def test_the_callers_word_counts_up_to_the_first_tool_call() -> None:
    messages = [USER, says("open box 1"), USER, acts("a"), saw("a"), says("Which one?"), USER]

    assert read(messages, observations="user").step_of_message == [0, 1, -1, 2, -2, 0, 0]


def test_a_role_that_is_not_known_is_kept_in_place() -> None:
    odd = {"role": "critic", "content": "Too slow."}
    messages = [USER, acts("a"), saw("a"), odd, acts("b"), saw("b")]

    assert validate(messages, format="openai") == []
    assert [removable for _, _, removable in steps_of(*messages)] == [False, True]
    assert elide(*messages, n1="", n2="")[3] is odd


def thoughts_of(**more: Any) -> tuple[str, int]:
    """Return the reasoning that was read of a message, and its tokens."""
    bare = read([USER, acts("a"), saw("a")]).trajectory.steps[0]
    step = read([USER, {**acts("a"), **more}, saw("a")]).trajectory.steps[0]
    return step.thought, step.tokens - bare.tokens


def test_reasoning_is_read_under_either_name_and_counted_once() -> None:
    assert thoughts_of(reasoning_content="Hm.") == ("Hm.", 3)
    assert thoughts_of(reasoning="Hm.") == ("Hm.", 3)
    assert thoughts_of(reasoning="Hm.", reasoning_content="Hm.") == ("Hm.", 3)
    assert thoughts_of(reasoning={"effort": "high"}, reasoning_content=None) == ("", 0)
