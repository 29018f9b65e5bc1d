"""What the paper found, and whether it replicates, by rules fixed beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

from agora_lab.evaluation.results import CellResult, Results
from agora_lab.evaluation.statistics import mean, paired, wilcoxon

_ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim of the paper with its figure, ours, and whether it replicates."""

    claim: str
    paper: str
    ours: str
    seen: str
    """`yes`, `no`, `partly`, or `unknown` where the run cannot decide it."""


def findings(results: Results) -> list[Finding]:
    """Return the paper's headline findings, each compared with this run.

    The paper's figures come from three production language models, ours from the
    backbones of the run, so a difference may be due to the setup.
    """
    return [
        _retains(results, "agora_paper", "8 of 9 cells", 8 / 9),
        _retains(results, "floor", "6 of 9 cells", 6 / 9),
        _difference(
            results,
            "choosing steps at random costs the most",
            "−0.344, significant in 9 of 9 cells",
            ("agora_paper_random_scores", "random_step"),
        ),
        _difference(
            results,
            "removing the floor costs reward",
            "−0.088, significant in 4 of 9 cells",
            ("agora_paper_no_floor",),
        ),
        _difference(
            results,
            "removing the scorer costs little reward",
            "−0.031, significant in 3 of 9 cells",
            ("agora_paper_no_scorer", "floor"),
        ),
        _range(
            results, "agora_paper", "one keep ratio gives a wide range of compression", "1.0–11.5×"
        ),
        _range(results, "truncate", "truncation to 2,048 tokens hardly compresses", "about 1.5×"),
        _token_level(results),
        _overlap(results),
    ]


def _of(results: Results, method: str) -> list[CellResult]:
    return [cell for cell in results.cells if cell.method == method and cell.audit.admitted]


def _retains(results: Results, method: str, paper: str, share: float) -> Finding:
    claim = f"{method} retains 75 % or more in most cells"
    cells = [cell for cell in _of(results, method) if cell.retention]
    if not cells:
        return Finding(claim=claim, paper=paper, ours="not played", seen="unknown")
    kept = sum(cell.retention.estimate.value >= 0.75 for cell in cells if cell.retention)
    said = ", ".join(
        f"{c.environment} {c.backbone} {100 * c.retention.estimate.value:.0f} %"
        for c in cells
        if c.retention
    )
    seen = "yes" if kept / len(cells) >= share - 1e-9 else "partly" if kept else "no"
    return Finding(
        claim=claim, paper=paper, ours=f"{kept} of {len(cells)} cells: {said}", seen=seen
    )


def _difference(results: Results, claim: str, paper: str, methods: Sequence[str]) -> Finding:
    """Compare with `agora_paper`, cell by cell; uses the first of the methods that was played."""
    for method in methods:
        changes, worse, cells = [], 0, 0
        for cell in _of(results, method):
            whole = results.cell(cell.environment, cell.backbone, "agora_paper")
            if whole is None:
                continue
            ours, theirs = paired(_rewards(cell), _rewards(whole))
            if not ours:
                continue
            cells += 1
            change = mean([a - b for a, b in zip(ours, theirs, strict=True)]).estimate
            significant = wilcoxon(ours, theirs) < _ALPHA
            worse += significant and change.value < 0
            mark = "*" if significant else ""
            changes.append(f"{cell.environment} {cell.backbone} {change.value:+.3f}{mark}")
        if cells:
            said = f"{method}: {', '.join(changes)}"
            seen = "yes" if worse == cells else "partly" if worse else "no"
            if "little" in claim:
                seen = {"yes": "no", "no": "yes"}.get(seen, seen)
            return Finding(claim=claim, paper=paper, ours=said, seen=seen)
    return Finding(claim=claim, paper=paper, ours="not played", seen="unknown")


def _range(results: Results, method: str, claim: str, paper: str) -> Finding:
    values = [c.compression.estimate.value for c in _of(results, method) if c.compression]
    if not values:
        return Finding(claim=claim, paper=paper, ours="not played", seen="unknown")
    low, high = min(values), max(values)
    said = f"{low:.2f}–{high:.2f}× over {len(values)} cells"
    wide = high / low >= 3
    seen = "yes" if (wide if method.startswith("agora") else high < 2) else "no"
    return Finding(claim=claim, paper=paper, ours=said, seen=seen)


def _token_level(results: Results) -> Finding:
    claim = "methods that cut inside steps collapse to a reward of 0.05 or less"
    paper = "17 of 17 cells"
    cells = [
        cell
        for cell in results.cells
        if cell.method.startswith(("selective_context", "llmlingua2")) and cell.audit.admitted
    ]
    if not cells:
        return Finding(claim=claim, paper=paper, ours="not played", seen="unknown")
    fallen = sum(cell.reward.estimate.value <= 0.05 for cell in cells)
    said = ", ".join(f"{c.environment} {c.method} {c.reward.estimate.value:.3f}" for c in cells)
    seen = "yes" if fallen == len(cells) else "partly" if fallen else "no"
    return Finding(
        claim=claim, paper=paper, ours=f"{fallen} of {len(cells)} cells: {said}", seen=seen
    )


def _overlap(results: Results) -> Finding:
    claim = "AGORA's choice is closer to the newest steps than to random ones"
    paper = "Jaccard 0.514 with ObsMask, 0.473 with random"
    pairs: dict[str, list[float]] = {"floor": [], "random_step": []}
    for one in results.overlaps():
        both = {one.one, one.other}
        for other, values in pairs.items():
            if both == {"agora_paper", other}:
                values.append(one.jaccard)
    if not all(pairs.values()):
        return Finding(claim=claim, paper=paper, ours="not played", seen="unknown")
    newest, random = (sum(values) / len(values) for values in pairs.values())
    return Finding(
        claim=claim,
        paper=paper,
        ours=f"{newest:.3f} with the newest two, {random:.3f} with random_step",
        seen="yes" if newest > random else "no",
    )


def _rewards(cell: CellResult) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in cell.rows:
        found.setdefault(row.task, []).append(row.reward)
    return {task: sum(values) / len(values) for task, values in found.items()}
