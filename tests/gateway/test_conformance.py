"""Requests made up from an OpenAPI description: none of them gets a 5xx."""

import pytest

pytest.importorskip("schemathesis", reason="makes requests up")

from harness.gateway.conformance import conformance


def test_no_request_gets_a_server_error() -> None:
    statuses, reasons = conformance(600)

    assert statuses[200] > 10
    # An illegal request is named by the rule it breaks, too.
    kinds = {reason.partition(":")[0] for reason in reasons}
    assert {"compressed", "illegal_input", "unread", "bypass"} <= kinds
    assert not [status for status in statuses if status >= 500]
