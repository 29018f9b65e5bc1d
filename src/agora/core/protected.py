"""Which steps are never shortened, and why."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from agora.core.actions import NO_TOOLS, Tools, changes
from agora.core.trajectory import Step

LEAST_GAIN_TOKENS = 12
"""A step that cannot be removed leaves its calls and notes: below this nothing is gained."""
_INSTRUCTIONS = re.compile(
    r"\b(?:AGENTS|CLAUDE|SKILL|GEMINI|CONVENTIONS|copilot-instructions)\.md\b|\.cursorrules\b"
    r"|\.windsurfrules\b|\.clinerules\b"
)
"""Files with instructions for the agent."""
_PLANS = frozenset(
    """
    todowrite todoread updateplan writetodos updatetodos settodos managetodolist taskwrite
    createplan setplan writeplan todo todos plan exitplanmode updatetodolist tasktracker
    """.split()
)
"""Tools that keep a plan, their names in lower case without signs."""
_READ_CHARACTERS = 2_000


def protected_steps(
    steps: Sequence[Step],
    *,
    k_recent: int,
    pins: Collection[int] = (),
    recalled: Collection[int] = (),
    kept: Mapping[int, str] = MappingProxyType({}),
) -> Mapping[int, str]:
    """Return the number of each protected step with its reason.

    The newest step holds the current observation, so it is protected even if
    `k_recent` is 0. The preamble, the user's text and pending blocks are not steps.
    `kept` has further steps with their reasons.
    """
    reasons: dict[int, str] = {}
    newest = len(steps)
    for step in steps:
        number = step.number
        if number == newest:
            reasons[number] = "current observation"
        elif number > newest - k_recent:
            reasons[number] = "recent"
        elif number in pins:
            reasons[number] = "pinned"
        elif number in recalled:
            reasons[number] = "recalled"
        elif number in kept:
            reasons[number] = kept[number]
        elif step.fixed:
            reasons[number] = step.fixed
        elif not step.removable and step.tokens - step.residue_tokens < LEAST_GAIN_TOKENS:
            reasons[number] = "small"
    return reasons


def kept_by_tool(
    steps: Sequence[Step], names: Collection[str], *, plans: bool = True, tools: Tools = NO_TOOLS
) -> Mapping[int, str]:
    """Return the steps that stay because of their tool, each with the reason.

    Those are the steps of the tools in `names`, reads of instruction files, and with `plans` the
    newest step of each tool that keeps a plan: it has the plan as it is now.
    """
    reasons: dict[int, str] = {}
    planned: set[str] = set()
    for step in reversed(steps):
        bare = {"".join(filter(str.isalnum, call.name)).lower() for call in step.calls}
        if names and any(call.name in names for call in step.calls):
            reasons[step.number] = "tool to keep"
        elif _reads_instructions(step, tools):
            reasons[step.number] = "instructions"
        elif plans and bare & _PLANS - planned:
            reasons[step.number] = "plan"
            planned |= bare & _PLANS
    return reasons


def _reads_instructions(step: Step, tools: Tools) -> bool:
    """Return True if an instruction file was read: it is named in the action, and not written."""
    action = step.action[:_READ_CHARACTERS]
    # Every such file has one of these words in its name, and few actions have either.
    named = (".md" in action or "rules" in action) and _INSTRUCTIONS.search(action)
    return bool(named) and not changes(step, tools)
