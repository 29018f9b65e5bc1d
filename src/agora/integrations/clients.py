"""The OpenAI and Anthropic clients: every request is shortened on its way out.

An Anthropic client gets a `middleware`, an OpenAI client (or one of Anthropic before 2.10) an
`http_client` that sends by the client's own.
"""

from dataclasses import replace
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.errors import SettingError, type_name
from agora.integrations.anthropic_client import middleware_for
from agora.integrations.base import Shortener
from agora.integrations.openai_client import INNER, http_client_for
from agora.savings import LEDGER

C = TypeVar("C")


def wrap(client: C, compressor: Compressor | None = None, **settings: Any) -> C:
    """Return a client like `client` whose requests are shortened; see `agora.wrap`."""
    own: Any = client
    if isinstance(own, type) or not hasattr(own, "with_options"):
        needed = "a client of openai or anthropic, such as OpenAI()"
        raise SettingError("client", type_name(own), needed)
    if not isinstance(compressor, Compressor | None):
        raise SettingError("compressor", type_name(compressor), "an agora.Compressor")
    shortener = Shortener(replace(compressor or Compressor(), **settings))
    if hasattr(own, "middleware"):
        others = [each for each in own.middleware if not hasattr(each, LEDGER)]
        wrapped = own.with_options(middleware=[*others, middleware_for(shortener)])
    else:
        # The only attribute without a public name: the connections, proxies and certificates.
        inner = getattr(own._client, INNER, own._client)
        wrapped = own.with_options(http_client=http_client_for(inner, shortener))
    return wrapped  # type: ignore[no-any-return]
