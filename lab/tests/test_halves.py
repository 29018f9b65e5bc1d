from agora_lab.halves import group_of, half_of


def test_a_group_is_always_in_the_same_half_and_both_halves_have_some() -> None:
    halves = [half_of("airline", str(n)) for n in range(50)]

    assert halves == [half_of("airline", str(n)) for n in range(50)]
    assert 15 < halves.count("validation") < 35


def test_tasks_of_one_repository_are_never_parted() -> None:
    groups = {group_of("coding", f"django__django-{n}") for n in range(9)}

    assert groups == {"django__django"}


def test_tasks_that_files_number_alike_are_told_apart() -> None:
    assert group_of("intercode", "3", "a.json:4") != group_of("intercode", "3", "b.json:4")
    assert group_of("alfworld", "data/train/pick-1/trial_2") == "pick-1/trial_2"
