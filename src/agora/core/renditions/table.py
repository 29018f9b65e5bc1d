"""The forms that there are. A new one is a file beside this one, and a row here."""

from agora.core.renditions.action import Action
from agora.core.renditions.draft import Form
from agora.core.renditions.gone import Gone
from agora.core.renditions.line import Line
from agora.core.renditions.whole import Whole

TABLE: tuple[Form, ...] = (Gone(), Line(), Action(), Whole())
"""Of two renditions that cost and are worth the same, the one in the earlier row is used."""
