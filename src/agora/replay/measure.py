"""A recorded trajectory with its calls, in the provider's token counts where the log has them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agora.core.prices import PriceSheet, sheet_for
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.formats import parse
from agora.formats.tools import offers_recall
from agora.logs import Recording, Usage
from agora.logs.moments import Moment, moments_of, prompt_tokens
from agora.logs.shortened import shows_markers
from agora.logs.unseen import Unseen, inferred, ratio, was_cut

MOST_CALLS = 4_000
"""The most calls of one trajectory; no window holds a prompt of that many steps."""
BY_MARKERS = "AGORA had shortened it: its markers are in the messages"
BY_USAGE = (
    "it was shortened on its way to the provider (by AGORA, or by the client itself): "
    "far fewer tokens were billed than its text has"
)
_LOST = 0.9
"""A call that reads less than this share of the cached tokens has lost the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A trajectory, its calls, and the known facts about each of them."""

    trajectory: Trajectory
    """In estimated tokens, including the parts that the log does not show."""
    shown: Trajectory
    """The same without the parts that the log does not show."""
    moments: list[Moment]
    usage: tuple[Usage, ...] = ()
    at_seconds: tuple[float, ...] = ()
    unseen: Unseen = field(default_factory=Unseen)
    held: Mapping[int, int] = field(default_factory=dict)
    """Estimated tokens in the provider's cache, for calls that did not find the tokens of the
    earlier calls: at the first call those of other sessions, at others the part that was not
    lost."""
    lost: Mapping[int, int] = field(default_factory=dict)
    """The same for every call that found the cache gone, its time to live over or not."""
    own_sheet: str = ""
    """The price sheet of the log's model, if usage shows at which calls its cache was gone."""
    ttl: str | None = None
    """The time to live that its calls were written for, None for the usual one."""
    recall: bool = False
    """True if its tools offer recall, which markers then mention."""
    shortened: str = ""
    """The evidence that the client had shortened it already, or empty."""

    @property
    def cuts(self) -> list[int]:
        """The place in the preamble to which a lost cache most often still reached."""
        sizes = Counter(size for size in self.lost.values() if size)
        return [size for size, _ in sizes.most_common(2)]


def measure(recording: Recording, counter: TokenCounter) -> Measured:
    """Return the trajectory in a recording with the sizes of its calls.

    Raises:
        AgoraError: There are more calls than `MOST_CALLS`.
        ParseError: The messages do not read as a trajectory.
    """
    shown = parse(recording.request(), counter).trajectory
    marked = shows_markers(recording.messages)
    if marked:
        recording = _without_earlier(recording, counter)
    moments = moments_of(recording, shown)
    if len(moments) > MOST_CALLS:
        raise AgoraError(f"it has {len(moments):,} calls; the limit for a replay is {MOST_CALLS:,}")
    known = Measured(
        trajectory=shown,
        shown=shown,
        moments=moments,
        at_seconds=recording.at_seconds if len(recording.at_seconds) == len(moments) else (),
        ttl=recording.ttl,
        recall=offers_recall(recording.tools),
        shortened=BY_MARKERS if marked else "",
    )
    if len(recording.usage) != len(moments):
        return known
    return _by_usage(known, recording)


def _by_usage(known: Measured, recording: Recording) -> Measured:
    usage = recording.usage
    counted = prompt_tokens(known.shown, known.moments)
    billed = [one.prompt for one in usage]
    shortened = known.shortened or (BY_USAGE if was_cut(counted, billed) else "")
    if shortened or not recording.lacks:
        unseen = Unseen(scale=ratio(counted, billed))
    else:
        unseen = inferred(counted, billed)
    sheet = sheet_for(recording.model or "")
    lost, held = _losses(recording, known, sheet)
    return replace(
        known,
        trajectory=unseen.onto(known.shown, known.moments),
        usage=usage,
        unseen=unseen,
        held=_in_estimated(held, unseen),
        lost=_in_estimated(lost, unseen),
        own_sheet=sheet.name if sheet.breakpoints and known.at_seconds else "",
        shortened=shortened,
    )


def _in_estimated(tokens: Mapping[int, int], unseen: Unseen) -> dict[int, int]:
    return {at: round(read / unseen.scale) for at, read in tokens.items()}


def _losses(
    recording: Recording, known: Measured, sheet: PriceSheet
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the cached tokens read at each call that lost its cache, and those lost in time.

    A cache whose breakpoints the caller marks does not forget by chance. If a call reads far less
    than the call before had sent, within the time to live, its tools or its system text had
    changed; every policy would have lost the cache there. Other caches miss by chance.
    """
    usage = recording.usage
    first = {0: usage[0].read} if usage[0].read else {}
    lost, held = dict(first), dict(first)
    if not sheet.breakpoints or not known.at_seconds:
        return lost, held
    hour = sheet.for_ttl("1h").ttl_seconds
    for at, (before, now) in enumerate(pairwise(usage), start=1):
        if now.read < _LOST * (before.read + before.written):
            lost[at] = now.read
            lives = hour if before.written_1h else sheet.ttl_seconds
            if known.at_seconds[at] - known.at_seconds[at - 1] <= lives:
                held[at] = now.read
    return lost, held


def _without_earlier(recording: Recording, counter: TokenCounter) -> Recording:
    """Return a recording that AGORA had shortened, without the calls before its first one.

    A prompt with markers continues a conversation, but its messages differ from those of the call
    before: the calls that made them are in an earlier recording, and are counted there.
    """
    first = recording.calls[0] if recording.calls else 0
    beginning = recording.messages[:first]
    if recording.earlier_calls or not first or not shows_markers(beginning):
        return recording
    begun = parse(replace(recording, messages=beginning).request(), counter).trajectory
    bare = replace(recording, messages=beginning, calls=(), usage=())
    earlier = len(moments_of(bare, begun)) if begun.steps or begun.utterances else 0
    return replace(recording, earlier_calls=earlier)
