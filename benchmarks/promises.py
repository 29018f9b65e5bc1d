"""Each promise of README and SECURITY, the line that keeps it, and the test that fails without it.

python -m benchmarks.promises               all of them, in a copy of the tracked files
python -m benchmarks.promises --only keys   those with this in their name or sentence

Takes each line out in turn and runs its test, which has to fail. It fails itself if a test passes
without its line, fails with it, or if a line is not where this table has it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_MOST_SECONDS = 3_600


class Promise(NamedTuple):
    """A promise to users, and what shows that it is kept."""

    kind: str
    says: str
    file: str
    """Below `src/agora`."""
    line: str
    """The line that keeps it. It stands there once."""
    instead: str
    """What stands there if nobody had thought of it."""
    test: str


PROMISES = (
    Promise(
        "validity",
        "What a provider would refuse is never sent.",
        "compressor.py",
        "        if new:\n            error = IllegalMessagesError",
        "        if False:\n            error = IllegalMessagesError",
        "tests/test_compressor.py::test_what_would_break_a_rule_is_never_sent",
    ),
    Promise(
        "validity",
        "What was illegal comes back as it is.",
        "compressor.py",
        "        if illegal:\n",
        "        if False:\n",
        "tests/test_compressor.py"
        "::test_illegal_messages_come_back_as_they_are_with_the_rule_they_break",
    ),
    Promise(
        "bound",
        "At no call the bill is more than 1.05 of sending everything.",
        "core/schedule.py",
        "    if price > slack:\n",
        "    if False:\n",
        "tests/core/test_schedule.py"
        "::test_where_edits_would_cost_more_than_the_ceiling_they_wait_or_remove_more",
    ),
    Promise(
        "bound",
        "An edit needs a cache that is gone for certain, or rent that has paid for it.",
        "core/schedule.py",
        "    if offer < price + policy.forgetting * gain * token:\n        return 0.0\n",
        "",
        "tests/core/test_schedule.py"
        "::test_an_edit_is_due_at_the_first_call_whose_rent_has_paid_for_it",
    ),
    Promise(
        "bound",
        "Between edits each prompt begins with the one before it.",
        "compressor.py",
        "        past = Past.of(trajectory, edit.steps, ",
        "        past = Past.of(trajectory, len(trajectory.steps), ",
        "tests/test_compressor.py::test_between_epochs_a_prompt_only_grows_at_its_end",
    ),
    Promise(
        "protected text",
        "The newest step stays.",
        "core/protected.py",
        "        if number == newest:\n",
        "        if False:\n",
        "tests/core/test_floor.py::test_the_current_observation_is_held_even_without_a_window",
    ),
    Promise(
        "protected text",
        "Pinned steps stay.",
        "core/protected.py",
        "        elif number in pins:\n",
        "        elif False:\n",
        "tests/test_compressor.py::test_a_pinned_step_is_never_elided",
    ),
    Promise(
        "protected text",
        "System, developer and user text is never removed, whatever a scorer says.",
        "formats/render.py",
        "        if form is not None and not form.in_place:\n",
        "        if not owner and forms and position:\n            continue\n"
        "        if form is not None and not form.in_place:\n",
        "tests/test_properties.py::test_2_the_floor_is_kept_and_only_the_floor_may_overspend",
    ),
    Promise(
        "fail open",
        "If anything fails, your own messages go out.",
        "compressor.py",
        "            return self.failed(error, messages, request, format)\n",
        "            raise\n",
        "tests/test_compressor.py::test_any_other_error_hands_the_messages_on_and_is_logged",
    ),
    Promise(
        "fail open",
        "A scorer that fails costs the order of the steps and nothing else.",
        "compressor.py",
        "            detail = sentence(error)\n        _log.warning",
        "            raise\n        _log.warning",
        "tests/test_compressor.py::test_a_scorer_that_fails_costs_a_rung_and_nothing_else",
    ),
    Promise(
        "fail open",
        "If a provider refuses an edit, the client gets the answer to its own request.",
        "service/service.py",
        "        if status not in REFUSED or edited.retried",
        "        if True or edited.retried",
        "tests/proxy/test_proxy.py"
        "::test_a_refused_edit_is_followed_by_the_original_and_its_conversation_left_alone",
    ),
    Promise(
        "fail open",
        "A refused conversation is left alone from then on.",
        "session.py",
        'sent_key=b"", rewrite=None, held=True,',
        'sent_key=b"", rewrite=None, held=False,',
        "tests/test_session.py"
        "::test_a_refused_edit_is_followed_by_the_original_and_its_conversation_left_alone",
    ),
    Promise(
        "fail open",
        "A body that cannot be read goes out as it came.",
        "service/service.py",
        "        except UNREADABLE:\n",
        "        except ZeroDivisionError:\n",
        "tests/service/test_service.py::test_what_cannot_be_read_goes_out_as_it_came",
    ),
    Promise(
        "fail open",
        "A late decision delays no call.",
        "service/service.py",
        "            except LateError as error:\n                reason = error.reason\n"
        "        made =",
        "            except ZeroDivisionError:\n                pass\n        made =",
        "tests/service/test_service.py::test_a_late_call_that_nobody_knows_goes_out_whole",
    ),
    Promise(
        "fail open",
        "A body that inflates beyond the limit passes unread.",
        "service/inflate.py",
        "        return _inflated(zlib.decompressobj(window), body, most)\n",
        "        return _inflated(zlib.decompressobj(window), body, 1 << 40)\n",
        "src/agora/service/inflate.py::agora.service.inflate.inflate",
    ),
    Promise(
        "keys",
        "No key is logged, counted or written: an owner is a keyed hash.",
        "service/owners.py",
        '    return owner(b"key", key.strip().encode(), secret) if key else ANONYMOUS\n',
        "    return key or ANONYMOUS\n",
        "tests/service/test_service.py::test_the_owner_is_a_hash_and_no_key_appears_anywhere",
    ),
    Promise(
        "keys",
        "A web page does not reach the proxy on loopback.",
        "proxy/server.py",
        "        if not _LOCAL.fullmatch(request.host):\n",
        "        if False:\n",
        "tests/proxy/test_proxy.py::test_a_request_by_another_host_name_is_refused",
    ),
    Promise(
        "keys",
        "The proxy follows no redirect, so no key reaches another host.",
        "proxy/server.py",
        "            allow_redirects=False,\n",
        "",
        "tests/proxy/test_proxy.py::test_a_redirect_is_the_clients_to_follow",
    ),
    Promise(
        "verbatim",
        "Messages that stay keep their bytes.",
        "service/prompt.py",
        "raw[at] if message is own[at] else encode(message)",
        "encode(message)",
        "tests/service/test_service.py::test_messages_that_stay_keep_their_bytes",
    ),
    Promise(
        "verbatim",
        "Nothing in a message's text is read as state: only a call of the tool recalls.",
        "core/recall.py",
        "            if call.name == TOOL_NAME:\n",
        "            if True:\n",
        "tests/core/test_recall.py::test_another_tool_with_the_same_arguments_recalls_nothing",
    ),
    Promise(
        "verbatim",
        "What logs hold never becomes markup in a page.",
        "pages/__init__.py",
        '    return json.dumps(data, separators=(",", ":")).translate(_UNSAFE)\n',
        '    return json.dumps(data, separators=(",", ":"))\n',
        "tests/replay/test_page.py"
        "::test_whatever_stands_in_a_log_comes_back_as_data_and_never_as_markup",
    ),
    Promise(
        "verbatim",
        "What logs hold never becomes a command to a terminal.",
        "core/action_lines.py",
        '    return "".join(sign if sign.isprintable() else " " for sign in text)\n',
        "    return text\n",
        "tests/cli/test_explain.py::test_nothing_in_a_log_steers_the_terminal",
    ),
    Promise(
        "determinism",
        "The same messages give the same bytes in every process.",
        "core/markers.py",
        '    return blake2b(began.encode(errors="replace"), digest_size=2).hexdigest()\n',
        '    return f"{hash(began) % 65536:04x}"\n',
        "tests/test_properties.py::test_4_processes_with_other_hash_seeds_give_the_same_bytes",
    ),
)


def copy_to(folder: Path) -> None:
    """Copy the tracked files, as they are in the working tree."""
    listed = subprocess.run(
        ("git", "ls-files", "-z"), cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("lab/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def failure(folder: Path, tests: set[str]) -> str:
    """Return what pytest says if tests fail with the source in a folder, or an empty text."""
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0"),
        *("--hypothesis-profile=mutation", "-m", "not long and not timing", *sorted(tests)),
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AGORA_EXAMPLES": "30",
    }
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=_MOST_SECONDS,
        check=False,
    )
    said = ran.stdout.decode()[-2_000:]
    if ran.returncode not in (0, 1):
        raise SystemExit(f"pytest did not run: {said}")
    return said if ran.returncode else ""


def verdict(promise: Promise, folder: Path) -> str:
    """Return what became of a promise without its line; empty if its test failed."""
    path = folder / "src" / "agora" / promise.file
    source = path.read_text("utf-8")
    if source.count(promise.line) != 1:
        return f"its line stands {source.count(promise.line)} times in {promise.file}"
    path.write_text(source.replace(promise.line, promise.instead), encoding="utf-8")
    try:
        return "" if failure(folder, {promise.test}) else "its test passes without its line"
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> None:
    """Try every promise and print what became of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a part of the kind or of the sentence")
    only = parser.parse_args().only
    wanted = [one for one in PROMISES if only in one.kind or only in one.says]
    broken = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_to(folder)
        if problem := failure(folder, {promise.test for promise in wanted}):
            sys.exit(f"a test fails as the source is: {problem}")
        for promise in wanted:
            problem = verdict(promise, folder)
            broken += bool(problem)
            print(f"{promise.kind}: {promise.says} {problem or 'kept'}", flush=True)
    print(f"{len(wanted) - broken} of {len(wanted)} promises are kept by a test")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
