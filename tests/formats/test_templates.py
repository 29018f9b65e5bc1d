"""What a program writes is told from what a person writes, and never the other way."""

import time

import pytest

# Private: frames of agents that act by text, read piece by piece.
from agora.formats.text_agents import TEMPLATES, Exchange, first_template, in_template

FENCE = "Let me look.\n\n```bash\nls\n```"
REACT = "Thought: hm\nAction: ls"
RAN = "<returncode>0</returncode>\n<output>\na.py\n</output>"
SHELL = "(Open file: n/a)\n(Current directory: /repo)\nbash-$"
SWE_AGENT = ("The prompt is\n(Open file: <path>) ...", f"Fix it.\n{SHELL}")
CALLING = "Calling tools:\n[{'id': 'call_1'}]"

CUT = (
    "<returncode>-9</returncode>\n<warning>long</warning><output_head>\na\n</output_head>\n"
    "<elided_chars>\n7\n</elided_chars>\n<output_tail>\nb\n</output_tail>\n"
)

PROGRAMS = {
    "mini-swe-agent": (FENCE, RAN, "returncode"),
    "mini-swe-agent, cut": (
        FENCE,
        CUT,
        "returncode",
    ),
    "ReAct": (REACT, "Observation: a.py", "Observation:"),
    "ReAct, numbered": ("Thought 1: hm\nAction 1: ls", "\nObservation 1: a.py", "Observation:"),
    "ReAct, with input": ("Action: sh\nAction Input: ls", "Observation: a.py", "Observation:"),
    "ReAct, with code": ("Thought: hm\n<code>\nls()\n</code>", "Observation:\n3", "Observation:"),
    "smolagents": (CALLING, "Observation:\n3", "Observation:"),
    "SWE-agent 1": (f"DISCUSSION\n{FENCE}", "OBSERVATION:\na.py", "OBSERVATION:"),
    "in brackets": (REACT, "[Observation] a.py", "[Observation]"),
    "a tool tag": (
        "<tool_call>\n{}\n</tool_call>",
        "<tool_response>\n{}\n</tool_response>",
        "tool_response",
    ),
    "several results": (
        REACT,
        "<observation>1</observation>\n<observation>2</observation>\n",
        "observation",
    ),
    "output": (f"THOUGHT: hm\n{FENCE}", "<output>\na.py\n</output>", "output"),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_what_a_program_writes_is_known_by_its_template(case: str) -> None:
    said, answer, name = PROGRAMS[case]
    template = first_template(Exchange(said, answer), "", "")

    assert template is not None
    assert template.name == name


@pytest.mark.parametrize(
    "tag",
    [
        *("observation", "tool_response", "tool_result", "tool_results", "tool_output"),
        *("function_result", "function_results", "function_response"),
        *("execution_result", "execution_output", "output", "stdout", "command_output"),
    ],
)
def test_a_result_in_a_tag_is_known_by_its_tag(tag: str) -> None:
    template = first_template(Exchange(REACT, f"<{tag}>a.py</{tag}>"), "", "")

    assert template is not None
    assert template.name == tag


PERSONS = {
    "words behind the frame": (FENCE, f"{RAN}\nWhy is that?"),
    "words before the frame": (FENCE, f"I got\n{RAN}"),
    "words between the elements": (FENCE, f"{RAN}\nand then\n<output>b</output>"),
    "output that closes the frame": (
        FENCE,
        "<returncode>0</returncode><output></output>x</output>",
    ),
    "a frame that does not close": (FENCE, "<returncode>0</returncode>\n<output>\na.py"),
    "a tag that is not known": (FENCE, "<returncode>0</returncode>\n<note>mine</note>"),
    "nothing behind the code": (FENCE, "<returncode>0</returncode>\n"),
    "no command before it": ("Hello.", RAN),
    "Observation: to a person's Action:": ("Action: restart it.", "Observation: it hangs"),
    "Observation: to a person's Thought:": ("Thought: maybe.", "Observation: it hangs"),
    "OBSERVATION: to code": (FENCE, "OBSERVATION:\nit hangs"),
    "output to code": (FENCE, "<output>\nmy text\n</output>"),
    "output to a call": ("<tool_call>{}</tool_call>", "<output>\nmy text\n</output>"),
    "a tool tag to code": (FENCE, "<tool_response>x</tool_response>"),
    "a shell that no prompt speaks of": (FENCE, f"look\n{SHELL}"),
    "nothing": (REACT, ""),
    "the next task of smolagents": (CALLING, "Observation:\n3\nNew task:\nAnd the other?"),
}


@pytest.mark.parametrize("case", PERSONS)
def test_what_may_be_a_persons_is_in_no_template(case: str) -> None:
    said, answer = PERSONS[case]

    assert first_template(Exchange(said, answer), "", "") is None


def test_the_shell_of_swe_agent_counts_where_its_prompt_speaks_of_it() -> None:
    for answer in (f"a.py\n{SHELL}", SHELL.replace("bash", "(Interactive session: n/a)\nbash")):
        template = first_template(Exchange("ls", answer), *SWE_AGENT)
        assert template is not None
        assert template.name == "shell"
    for answer in ("a.py", f"{SHELL} and now?"):
        assert first_template(Exchange("ls", answer), *SWE_AGENT) is None
    assert first_template(Exchange("ls", SHELL), SWE_AGENT[0], "Fix it.") is None


def test_templates_are_read_in_linear_time() -> None:
    """Four times the text takes about four times as long; a square would take sixteen."""

    def seconds(size: int) -> float:
        texts = ("<output>" * size, "<output></output>" * size, "(Open file: " * size, "\n" * size)
        exchanges = [
            Exchange(said, f"<returncode>0</returncode>{text}")
            for text in texts
            for said in (FENCE, text, f"Thought:\n{text}")
        ]
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            for exchange in exchanges:
                for template in TEMPLATES:
                    template.matches(exchange)
                    template.may_open(exchange, *SWE_AGENT)
            best = min(best, time.perf_counter() - began)
        return best

    seconds(1_000)
    assert seconds(40_000) < 10 * seconds(10_000)


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        (
            "<returncode>1</returncode>\n<output>\nx\n</output>",
            "<returncode>1</returncode>\n<output>\n[note]\n</output>",
        ),
        ("Observation: you see a key", "Observation: [note]"),
        ("OBSERVATION:\na key", "OBSERVATION: [note]"),
        ("[Observation] a key", "[Observation] [note]"),
        ("<observation>a key</observation>", "<observation>\n[note]\n</observation>"),
        ("<b>a key</b>", "[note]"),
        ("<output>a key</output> and more", "[note]"),
        (
            "a key\n(Open file: n/a)\n(Current directory: /app)\nbash-$",
            "[note]\n(Open file: n/a)\n(Current directory: /app)\nbash-$",
        ),
        ("a key", "[note]"),
    ],
)
def test_a_note_takes_the_template_of_what_it_replaces(answer: str, noted: str) -> None:
    assert in_template("[note]", answer) == noted
