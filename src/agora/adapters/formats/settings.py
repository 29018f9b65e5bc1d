"""What bodies say of thinking, in the shape that Anthropic gave it."""

from collections.abc import Mapping
from typing import Any


def thinking_setting(body: Mapping[str, Any]) -> bool | None:
    """Return whether the `thinking` of a body is on; None if it does not say.

    >>> thinking_setting({"thinking": {"type": "disabled"}}), thinking_setting({})
    (False, None)
    """
    setting = body.get("thinking")
    return setting.get("type") != "disabled" if isinstance(setting, dict) else None
