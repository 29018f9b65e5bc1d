import math
from pathlib import Path

import pytest

from agora.gateway.config import Compression, ConfigError
from agora.wrapping.plan import Plan, Upstream
from agora.wrapping.settings import Tables, configuration, find, places, read, state, tables_for

OWN = Plan(upstreams=(Upstream("anthropic", "https://api.anthropic.com"),))
CHOSEN = Plan(upstreams=(Upstream("anthropic", "https://chosen.test", chosen=True),))
FILE = """
[compression]
keep_ratio = 0.5
[[upstreams]]
base_url = "https://file.test"
formats = ["anthropic"]
"""


def test_the_file_in_the_project_comes_before_the_one_of_the_user(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    first, second = places(project, home, {})
    assert find(project, home, {}) is None
    for path in (second, first):
        path.parent.mkdir(parents=True)
        path.write_text("")
        assert find(project, home, {}) == path
    assert places(project, home, {"XDG_CONFIG_HOME": "/x"})[1] == Path("/x/agora/agora.toml")


@pytest.mark.parametrize(
    ("plan", "host"), [(OWN, "https://file.test"), (CHOSEN, "https://chosen.test")]
)
def test_settings_stand_for_a_providers_address_but_not_for_the_users_own(
    plan: Plan, host: str, tmp_path: Path
) -> None:
    path = tmp_path / "agora.toml"
    path.write_text(FILE)

    config = configuration(tables_for(read(path), plan, {}), str(path))

    upstream = config.upstream_for("anthropic", "claude-sonnet-4-5")
    assert upstream is not None
    assert upstream.base_url == host
    assert config.compression.keep_ratio == 0.5


def test_every_header_of_the_agent_is_forwarded_unless_settings_say_otherwise() -> None:
    assert configuration(tables_for({}, OWN, {}), "").forward_headers == ("*",)
    settings = {"headers": {"forward": ["traceparent"]}}
    assert configuration(tables_for(settings, OWN, {}), "").forward_headers == ("traceparent",)


@pytest.mark.parametrize("text", [b"[compression", b"\xff", None])
def test_settings_that_cannot_be_read_are_named(text: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "agora.toml"
    if text is not None:
        path.write_bytes(text)

    with pytest.raises(ConfigError, match=r"agora\.toml"):
        read(path)


def test_a_wrong_setting_is_named_with_what_is_meant() -> None:
    with pytest.raises(ConfigError, match="keep_ratio"):
        configuration(tables_for({"compression": {"keep_ratoi": 1}}, OWN, {}), "agora.toml")


def test_the_ceiling_of_the_command_line_comes_before_the_files(tmp_path: Path) -> None:
    path = tmp_path / "agora.toml"
    path.write_text(FILE.replace("keep_ratio = 0.5", "keep_ratio = 0.5\nceiling = 1.1"))

    def asked(tables: Tables, ceiling: float, *, shadow: bool = False) -> Compression:
        made = tables_for(tables, OWN, {}, compression={"ceiling": ceiling}, shadow=shadow)
        return configuration(made, "").compression

    said = asked(read(path), 1.3)
    both = asked(read(path), 1.3, shadow=True)

    assert (said.ceiling, said.keep_ratio, said.mode) == (1.3, 0.5, "edit")
    assert (both.ceiling, both.mode) == (1.3, "shadow")
    assert configuration(tables_for(read(path), OWN, {}), "").compression.ceiling == 1.1
    assert asked({}, math.inf).ceiling > 2


@pytest.mark.parametrize("own", [["ship"], "ship"])
def test_tools_of_the_command_line_are_added_to_those_of_the_file(own: object) -> None:
    file = {"compression": {"changing_tools": own}}

    made = tables_for(file, OWN, {}, compression={"changing_tools": ["sink"], "keep_tools": ["k"]})

    said = configuration(made, "").compression
    assert (said.changing_tools, said.keep_tools) == (("ship", "sink"), ("k",))


def test_tools_of_the_command_line_hide_no_mistake_in_the_file() -> None:
    file = {"compression": {"changing_tools": 5}}
    made = tables_for(file, OWN, {}, compression={"changing_tools": ["sink"]})

    with pytest.raises(ConfigError, match=r"changing_tools is 5; it must be a list of strings"):
        configuration(made, "agora.toml")


def test_what_sessions_leave_is_in_the_users_state_folder() -> None:
    assert state(Path("/home/me"), {}) == Path("/home/me/.local/state/agora")
    assert state(Path("/home/me"), {"XDG_STATE_HOME": "/x"}) == Path("/x/agora")
