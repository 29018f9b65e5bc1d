"""Made-up requests against a real gateway process, in small; the benchmark sends 10,000."""

from harness.gateway.hostile import measure


def test_no_key_arrives_where_it_does_not_belong_and_nothing_fails() -> None:
    figures = measure(400, seconds=120)

    assert figures["keys_at_an_upstream_that_is_not_theirs"] == 0, figures
    assert figures["server_errors"] == 0, figures
    assert figures["unanswered"] == 0, figures
    assert set(figures["honest"]) == {"200"}, figures
    assert figures["requests"] == 400
    assert figures["bytes_of_an_endless_head"] < 32 << 20
    assert all(figures["arrived"][family][family] > 0 for family in figures["arrived"])
