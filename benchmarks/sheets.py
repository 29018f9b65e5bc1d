"""What it costs to decide by a price sheet that is not the one a call is billed by.

    python -m benchmarks.sheets

Generated trajectories of `benchmarks.bill`, input only, relative to sending everything. Lifetimes:
calls that are written for an hour, decided at the price of five minutes and at their own. Tiers:
models whose prices rise with the prompt, decided as they are now, and with the size at which they
first rise taken for the window, above which an edit is due whatever it costs.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from agora.core.budget import Budget
from agora.core.prices import PriceSheet, sheet_for
from agora.core.schedule import MIN_TOKENS, RentOrBuy
from benchmarks.bill import K_RECENT, PAPER, Prompts, Recording, agora_edit, bill, generated

HOUR = ("claude-opus-5", "claude-sonnet-5-5", "claude-fable-5-2")
TIERED = ("claude-haiku-5-5", "gpt-5.5", "gpt-6.1-sol", "gemini-3.1-pro")


def ratios(recording: Recording, decided: PriceSheet, billed: PriceSheet) -> tuple[float, float]:
    """Return the bill relative to sending everything: at the end, and at its worst call."""
    prompts = Prompts(recording)
    sizes = recording.sizes()
    schedule = RentOrBuy(decided, Budget(), K_RECENT, min_tokens=MIN_TOKENS)
    edits = schedule.edit(sizes).by_call(len(sizes.steps))
    epochs, rooms = [edit.epoch for edit in edits], [edit.room for edit in edits]
    kind = agora_edit(schedule)
    ours = bill(billed, prompts.sent(epochs.__getitem__, kind, rooms.__getitem__))
    full = bill(billed, prompts.sent(lambda _: 0, PAPER))
    so_far = full_so_far = worst = 0.0
    for mine, theirs in zip(ours, full, strict=True):
        so_far, full_so_far = so_far + mine.dollars, full_so_far + theirs.dollars
        worst = max(worst, so_far / full_so_far)
    return so_far / full_so_far, worst


def row(name: str, recordings: Sequence[Recording], decided: PriceSheet, billed: PriceSheet) -> str:
    """Return a line: how many trajectories, the mean at the end, the worst call."""
    found = [ratios(one, decided, billed) for one in recordings]
    ends, worst = zip(*found, strict=True)
    return f"{name:66} {len(found):4} {mean(ends):7.3f} {max(worst):7.3f}"


def main() -> None:
    """Print the table."""
    by_steps: dict[int, list[Recording]] = {}
    for recording in generated():
        by_steps.setdefault(recording.steps, []).append(recording)
    print(f"{'':66} {'n':>4} {'mean':>7} {'worst':>7}")
    for steps, recordings in by_steps.items():
        for name in HOUR:
            usual, hour = sheet_for(name).for_ttl(None), sheet_for(name).for_ttl("1h")
            usual, hour = replace(usual, window=None), replace(hour, window=None)
            said = f"{name}, {steps} steps, billed for an hour, decided at"
            print(row(f"{said} 1.25", recordings, usual, hour))
            print(row(f"{said} 2.0", recordings, hour, hour))
        for name in TIERED:
            sheet = replace(sheet_for(name), window=None)
            print(row(f"{name}, {steps} steps, tiers unknown", recordings, sheet, sheet))
            bounded = replace(sheet, window=sheet.cliff)
            print(row(f"{name}, {steps} steps, cliff as window", recordings, bounded, sheet))


if __name__ == "__main__":
    main()
