"""The goals at the size of a test; `just gateway-goals` runs them in full."""

from harness.gateway import goals


def test_the_upstream_gets_the_clients_own_bytes() -> None:
    outcome = goals.fidelity(120)

    assert outcome.good == outcome.total == 120, outcome


def test_streams_split_anywhere_arrive_as_they_were_sent() -> None:
    outcome = goals.streams(150)

    assert outcome.good == outcome.total == 150, outcome


def test_an_answer_that_breaks_off_never_looks_whole() -> None:
    outcome = goals.truncations(90)

    assert outcome.good == outcome.total == 90, outcome


def test_the_upstream_hears_within_a_second_that_the_client_is_gone() -> None:
    outcome = goals.disconnects()

    assert outcome.good == outcome.total == 24, outcome


def test_above_the_cap_requests_are_turned_away_at_once() -> None:
    outcome = goals.overload()

    assert outcome.good == outcome.total == 24, outcome


def test_no_fault_inside_is_seen_outside_and_each_passes() -> None:
    outcome = goals.faults()

    assert outcome.good == outcome.total, outcome
    assert outcome.notes["faults"] >= 12


def test_a_refused_edit_is_sent_again_as_it_came_and_not_often() -> None:
    # Eight at a time are under way before a breaker opens: of too few requests that is too many.
    outcome = goals.rescue(300)

    assert outcome.good == outcome.total == 300, outcome
    assert outcome.notes["resent"] >= 1
    assert outcome.notes["amplification"] <= 1.1
