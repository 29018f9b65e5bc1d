"""What edits and judges off the event loop, made from a configuration."""

import logging
from dataclasses import dataclass, replace
from typing import Any

from agora.core.scorer import Scorer
from agora.errors import BundleError
from agora.gateway.config import Compression, Config
from agora.gateway.editing.away import Away
from agora.gateway.editing.compress import Compressed, CompressEndpoint, CompressJob
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.giving_way import GiveWay
from agora.gateway.editing.job import Edited, Job
from agora.gateway.editing.pool import Pool
from agora.gateway.editing.score import Judge, Judged, Question
from agora.gateway.editing.settings import EditorSettings
from agora.scorers.load import Unusable, load_scorer

_log = logging.getLogger("agora.gateway.app")
_RULE_SECONDS = 2.0
"""What may be waited for the rule where the prompt would be refused without it."""
_STUCK_SECONDS = 5.0
_FINISH_SECONDS = 4.0
"""How long an edit that came too late for its call is worked on, for the next one."""
LONG_SECONDS = 1.0
"""What is expected to take longer has a process of its own: all others would wait behind it."""
_LONG_FINISH_SECONDS = 300.0
"""How long that may take: nobody waits for it, and on a busy machine it comes last."""
_LONG_WAITING = 2
"""Long bodies of one owner that may wait; each of them is kept."""
_JUDGE_SECONDS = 2.0
"""What may be waited for scores that were asked for: no request of an agent is held up by it."""
SHADOW_SECONDS = 60.0
"""How long a decision may take that nobody waits for: of a long body, or in shadow, where a missed
one is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing:
    """What edits and judges, with what it remembers: it may outlive a configuration."""

    editor: Editor
    pool: Pool[Job, Edited]
    long: Pool[Job, Edited]
    """For what takes long, and in shadow for all: nobody waits for it, and it gives way."""
    away: Away
    """The process in which that is done, where it takes long."""
    give_way: GiveWay
    by_rule: Pool[Job, Edited]
    judge: Pool[Question, Judged]
    compress: Pool[CompressJob, Compressed]

    @property
    def deciding(self) -> tuple[Pool[Job, Edited], ...]:
        """What prompts are decided on with."""
        return (self.pool, self.long, self.by_rule)

    @property
    def open_breakers(self) -> int:
        """How many breakers hold edits back."""
        return sum(pool.open_breakers for pool in self.deciding)

    @property
    def pools(self) -> tuple[Pool[Any, Any], ...]:
        """All of what works off the event loop."""
        return (*self.deciding, self.judge, self.compress)


def make_editing(config: Config, scorer: Scorer | None = None) -> Editing:
    """Return what edits under a configuration; none of its threads runs yet."""
    settings = settings_for(config, scorer)
    editor = Editor(settings)
    away = Away(settings)
    pool: Pool[Job, Edited] = Pool(
        work=editor,
        workers=config.compression.workers,
        deadline_seconds=config.limits.compress_deadline_ms / 1e3,
        finish_seconds=_FINISH_SECONDS,
        stuck_seconds=_STUCK_SECONDS,
        warm=editor.warm,
        on_error=_tell,
    )
    long: Pool[Job, Edited] = Pool(
        work=editor,
        waiting_most=_LONG_WAITING,
        finish_seconds=_LONG_FINISH_SECONDS,
        stuck_seconds=_LONG_FINISH_SECONDS,
        ended=away.close,
        spare_threads=1,
        on_error=_tell,
    )
    no_time = Unusable(BundleError("the scorer", "was skipped: there was no time for it"))
    by_rule: Pool[Job, Edited] = Pool(
        work=Editor(replace(settings, scorer=no_time, memory_bytes=0)),
        deadline_seconds=_RULE_SECONDS,
        on_error=_tell,
    )
    judge: Pool[Question, Judged] = Pool(
        work=Judge(
            scorer=settings.scorer,
            counter=editor.counter,
            k_recent=settings.k_recent,
            depth=settings.depth,
        ),
        deadline_seconds=_JUDGE_SECONDS,
        on_error=_tell_of_judge,
    )
    compress: Pool[CompressJob, Compressed] = Pool(
        work=CompressEndpoint(settings=settings, counter=editor.counter, sheets=config.sheets),
        workers=config.compression.workers,
        deadline_seconds=config.limits.restore_deadline_ms / 1e3,
        waiting_most=64,
        on_error=_tell,
    )
    return Editing(
        editor=editor,
        pool=pool,
        long=long,
        away=away,
        give_way=GiveWay(lambda: pool.is_busy),
        by_rule=by_rule,
        judge=judge,
        compress=compress,
    )


def settings_for(config: Config, scorer: Scorer | None = None) -> EditorSettings:
    """Return how bodies are compressed under a configuration."""
    return EditorSettings(
        scorer=scorer or _scorer(config.compression),
        keep_ratio=config.compression.keep_ratio,
        k_recent=config.compression.k_recent,
        lines=config.compression.lines,
        min_tokens=config.compression.min_tokens,
        ceiling=config.compression.ceiling,
        keep_tools=config.compression.keep_tools,
        changing_tools=config.compression.changing_tools,
        reading_tools=config.compression.reading_tools,
        repeats=config.compression.repeats,
        schedule=config.compression.schedule,
        observations=config.compression.observations,
        recall=config.recall,
        recall_agents=config.recall_agents,
        depth=config.limits.depth,
        shadow=config.compression.mode == "shadow",
        memory_bytes=config.compression.memory_mb << 20,
    )


def _scorer(settings: Compression) -> Scorer:
    """Return the configured scorer, or one that says why there is none (then the rule decides)."""
    try:
        return load_scorer(settings.scorer)
    except BundleError as error:
        _log.warning("steps are chosen by the fallback rule: %s", error)
        return Unusable(error)


def _tell(error: BaseException) -> None:
    _log.warning(
        "a request is forwarded unchanged: compressing failed with %s", type(error).__name__
    )


def _tell_of_judge(error: BaseException) -> None:
    _log.warning("steps were not scored: scoring failed with %s", type(error).__name__)
