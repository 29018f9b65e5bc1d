"""Legal histories that are one text: role-marker transcripts."""

from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.transcripts import write as write_blocks


class _Text:
    """A text while it is being written, with the draft that knows where its steps are."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.draft = Draft(messages="")

    def put(self, text: str) -> None:
        self.draft.messages += text


def write_transcript(choices: Choices, max_steps: int) -> Draft:
    """Return a transcript as a choices writes it, over many lines or on one."""
    text = _Text(choices)
    draft = text.draft
    one_line = choices.below(8) == 7

    def block(role: str, words: str) -> None:
        if one_line:
            # Nothing can quote a role mark on one line, so no text may hold one.
            text.put(f"[{role}] {words.replace('[', '(')} ")
        else:
            text.put(write_blocks([(role, words)]))

    if choices.often():
        draft.system = choices.words() if choices.rarely() else None
        block("SYSTEM", choices.words())
    block("USER", choices.words() if one_line or draft.messages else "find it")
    draft.called()
    for _ in range(choices.below(max_steps + 1)):
        start = len(draft.messages)
        block("ASSISTANT", _act(choices))
        if choices.rarely():
            block("ASSISTANT", choices.words())
        block("USER", choices.observation())
        if choices.rarely():
            block("USER", choices.words())
        draft.closed.append((start, len(draft.messages)))
        draft.called()
    if choices.sometimes():
        text.put("[ASSISTANT]" if choices.often() else "[ASSISTANT] Thought: so")
    elif choices.often():
        _end_without_a_gap(draft)
    return draft


def _act(choices: Choices) -> str:
    if choices.often():
        return choices.words()
    return f"Thought: {choices.words()}\nAction: {choices.words()}"


def _end_without_a_gap(draft: Draft) -> None:
    """Take the last white space off, as most callers end a text."""
    draft.messages = draft.messages.rstrip()
    size = len(draft.messages)
    draft.calls = [min(call, size) for call in draft.calls]
    if draft.closed:
        start, _ = draft.closed[-1]
        draft.closed[-1] = (start, size)
