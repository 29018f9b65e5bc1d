"""Runs an agent behind a tap, under the name of the agent's program that `agora wrap` starts.

    python -m harness.agents.tapped --record FOLDER --not PORT -- PROGRAM ARGUMENTS...

Variables, arguments and files from `agora wrap` still name the gateway. Here its address is
replaced by that of a tap, which records and forwards the agent's requests.
`--not` is the provider's own port, which stays as it is.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from harness.agents.session import free_ports, process, wait_for

_ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")
_OURS = "AGORA_TAPPED_"
"""Prefix of the variables that are meant for this file and not for the agent."""


def main() -> int:
    """Run the agent and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--not", dest="other", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    told = {n: value for n, value in os.environ.items() if not n.startswith(_OURS)}
    own = {n.removeprefix(_OURS) for n in os.environ if n.startswith(_OURS)}
    # The variables of this interpreter are not the agent's.
    told = {n: value for n, value in told.items() if n not in own}
    files = [Path(one) for one in options.command if "agora-wrap-" in one and Path(one).is_file()]
    texts = [*told.values(), *options.command, *(path.read_text("utf-8") for path in files)]
    ports = {port for text in texts for port in _ADDRESS.findall(text)} - {options.other, "9"}
    (options.record / "told.txt").write_text("\n".join(texts[len(told) :]), encoding="utf-8")
    if len(ports) != 1:
        print(f"tapped: expected one gateway, found the ports {sorted(ports)}", file=sys.stderr)
        return 70
    (gateway,) = ports
    (tap,) = free_ports(1)
    there, here = f"127.0.0.1:{gateway}", f"127.0.0.1:{tap}"
    for path in files:
        path.write_text(path.read_text("utf-8").replace(there, here), encoding="utf-8")
    stage = (
        *(sys.executable, "-m", "harness.agents.stage", "--record", str(options.record)),
        *("--tap", str(tap), "--gateway", f"http://{there}"),
    )
    with process(stage, options.record / "tap.log"):
        wait_for(tap)
        environment = {name: value.replace(there, here) for name, value in told.items()}
        command = [one.replace(there, here) for one in options.command]
        code = subprocess.run(command, env=environment, check=False).returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
