from agora_lab.backbones.student import StudentFormat


def test_a_student_is_told_the_worlds_name_and_what_a_method_added() -> None:
    said = StudentFormat("counting", "Say: one more").said(
        [
            {"role": "system", "content": "Say: one more\n\n[steps 1-2 elided]"},
            {"role": "user", "content": [{"type": "text", "text": "3"}]},
        ]
    )

    assert said == [
        {"role": "system", "content": "counting\n\n[steps 1-2 elided]"},
        {"role": "user", "content": "3"},
    ]


def test_calls_and_results_are_written_as_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "act", "arguments": '{"a": 1}'}}

    said = StudentFormat("desk", "").said(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "ok"},
        ]
    )

    assert said == [
        {"role": "assistant", "content": 'act {"a": 1}'},
        {"role": "user", "content": "ok"},
    ]
