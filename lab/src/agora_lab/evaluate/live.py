"""A run against a real provider: both arms, paired by task."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet
from agora_lab.agents.live import PURSE, billed
from agora_lab.agents.purse import spent_from
from agora_lab.episodes.episode import Episode
from agora_lab.episodes.run import read_episodes
from agora_lab.evaluate.statistics import mean, paired


def compared(folder: Path, sheet: PriceSheet) -> dict[str, Any]:
    """Return reward, steps, tokens and dollars of both arms, of the tasks that both have played."""
    by_method: dict[str, dict[str, Episode]] = {"none": {}, "agora": {}}
    for episode in read_episodes(folder):
        by_method[episode.cell.method][episode.task] = episode
    rows: dict[str, Any] = {}
    for name in ("reward", "steps", "tokens", "dollars"):
        values = {
            method: {task: _figure(name, one, sheet) for task, one in episodes.items()}
            for method, episodes in by_method.items()
        }
        ours, theirs = paired(values["agora"], values["none"])
        if ours:
            differences = [a - b for a, b in zip(ours, theirs, strict=True)]
            rows[name] = {
                "agora": sum(ours) / len(ours),
                "everything": sum(theirs) / len(theirs),
                "difference": asdict(mean(differences).estimate),
            }
    spent = spent_from(folder / PURSE)
    return {
        "tasks": len(by_method["none"].keys() & by_method["agora"].keys()),
        "calls": spent.calls,
        "counted_dollars": spent.dollars,
        "figures": rows,
    }


def _figure(name: str, episode: Episode, sheet: PriceSheet) -> float:
    moves = episode.moves
    if name == "reward":
        return episode.reward
    if name == "steps":
        return len(moves)
    if name == "tokens":
        return sum(move.input_tokens for move in moves)
    return sum(
        billed(sheet, move.input_tokens, move.cached_tokens, move.output_tokens) for move in moves
    )
