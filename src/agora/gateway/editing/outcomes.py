"""What became of a body, by how far it had to be read."""

from dataclasses import replace

from agora.core.compression import Compression, Reason, Rung
from agora.gateway.editing.conversation import ConversationState, Cut, Found, Seen
from agora.gateway.editing.fields import Read
from agora.gateway.editing.job import CONTINUED, NOT_ADMITTED, Edited, Job


def own_body(body: bytes, reason: str, *, model: str | None = None, detail: str = "") -> Edited:
    """Return the client's own body, with the reason."""
    return Edited(body=body, reason=str(reason), rung=Rung.UNTOUCHED, model=model, detail=detail)


def _reason(compression: Compression) -> str:
    """Return the reason in one word; of an illegal request with the code of the rule it breaks."""
    reason = str(compression.reason)
    return f"{reason}:{compression.rule}" if compression.rule else reason


def unchanged(
    body: bytes, compression: Compression, read: Read, conversation: ConversationState
) -> Edited:
    """Return the client's own body, which was read in full."""
    return Edited(
        body=body,
        reason=NOT_ADMITTED if conversation.refused else _reason(compression),
        rung=Rung.UNTOUCHED,
        model=read.model,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_before,
        stream=read.stream,
        detail=compression.detail,
        conversation=conversation,
    )


def edited_body(
    compression: Compression, read: Read, body: bytes, conversation: ConversationState
) -> Edited:
    """Return a body that was read in full and edited."""
    trajectory = compression.trajectory
    newest = at_epoch = 0
    if trajectory is not None and trajectory.steps:
        count = len(trajectory.steps)
        said = sum(u.tokens for u in trajectory.utterances if u.after >= count)
        newest = trajectory.steps[-1].tokens + said + trajectory.pending_tokens
        at_epoch = compression.epoch == count
    return Edited(
        body=body,
        reason=str(compression.reason),
        rung=compression.rung if compression.changed else Rung.SCORED,
        model=read.model,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_after,
        newest_tokens=newest,
        at_epoch=bool(at_epoch),
        stream=read.stream,
        detail=compression.detail,
        epoch=compression.epoch,
        conversation=conversation,
        thinking=compression.thinking,
        arrived=compression.arrived.tokens,
    )


def again(job: Job, seen: Seen, read: Read) -> Edited:
    """Return a body with the edit that its conversation has, where no other is due."""
    body, cut = job.body, seen.cut
    if cut is None:
        return Edited(
            body=body,
            reason=str(Reason.NOT_WORTH_IT_YET),
            rung=Rung.UNTOUCHED,
            model=read.model,
            tokens_before=seen.tokens,
            tokens_after=seen.tokens,
            stream=read.stream,
            conversation=seen.conversation,
        )
    return Edited(
        body=cut.of(body, seen.start),
        reason=str(_reason_of(cut)),
        rung=cut.rung,
        model=read.model,
        tokens_before=seen.tokens,
        tokens_after=seen.tokens - cut.removed,
        newest_tokens=seen.newest,
        stream=read.stream,
        epoch=cut.epoch,
        conversation=seen.conversation,
        thinking=cut.thinking,
        arrived=cut.arrived,
    )


def _reason_of(cut: Cut) -> Reason:
    if cut.epoch:
        return Reason.COMPRESSED
    return Reason.THINKING_REMOVED if cut.thinking.blocks else Reason.SHORTENED_AT_ARRIVAL


def continued(job: Job, found: Found, read: Read, why: str) -> Edited:
    """Return a body with the edit that was found, or unchanged if there was none."""
    seen, _, start = found
    cut = seen.cut
    # What was added has not been counted: taken to have as many bytes a token as the rest.
    added = max(0, read.span[1] - 1 - start - seen.end) * seen.tokens // max(1, seen.end)
    tokens = seen.tokens + added
    if cut is None:
        return replace(
            own_body(job.body, why, model=read.model),
            tokens_before=tokens,
            tokens_after=tokens,
            newest_tokens=added,
            stream=read.stream,
            conversation=seen.conversation,
        )
    steps = 0 if seen.last is None else len(seen.last.sizes.steps)
    return Edited(
        body=cut.of(job.body, start),
        reason=CONTINUED,
        rung=cut.rung,
        model=read.model,
        tokens_before=tokens,
        tokens_after=tokens - cut.removed,
        newest_tokens=added or seen.newest,
        at_epoch=not added and cut.epoch == steps,
        stream=read.stream,
        detail=why,
        epoch=cut.epoch,
        conversation=seen.conversation,
        thinking=cut.thinking,
        arrived=cut.arrived,
    )
