"""The pure core: values in, values out, standard library only.

These values are for authors of formats and scorers. The names of `agora` suffice for most users.
"""

from agora.core.forms import Form, Place, omitted
from agora.core.markers import Markers
from agora.core.prices import Lifetime, Tier, load_sheets, shipped_sheets
from agora.core.request import Observations, Request
from agora.core.schedule import Edit
from agora.core.tokens import Characters
from agora.core.trajectory import Call, Result, Utterance

__all__ = [
    "Call",
    "Characters",
    "Edit",
    "Form",
    "Lifetime",
    "Markers",
    "Observations",
    "Place",
    "Request",
    "Result",
    "Tier",
    "Utterance",
    "load_sheets",
    "omitted",
    "shipped_sheets",
]
