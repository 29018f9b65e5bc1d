"""Which commands and queries are known to read."""

import json

import pytest

from agora.core.reading.actions import call_reads, changes
from agora.core.reading.outcome import outcome_of
from agora.core.reading.shell import only_reads, python_reads
from agora.core.reading.values import values_in
from agora.core.trajectory import Call, Step


@pytest.mark.parametrize(
    "command",
    [
        "X=1",
        "LANG=C sudo -n timeout 5 ls -l",
        "! grep key a.py",
        "< a.txt wc -l",
        "sort < a.txt",
        "deploy --help",
        "bash -lc 'ls -l'",
        "python -m pytest -q",
        "find . -name '*.py' -exec grep -n key {} +",
        "git stash list",
        "hostname",
        "hostname -f",
        "sort a.txt | uniq -c",
        "curl -s https://a/b",
        "deploy --version",
        "sed -n 1,40p src/core/a.py",
        r"find . -exec grep -e -delete \;",
    ],
)
def test_a_command_that_changes_nothing_is_known_to_read(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "ls >",
        "echo `date`",
        "for f in *; do ls; done",
        "cat <<E\nx\nE",
        "find . -exec rm {} +",
        "hostname box",
        "uniq a.txt b.txt",
    ],
)
def test_what_is_not_known_to_read_is_not_taken_for_it(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("x = 1\ny += 1\nprint(x)", True),
        ("a, b = 1, 2", True),
        ("os.environ['x'] = '1'", False),
        ("del x", False),
        ("print(", False),
        ("f()()", False),
        ("open('a', mode='rb').read()", True),
    ],
)
def test_code_that_calls_only_what_is_known_reads(code: str, reads: bool) -> None:
    assert python_reads(code) is reads


@pytest.mark.parametrize(
    ("name", "arguments", "reads"),
    [
        ("", "{}", False),
        ("_", "{}", False),
        ("get_order", '{"note": "' + "x" * 9_000 + '"}', False),
        ("get_order", "[1]", True),
        ("bash", "ls -l", True),
        ("bash", json.dumps({"command": 7}), False),
        ("notebook", json.dumps({"code": "print(len(rows))"}), True),
        ("get_rows", json.dumps({"code": "open('a', 'w').write('x')"}), False),
        ("get_rows", json.dumps({"script": "rm -r rows"}), False),
        ("run_query", json.dumps({"query": "mutation { a }"}), False),
        ("get_rows", json.dumps({"query": "mutation { a }"}), False),
        ("get_rows", json.dumps({"query": "with x as (select 1) select * from x"}), True),
    ],
)
def test_a_call_is_known_by_its_name_and_by_what_it_is_given(
    name: str, arguments: str, reads: bool
) -> None:
    assert call_reads(Call(name, arguments)) is reads


def test_what_is_too_long_to_be_read_is_not_known_to_read() -> None:
    said = "ls; " * 3_000

    assert not changes(Step(number=1, action="ls; ls", observation="", tokens=9))
    assert changes(Step(number=1, action=f"{said} rm -r x", observation="", tokens=9))


def test_why_a_call_failed_is_looked_for_only_so_deep() -> None:
    deep = '{"error": {"details": {"details": {"details": {"message": "too deep"}}}}}'

    assert outcome_of(deep, values_in(deep)).said == "error"
    assert outcome_of(deep, values_in(deep)).reason == ""
    listed = '{"errors": [[[[[]]]]]}'
    assert outcome_of(listed, values_in(listed)).said == "error"
    number = '{"error": {"code": 7}}'
    assert outcome_of(number, values_in(number)).said == "error"


@pytest.mark.parametrize("word", ["str", "replace", "edit", "editor", "text", "file", "memory"])
def test_an_editor_reads_where_its_command_says_so(word: str) -> None:
    def reads(command: str) -> bool:
        return call_reads(Call(f"{word}_tool", json.dumps({"command": command, "path": "a.py"})))

    assert reads("view")
    assert not reads("insert")


def test_a_query_that_begins_with_with_reads_unless_it_changes_something() -> None:
    def reads(query: str) -> bool:
        return call_reads(Call("get_rows", json.dumps({"query": query})))

    assert reads("WITH few AS (SELECT 1) SELECT * FROM few")
    assert not reads("WITH old AS (DELETE FROM orders RETURNING *) SELECT * FROM old")


@pytest.mark.parametrize(
    "command",
    [
        "awk -v x=1 'BEGIN{system(\"rm x\")}'",
        "awk -F : '{print > \"f\"}' a",
        "awk -f s.awk a",
        "awk -F :",
        "sed -n -e p -e 'w out.txt' a",
        "sed -f s.sed a",
        "sed --expression='w x' a",
        "sed 'e ls' f",
        "sed '1e rm x' f",
        "awk -iinplace 1 f",
        "gawk --include=inplace 1 f",
        "psql -c 'SELECT 1' -c 'DROP TABLE x'",
        "sqlite3 a.db 'SELECT 1' 'DROP TABLE t'",
        "psql -c 'SELECT 1' -c VACUUM",
        "xxd a.bin b.txt",
        "xxd -r a",
        "curl -sc jar.txt https://a",
        "curl -sD h.txt https://a",
        "hostname --file=/x",
        "hostname box",
        "less '+!rm a'",
        "curl -X POST https://a",
        "curl -d x=1 https://a",
        "curl -o f https://a",
        "curl -O https://a",
        "curl --data x https://a",
        "sed -i s/a/b/ f",
        "sed -i.bak s/a/b/ f",
        "sed -ni p f",
        "sed --in-place s/a/b/ f",
        "sed 's/a/b/w out' f",
        "sed 's/a/b/e' f",
        "sed -n '/x/w out' f",
        "date -s now",
        "date 111820132026",
        "sed -s -i p f",
        "awk '{print|\"sh\"}' f",
        "awk '@load \"x\"; 1' f",
        "psql -c '\\! rm x'",
        "sqlite3 a.db .quit\\ x 'SELECT 1'",
        "uniq a b",
        "curl -w '%output{f}' https://a",
    ],
)
def test_an_option_or_a_program_that_writes_or_runs_something_is_no_read(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize(
    "command",
    [
        "awk -F '|' '{print $2}' a.txt",
        "awk '{print $1}' f",
        "awk -F: -v n=3 'NR==n' /etc/passwd",
        "awk '$1 > 5 {print}' f",
        "awk 'NR>=10 && NR<=20' f",
        "awk 'a || b' f",
        "sed -n '1,40p' f",
        "sed -n 1,40p f",
        "sed -n '/def x/,/^$/p' f",
        "sed 's/a/b/g' f",
        "sed -n '10,20p;30q' f",
        "sed -ne 5p f",
        "sed -e 's/a/b/' -e 's|c/d|e|g' f",
        "sed --silent p f",
        "sed -n '$p' f",
        "sed '/^#/d' f",
        "sed -E 's/(a|b)+/\\1/g' f",
        "sed -n '/we/p' f",
        "sed -n '/a\\/we/p' f",
        "sed = f",
        "sed -n '/re/{=;p}' f",
        "sed -n '/re/{p;q;}' f",
        "sed 's/a/e/' f",
        "sed 10q f",
        "sed -n '1~2p' f",
        "sed -n '5,+10p' f",
        "sed '1!G;h;$!d' f",
        "sed 'y/abc/def/' f",
        "cat f | sed 's/\\x1b\\[[0-9;]*m//g'",
        "curl -s https://a/b",
        "curl -sSL -H 'A: b' https://a",
        "curl -I https://a",
        "curl -sSfL --max-time 5 https://a",
        "curl -s -w '%{http_code}' https://a",
        "psql -U me -h db -c 'SELECT 1' base",
        "sqlite3 a.db 'SELECT * FROM t'",
        "mysql -u root -e 'SHOW TABLES' db",
        "hostname",
        "hostname -f",
        "uniq -c f",
        "xxd -l 64 f",
        "xxd f | head",
        "less f",
        "more f",
        "date +%F",
        "date",
        "date -u",
        "info ls",
        "sed -n '100,150 p' f",
        "sed -n '5 , 10p' f",
        "sed -n -e '1p' -e '3p' a",
        "sort | uniq -c | sort -rn",
    ],
)
def test_programs_and_options_that_only_print_are_known(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "code",
    [
        "list(map(os.remove, ['a']))",
        "sorted(fs, key=os.remove)",
        "open('a', **{'mode': 'w'})",
        "for a.b in c: pass",
        "print = os.remove\nprint('a')",
        "from os import remove as print\nprint('x')",
        "(a.b, c) = 1, 2",
        "open(*x)",
        "x['a']=1",
        "[0 for a.b in c]",
        "with open('f') as a.b: pass",
        "def print(x): pass\nprint('a')",
        "for print in [os.remove]: print('a')",
        "(lambda print: print('a'))(os.remove)",
        "map = os.remove\nmap('a')",
        "@app.get('/')\ndef rows(): pass",
        "str = os.remove\nlist(map(str, ['a']))",
        "open('a','w')",
        "min(map(f, x))",
    ],
)
def test_code_that_hands_on_what_may_change_something_is_not_known_to_read(code: str) -> None:
    assert not python_reads(code)


@pytest.mark.parametrize(
    "code",
    [
        "import json; print(json.load(open('a.json'))['x'])",
        "print(sorted(d.items(), key=lambda x: x[1]))",
        "print(max(d, key=len))",
        "print(list(map(str, x)))",
        "print(sorted(fs))",
        "import sys; print(sys.argv, file=sys.stderr)",
        "with open('a') as f:\n  for line in f: print(line.strip())",
        "print(max(a.b, c.d))",
        "import numpy as np; print(np.mean(x))",
        "print(json.dumps(x, default=str))",
        "print(sorted(x.y))",
        "print(min(a, b))",
        "def size(rows): return len(rows)",
        "count = 0\nfor index in range(3): count += index\nprint(count)",
        "match = re.search('a', text)\nprint(match.group())",
    ],
)
def test_code_that_hands_on_what_only_reads_is_known(code: str) -> None:
    assert python_reads(code)
