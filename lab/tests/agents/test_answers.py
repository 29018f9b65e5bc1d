import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agora_lab.agents.answers import Answers, request_key

KEY = request_key("/v1/chat/completions", b"{}")

WRITER = """
import sys
from pathlib import Path
from agora_lab.agents.answers import Answers, request_key
answers = Answers(Path(sys.argv[1]))
for n in range(300):
    key = request_key("/", str(n).encode())
    print(answers.keep(key, {"by": sys.argv[2], "n": n, "filling": "x" * 5000})["by"])
"""


@given(st.tuples(st.text(), st.binary()), st.tuples(st.text(), st.binary()))
def test_only_the_same_request_has_the_same_key(
    one: tuple[str, bytes], other: tuple[str, bytes]
) -> None:
    # A path has no line break, so what stands before the first one is the path.
    one, other = (_path(one[0]), one[1]), (_path(other[0]), other[1])

    assert (request_key(*one) == request_key(*other)) == (one == other)


def _path(text: str) -> str:
    return text.replace("\n", "").encode("utf-8", "ignore").decode()


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    Answers(tmp_path).keep(KEY, {"text": "look é \ud83e"})

    assert Answers(tmp_path).get(KEY) == {"text": "look é \ud83e"}
    assert Answers(tmp_path).get(request_key("/", b"")) is None


def test_the_first_answer_stands(tmp_path: Path) -> None:
    answers = Answers(tmp_path)

    assert answers.keep(KEY, "first") == "first"
    assert answers.keep(KEY, "second") == "first"
    assert answers.get(KEY) == "first"


def test_a_damaged_answer_counts_as_none_and_is_written_anew(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.keep(KEY, "first")
    [file] = tmp_path.rglob("*.json")
    file.write_bytes(b'"fir')

    assert answers.get(KEY) is None
    assert answers.keep(KEY, "second") == "second"
    assert answers.get(KEY) == "second"
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == [file.name]


def test_processes_that_write_at_once_agree_on_every_answer(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name], stdout=subprocess.PIPE, text=True
        )
        for name in ("a", "b", "c")
    ]
    told = [writer.communicate()[0].split() for writer in writers]

    stands = [Answers(tmp_path).get(request_key("/", str(n).encode())) for n in range(300)]
    assert all(one == told[0] for one in told)
    assert [found["by"] for found in stands] == told[0]
    assert {len(found["filling"]) for found in stands} == {5000}
    assert not list(tmp_path.rglob(".*"))
