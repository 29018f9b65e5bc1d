"""The form of a step of which nothing is left but its number, counted in a marker."""

from collections.abc import Iterable

from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import REMOVED, Rendition


def gone(number: int) -> Rendition:
    """Return the rendition of a step that leaves nothing behind."""
    return Rendition(number, "gone", REMOVED, 0, 0.0)


class Gone:
    """Leaves a step out, unless it changed something: that the agent must not forget."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the step as nothing."""
        return [gone(draft.step.number)] if draft.step.removable and not draft.changed else ()
