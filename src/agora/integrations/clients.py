"""The OpenAI and Anthropic clients: every request is shortened on its way out.

An Anthropic client gets a `middleware`, an OpenAI client (or one of Anthropic before 2.10) an
`http_client` that sends by the client's own.
"""

from dataclasses import replace
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.errors import SettingError
from agora.integrations.anthropic_client import middleware_for
from agora.integrations.base import Shortener
from agora.integrations.openai_client import INNER, http_client_for
from agora.savings import LEDGER

C = TypeVar("C")


def wrap(client: C, compressor: Compressor | None = None, **settings: Any) -> C:
    """Return a client like `client` whose requests are shortened; see `agora.wrap`."""
    own: Any = client
    if isinstance(own, type) or not hasattr(own, "with_options"):
        kind = own if isinstance(own, type) else type(own)
        shown = f"{'the class' if kind is own else 'a'} {kind.__module__}.{kind.__qualname__}"
        raise SettingError("client", shown, "a client of openai or anthropic, such as OpenAI()")
    shortener = Shortener(replace(compressor or Compressor(), **settings))
    if hasattr(own, "middleware"):
        others = [each for each in own.middleware if not hasattr(each, LEDGER)]
        wrapped = own.with_options(middleware=[*others, middleware_for(shortener)])
    else:
        # The only attribute without a public name: the connections, proxies and certificates.
        inner = getattr(own._client, INNER, own._client)
        wrapped = own.with_options(http_client=http_client_for(inner, shortener))
    return wrapped  # type: ignore[no-any-return]
