"""Legal histories that are one text: role-marker transcripts and ReAct."""

from agora.adapters.react import quote
from agora.adapters.transcript import write as write_blocks
from agora.testing.draft import Draft
from agora.testing.pen import Pen


class _Text:
    """A text while it is being written, with the draft that knows where its steps are."""

    def __init__(self, pen: Pen) -> None:
        self.pen = pen
        self.draft = Draft(messages="")

    def put(self, text: str) -> None:
        self.draft.messages += text


def write_transcript(pen: Pen, max_steps: int) -> Draft:
    """Return a transcript as a pen writes it, over many lines or on one."""
    text = _Text(pen)
    draft = text.draft
    one_line = pen.below(8) == 7

    def block(role: str, words: str) -> None:
        if one_line:
            # Nothing can quote a role mark on one line, so no text may hold one.
            text.put(f"[{role}] {words.replace('[', '(')} ")
        else:
            text.put(write_blocks([(role, words)]))

    if pen.often():
        draft.system = pen.words() if pen.rarely() else None
        block("SYSTEM", pen.words())
    block("USER", pen.words() if one_line or draft.messages else "find it")
    draft.called()
    for _ in range(pen.below(max_steps + 1)):
        start = len(draft.messages)
        block("ASSISTANT", _act(pen))
        if pen.rarely():
            block("ASSISTANT", pen.words())
        block("USER", pen.observation())
        if pen.rarely():
            block("USER", pen.words())
        draft.closed.append((start, len(draft.messages)))
        draft.called()
    if pen.sometimes():
        text.put("[ASSISTANT]" if pen.often() else "[ASSISTANT] Thought: so")
    elif pen.often():
        _end_without_a_gap(draft)
    return draft


def write_react(pen: Pen, max_steps: int) -> Draft:
    """Return ReAct text as a pen writes it, its lines numbered or not."""
    text = _Text(pen)
    draft = text.draft
    numbered = pen.often()
    if not pen.sometimes():
        text.put(quote(pen.words()) + "\n")
    if pen.rarely():
        draft.system = pen.words()
    steps = pen.below(max_steps + 1)
    for number in range(1, steps + 1):
        mark = f" {number}:" if numbered else ":"
        start = len(draft.messages)
        if pen.often():
            text.put(f"Thought{mark} {quote(pen.words())}\n")
        text.put(f"Action{mark} {quote(pen.words())}\n")
        if pen.rarely():
            text.put(f"Action Input: {quote(pen.words())}\n")
        text.put(f"Observation{mark} {quote(pen.observation())}\n")
        draft.closed.append((start, len(draft.messages)))
        draft.called()
    if not steps or pen.sometimes():
        text.put(pen.pick(("Thought:", "Thought: then\nAction:")))
    elif pen.often():
        _end_without_a_gap(draft)
    return draft


def _act(pen: Pen) -> str:
    if pen.often():
        return pen.words()
    return f"Thought: {pen.words()}\nAction: {pen.words()}"


def _end_without_a_gap(draft: Draft) -> None:
    """Take the last white space off, as most callers end a text."""
    draft.messages = draft.messages.rstrip()
    size = len(draft.messages)
    draft.calls = [min(call, size) for call in draft.calls]
    if draft.closed:
        start, _ = draft.closed[-1]
        draft.closed[-1] = (start, size)
