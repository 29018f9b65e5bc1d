"""Structure that tells whether a step will be needed: names it alone brought, size, place, kind.

Everything is counted in one pass over the steps and put into small whole
numbers, so that a trained ensemble of small trees can be read from tables.
Training and serving share this function; no text of a step leaves it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agora.core.identifiers import identifiers, weight
from agora.core.memo import Memo
from agora.core.trajectory import Anchor, Step
from agora.scorers.atoms import act

VALUES = 16
"""A feature is a whole number from 0 to one less than this."""
_TOP = VALUES - 1

FEATURES = (
    "only_ids",
    "only_codes",
    "only_numbers",
    "only_names",
    "only_share",
    "new_ids",
    "used_later",
    "last_used_ago",
    "only_familiar",
    "with_anchor",
    "with_task",
    "with_newest_action",
    "same_call_later",
    "same_tool_later",
    "tool_used_before",
    "same_tool_as_newest",
    "error",
    "observation_size",
    "action_size",
    "ids",
    "ago",
    "number",
    "kind",
    "newest_kind",
    "user_spoke",
    "own_repeats",
)
_READ_CHARACTERS = 32_768
