"""The ledger of a client, where the answer is known."""

from typing import Any

import pytest

from agora import Compressor, Session, sheet_for
from agora.formats import Usage

# Private: the account of a wrapped client, call by call.
from agora.savings import Ledger

MODEL = "claude-sonnet-4-6"
SHEET = sheet_for(MODEL)


def history(steps: int, first: str) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "Read every log."}]
    for n in range(steps):
        use = {"type": "tool_use", "id": f"toolu_{first}{n}", "name": "read", "input": {"n": n}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{first}{n}"}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": first}, use]})
        messages.append({"role": "user", "content": [{**result, "content": "so it goes " * 200}]})
    return messages


@pytest.mark.parametrize("rewritten", [False, True])
def test_no_cache_would_have_had_a_history_that_its_client_wrote_anew(rewritten: bool) -> None:
    ledger, session = Ledger(clock=lambda: 0.0), Session(Compressor(edits="every_call"))
    if rewritten:
        # The same words of the user, then other answers: a client's own summary.
        before = session.compress(history(20, "before"), model=MODEL)
        ledger.add(before, Usage(written=before.tokens_after), SHEET)
    paid = ledger.savings.dollars

    shorter = session.compress(history(20, "after"), model=MODEL)
    ledger.add(shorter, Usage(written=shorter.tokens_after), SHEET)

    removed, kept = shorter.tokens_before - shorter.tokens_after, shorter.tokens_after
    tokens = removed * SHEET.write
    if not rewritten:
        # A conversation whose beginning is not known is taken to have been cached so far.
        tokens = (removed + kept) * SHEET.read - kept * SHEET.write
    assert removed > 0
    assert ledger.savings.dollars - paid == pytest.approx(tokens * SHEET.input / 1e6, rel=0.01)
