"""Which sessions are played with models that bind thinking, and what each goes through."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import agora
from harness.agents.doors import Direct, Serve
from harness.agents.drivers import BOUND, Agent
from harness.agents.session import Door, Plan, Switch, Wrap

_LOG = '[log]\nlevel = "info"\nrequests = true\n'


@dataclass(frozen=True, slots=True)
class Session:
    """One session of the matrix."""

    agent: Agent
    kind: str
    plan: Plan

    @property
    def name(self) -> str:
        """What it is called in the results."""
        return f"{self.agent.name} {self.plan.binding} {self.kind}"

    @property
    def switches(self) -> int:
        """How often the gateway is replaced."""
        return len(self.plan.switches) + bool(self.plan.kill_after)


def matrix(steps: int = 45) -> list[Session]:
    """Return all sessions, those that matter most first."""
    opus, sonnet, fable = (BOUND[name] for name in ("opus-5-5", "sonnet-5-5", "fable-5-1"))
    found: list[Session] = []
    for agent, bindings in ((opus, ("default", "error")), (fable, ("default",))):
        found += [Session(agent, "direct", _plan("default", steps, door="direct"))]
        found += [one for binding in bindings for one in _first(agent, binding, steps)]
    found.append(Session(sonnet, "direct", _plan("default", steps, door="direct")))
    found += [one for binding in ("default", "error") for one in _first(sonnet, binding, steps)]
    for agent, bindings in (
        (opus, ("default", "error")),
        (fable, ("default",)),
        (sonnet, ("default", "error")),
    ):
        found += [one for binding in bindings for one in _switched(agent, binding, steps)]
    return found


def _first(agent: Agent, binding: str, steps: int) -> list[Session]:
    after, _ = _when(agent, steps)
    return [
        Session(agent, "plain", _plan(binding, steps)),
        Session(agent, "killed", _plan(binding, steps, kill_after=after)),
    ]


def _switched(agent: Agent, binding: str, steps: int) -> list[Session]:
    after, later = _when(agent, steps)
    plan = _plan(binding, steps)
    served = replace(plan, door="serve")
    back = (Switch(after, "before"), Switch(later, "now"))
    return [
        Session(agent, "into shadow", replace(served, switches=(Switch(after, "shadow"),))),
        Session(
            agent,
            "out of shadow",
            replace(served, begins="shadow", switches=(Switch(after, "edit"),)),
        ),
        Session(
            agent,
            "shadow by reload",
            replace(
                served,
                switches=(Switch(after, "shadow", "reload"), Switch(later, "edit", "reload")),
            ),
        ),
        Session(agent, "older and back", replace(plan, begins="now", switches=back)),
        Session(
            agent,
            "upgraded",
            replace(plan, begins="before", switches=(Switch(after, "now"),)),
        ),
    ]


def _when(agent: Agent, steps: int) -> tuple[int, int]:
    """Return the calls after which a gateway is replaced, and put back: both after a first edit.

    By the price lists of 2026-11 the first is at call 11 of Claude Code and at call 27 of pi.
    """
    return (
        (steps * 2 // 3 + 2, steps * 8 // 9) if agent.name == "fable-5-1" else (15, steps * 2 // 3)
    )


def _plan(binding: str, steps: int, **more: Any) -> Plan:
    return Plan(steps=steps, seconds=240.0, binding=binding, settings=_LOG, **more)


def door_for(plan: Plan, before: Path) -> Door:
    """Return what a session goes through."""
    if plan.door == "serve":
        return Serve()
    if plan.door == "direct":
        return Direct()
    versions = {"before", "now"} & {plan.begins, *(switch.to for switch in plan.switches)}
    now = Path(agora.__file__).parent.parent
    return Wrap({"now": now, "before": before}) if versions else Wrap()
