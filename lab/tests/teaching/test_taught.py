"""What torch does with lessons: sequences, training, playing."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from lab.harness.tiny_judge import PLAIN, tiny_model, tiny_tokenizer

from agora_lab.cli.lab import lab
from agora_lab.episodes.run import read_episodes
from agora_lab.teaching.card import write_record
from agora_lab.teaching.lessons import Lesson, LessonError, Said, Target
from agora_lab.teaching.player import TorchBackbone, token_bytes
from agora_lab.teaching.sequences import TokenSequence, packed, sequence, together
from agora_lab.teaching.training import (
    CURVE,
    FrozenStates,
    Pace,
    Training,
    TrainingSettings,
    mask_of,
    summed_loss,
)
from agora_lab.teaching.wording import Wording, wording

ROOM = Said(role="user", content="a desk, a lamp")


def lesson(*turns: str, wanted: dict[int, str] | None = None) -> Lesson:
    """A conversation of actions and observations by turns; the reader said what was done."""
    roles = ("assistant", "user")
    messages = (ROOM, *(Said(role=roles[n % 2], content=one) for n, one in enumerate(turns)))
    targets = {n + 1: one for n, one in enumerate(turns) if n % 2 == 0}
    return Lesson(
        episode="e",
        world="w",
        split="train",
        kind="reader",
        messages=messages,
        targets=tuple(
            Target(at=at, text=text) for at, text in {**targets, **(wanted or {})}.items()
        ),
    )


def tokens(one: Lesson) -> TokenSequence:
    return sequence(one, tiny_tokenizer(PLAIN))


def own_prompt(one: Lesson, target: Target) -> Lesson:
    """The same target as a lesson of its own."""
    return Lesson(
        episode="e",
        world="w",
        split="train",
        kind="reader",
        messages=one.messages[: target.at],
        targets=(target,),
    )


def test_a_sequence_is_the_chat_template_and_predicts_the_actions_alone() -> None:
    tokenizer = tiny_tokenizer(PLAIN)
    one = lesson("go", "a mug", "take mug")

    found = sequence(one, tokenizer)

    said = [{"role": turn.role, "content": turn.content} for turn in one.messages]
    assert tokenizer.decode(found.token_ids) == tokenizer.apply_chat_template(said, tokenize=False)
    assert tokenizer.decode(found.labels) == "go<|im_end|>take mug<|im_end|>"
    assert [found.token_ids[place + 1] for place in found.predicts] == list(found.labels)
    assert mask_of(found) is None


def test_a_branch_is_learnt_as_if_it_stood_in_a_prompt_of_its_own() -> None:
    model = tiny_model("sdpa")
    one = lesson("go", "a mug", "look", "a lamp", "wait", wanted={3: "take mug", 5: "use lamp"})

    found = tokens(one)

    assert len(found.branches) == 2
    apart = [tokens(own_prompt(one, target)) for target in one.targets]
    assert sum(len(each.token_ids) for each in apart) > len(found.token_ids)
    with torch.no_grad():
        together = float(summed_loss(model, found))
        single = [float(summed_loss(model, each)) for each in apart]
    assert together == pytest.approx(sum(single), rel=1e-4)


def test_prompts_of_an_episode_are_learnt_together_as_if_each_stood_alone() -> None:
    model = tiny_model("sdpa")
    one = lesson("go", "a mug", "take mug", "taken", "put mug")
    prompts = [tokens(own_prompt(one, target)) for target in one.targets]

    found = together(prompts)

    assert len(found.token_ids) < sum(len(each.token_ids) for each in prompts)
    with torch.no_grad():
        single = sum(float(summed_loss(model, each)) for each in prompts)
        assert float(summed_loss(model, found)) == pytest.approx(single, rel=1e-4)


def test_prompts_are_packed_up_to_a_length_and_none_is_lost() -> None:
    one = lesson("go", "a mug", "take mug", "taken", "put mug")
    prompts = [tokens(own_prompt(one, target)) for target in one.targets]
    most = max(len(together(prompts[:2]).token_ids), len(prompts[2].token_ids))

    found = list(packed(prompts, most))

    assert len(found) == 2
    assert all(len(each.token_ids) <= most for each in found)
    assert [label for each in found for label in each.labels] == [
        label for each in prompts for label in each.labels
    ]


@pytest.mark.parametrize("room", [0, 10_000])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_frozen_layers_said_can_be_kept(frozen: int, room: int) -> None:
    model = tiny_model("sdpa")
    states = FrozenStates(model, frozen, room=room)
    one = tokens(lesson("go", "a mug", "look", wanted={3: "take mug"}))

    with torch.no_grad():
        whole = float(summed_loss(model, one))
        found = [float(states.summed_loss(one)) for _ in range(2)]

    assert found == pytest.approx([whole, whole], rel=1e-6)
    assert len(model.model.layers) == 2
    assert states.room == max(0, room - len(one.token_ids))


def toy() -> list[TokenSequence]:
    return [tokens(lesson("go", "a mug", f"take {name}")) for name in ("mug", "cup", "pan")]


def trained(folder: Path, *, minutes: float | None = None, stops: int = 0) -> Training:
    settings = TrainingSettings(tokens=2_400, rate=3e-3, batch=2, frozen_layers=1, seed=5)
    for _ in range(stops):
        stopped = Training(tiny_model("sdpa"), toy(), folder, settings)
        stopped.update()
        stopped.update()
        stopped.save()
    training = Training(tiny_model("sdpa"), toy(), folder, settings)
    training.run(Pace(minutes=minutes))
    return training


def test_a_stopped_and_resumed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole")
    resumed = trained(tmp_path / "resumed", stops=2)

    assert resumed.progress.step == whole.progress.step > 4
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name


def test_loss_falls_and_what_is_frozen_stays(tmp_path: Path) -> None:
    before = tiny_model("sdpa").state_dict()

    training = trained(tmp_path)

    curve = [json.loads(line) for line in (tmp_path / CURVE).open()]
    assert curve[-1]["loss"] < curve[0]["loss"] / 2
    assert [one["step"] for one in curve] == list(range(1, len(curve) + 1))
    after = training.model.state_dict()
    for name in before:
        learns = not name.startswith(("model.embed_tokens.", "model.layers.0."))
        assert learns != torch.equal(before[name], after[name]), name


def test_minutes_stop_training_and_the_rest_is_done_later(tmp_path: Path) -> None:
    assert not trained(tmp_path, minutes=0).finished
    assert trained(tmp_path).finished


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, minutes=0)

    with pytest.raises(LessonError, match=r"other settings .seed: 5 then, 6 now"):
        Training(
            tiny_model("sdpa"),
            toy(),
            tmp_path,
            TrainingSettings(tokens=2_400, rate=3e-3, batch=2, frozen_layers=1, seed=6),
        )


@pytest.mark.parametrize("guess", ["go", "nothing of the kind", "é"])
def test_a_guess_changes_nothing_about_the_answer(guess: str) -> None:
    prompt = [{"role": "user", "content": "a desk, a lamp"}]
    alone = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN), most_tokens=12).answer(prompt)

    student = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN), most_tokens=12)

    assert student.answer(prompt, guess=guess).text == alone.text
    assert student.answer(prompt, guess=alone.text).text == alone.text


@pytest.mark.parametrize("guess", ["", "go to desk 1", "go to desk 3", "look", "nothing", "é"])
def test_a_student_held_to_its_wording_says_the_best_of_it_whatever_is_guessed(guess: str) -> None:
    prompt = [{"role": "user", "content": "a desk 1, a lamp 22, a lamp 2"}]
    held = wording("alfworld", prompt)
    assert held is not None
    alone = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN)).answer(prompt, wording=held)

    student = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN))

    assert student.answer(prompt, guess=guess, wording=held) == alone
    assert held.allows(alone.text.encode())
    assert alone.finish == "stop"


def test_a_search_without_end_is_closed_where_the_answer_is_cut_off() -> None:
    prompt = [{"role": "user", "content": "a red cup [SEP] Search"}]
    found = wording("webshop", prompt)
    assert found is not None
    searches = Wording(found.templates[:1])

    for most in (9, 12, 20):
        student = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN), most_tokens=most)
        answer = student.answer(prompt, wording=searches)
        assert answer.finish == "length"
        assert searches.allows(answer.text.encode())


def test_the_tokens_of_a_text_write_its_bytes() -> None:
    tokenizer = tiny_tokenizer(PLAIN)
    table = token_bytes(tokenizer)
    text = "click[Größe 3½] 🙂"

    ids = tokenizer.encode(text, add_special_tokens=False)

    assert b"".join(table[one] for one in ids) == text.encode()
    assert table.keys().isdisjoint(tokenizer.all_special_ids)


def test_a_student_answers_what_it_learnt_and_stops_whatever_is_guessed(tmp_path: Path) -> None:
    model = tiny_model("sdpa")
    turns = ("go to desk 1", "a mug", "take mug")
    settings = TrainingSettings(tokens=4_000, rate=3e-3)
    Training(model, [tokens(lesson(*turns))], tmp_path, settings).run(Pace())
    model.set_attn_implementation("agora_grouped")
    student = TorchBackbone(model, tiny_tokenizer(PLAIN))
    said = [{"role": one.role, "content": one.content} for one in lesson(*turns).messages]

    for guess in ("", "go to desk 1", "go to desk 2", "take mug", "go to desk 1 and 2"):
        first, second = student.answer(said[:1], guess=guess), student.answer(said[:3], guess=guess)
        assert (first.text, first.finish) == ("go to desk 1", "stop")
        assert (second.text, second.finish) == ("take mug", "stop")
    assert second.cached_tokens > 0


def test_what_was_read_before_changes_nothing_about_the_answer() -> None:
    student = TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN), most_tokens=8)
    prompts = [
        [{"role": "user", "content": content}]
        for content in ("a desk", "a desk, a lamp", "a desk, a cup", "a", "a desk")
    ]

    answers = [student.answer(prompt).text for prompt in prompts]

    fresh = [
        TorchBackbone(tiny_model(), tiny_tokenizer(PLAIN), most_tokens=8).answer(prompt).text
        for prompt in prompts
    ]
    assert answers == fresh


def test_the_command_trains_and_refuses_a_folder_without_a_model(tmp_path: Path) -> None:
    start, out = tmp_path / "tiny", tmp_path / "student"
    tiny_model("sdpa").save_pretrained(start)
    tiny_tokenizer(PLAIN).save_pretrained(start)
    lessons = tmp_path / "lessons.jsonl"
    lessons.write_text(lesson("go", "a mug", "take mug").to_json() + "\n", encoding="utf-8")

    def said(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(lab, ["teach", *(str(one) for one in arguments)])
        assert done.exit_code == code, done.output
        return done.output

    assert "has no training.json" in said("card", start, code=1)
    train = ("train", lessons, "--model", start, "--out", out, "--tokens", 400)
    assert "the same command goes on" in said(*train, "--minutes", 0)
    assert "all tokens read" in said(*train)
    missing = ("train", lessons, "--model", tmp_path, "--out", tmp_path / "no", "--tokens", 400)
    assert "holds no model" in said(*missing, code=1)


def test_a_students_folder_plays_by_command_and_its_card_says_how_well(tmp_path: Path) -> None:
    student = tmp_path / "pupil"
    tiny_model("sdpa").save_pretrained(student)
    tiny_tokenizer(PLAIN).save_pretrained(student)
    lessons = tmp_path / "lessons.jsonl"
    lessons.write_text(lesson("go").to_json() + "\n", encoding="utf-8")
    taught = {
        "settings": {"tokens": 9, "seed": 3},
        "progress": {"tokens": 1_234, "minutes": 2.0, "cpu_minutes": 1.0},
    }
    write_record(student, start=tmp_path, files=[lessons], trained=taught)

    def said(*arguments: object) -> str:
        done = CliRunner().invoke(lab, [str(one) for one in arguments])
        assert done.exit_code == 0, done.output
        return done.output

    grid = tmp_path / "grid.toml"
    grid.write_text(
        'name = "g"\nenvironments = ["desk"]\nmethods = ["none"]\ntasks = 1\nsteps = 2\n'
        '[[backbones]]\nname = "reader"\n[[backbones]]\nname = "pupil"\n'
        'make = "agora_lab.teaching.player:student"\n'
        f'options = {{ folder = "{student}", world = "desk" }}\n',
        encoding="utf-8",
    )
    said("grid", grid, "--workers", 0, "--out", tmp_path / "run")
    desk = ("--env", "desk", "--tasks", 1, "--steps", 2)
    said("play", *desk, "--backbone", student, "--out", tmp_path / "play")
    # Two runs with the same episode count it once.
    runs = (tmp_path / "run", tmp_path / "play")
    said("teach", "card", student, *runs, "--player", "pupil", "--out", tmp_path / "card")
    said("teach", "card", student, *runs, "--player", "nobody", "--out", tmp_path / "nobody")

    by_grid, by_play = (
        next(one for one in read_episodes(tmp_path / run) if one.cell.backbone == "pupil")
        for run in ("run", "play")
    )
    assert [move.answer for move in by_grid.moves] == [move.answer for move in by_play.moves]
    assert json.loads((tmp_path / "nobody" / "card.json").read_bytes())["played"] == []
    (line,) = json.loads((tmp_path / "card" / "card.json").read_bytes())["played"]
    assert (line["world"], line["split"], line["tasks"]) == ("desk", "test", 1)
    assert (line["reward"], line["reader"]) == (0.0, 0.0)
    page = (tmp_path / "card" / "card.md").read_text(encoding="utf-8")
    assert "| 1 | 1 reader (w) | 1,234 | 2 | 1 | seed 3, tokens 9 |" in page
    assert "| desk | test | none | 1 | 0.00 [0.00, 0.00] | 0.00 | 2.0 |" in page
