"""Hooks go into the agents' settings and out again, and nothing else of the person's changes."""

from __future__ import annotations

import json
import os
import shlex
import stat
import tempfile
import threading
import tomllib
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.hooked.installation.agents import PROGRAM, program_of
from dragoman.agents.hooked.installation.codex_trust import trusted
from dragoman.agents.hooked.installation.hook_entries import entries
from dragoman.agents.hooked.installation.installer import install, uninstall
from dragoman.agents.hooked.installation.place import Place
from dragoman.agents.hooked.installation.problems import CannotInstall

from .person import ALL, CLAUDE, CODEX, GEMINI, THEIRS, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


# In, and out again


@pytest.mark.parametrize("agent", ALL, ids=lambda agent: agent.name)
def test_out_of_nothing_and_back_to_it(home: Home, agent: Any) -> None:
    assert home.standing(agent.name).state == "not installed"
    assert install(home.place, agent) is None
    assert home.standing(agent.name).state == "installed"
    assert home.standing(agent.name).problems == ()
    settings = json.loads(agent.settings(home.environment).read_text())
    assert tuple(settings["hooks"]) == agent.events
    assert stat.S_IMODE(agent.settings(home.environment).stat().st_mode) == 0o600
    assert uninstall(home.place, agent)
    assert home.files() == {}
    assert not home.place.folder.exists()
    assert not uninstall(home.place, agent)


def test_what_was_there_stays_and_is_there_again(home: Home) -> None:
    for name, text in THEIRS.items():
        home.write(name, text).chmod(0o640)
    before = home.files()
    for agent in ALL:
        assert install(home.place, agent) is None
    for name in THEIRS:
        assert stat.S_IMODE((home.path / name).stat().st_mode) == 0o640
    assert {home.standing(agent.name).state for agent in ALL} == {"installed"}
    hooks = home.json(".claude/settings.json")["hooks"]
    assert hooks["Stop"][0] == {"hooks": [{"type": "command", "command": "say done"}]}
    assert len(hooks["Stop"]) == 2
    assert hooks["Other"] == []
    changed = home.files()
    for agent in ALL:  # it is all there already
        assert install(home.place, agent) is None
    assert home.files() == changed
    for agent in ALL:
        assert uninstall(home.place, agent)
    assert home.files() == before
    assert not home.place.folder.exists()


def test_none_of_the_persons_settings_are_kept_elsewhere(home: Home) -> None:
    for name, text in THEIRS.items():
        home.write(name, text)
    for agent in ALL:
        install(home.place, agent)
    kept = b"".join(path.read_bytes() for path in home.place.folder.iterdir())
    assert b"s3cret" not in kept
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in home.place.folder.iterdir()} == {0}


def test_after_an_edit_ours_alone_go(home: Home) -> None:
    for name, text in THEIRS.items():
        home.write(name, text)
    for agent in ALL:
        install(home.place, agent)
    for name in (".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"):
        path = home.path / name
        edited = json.loads(path.read_text())
        edited["hooks"].setdefault("Stop", []).insert(0, {"hooks": [{"type": "command", "command": "new"}]})
        path.write_text(json.dumps(edited, indent=3) + "\n")
    config = home.path / ".codex" / "config.toml"
    config.write_text(config.read_text() + "\n[late]\nx = 1\n")
    for agent in ALL:
        assert uninstall(home.place, agent)
    claude = home.json(".claude/settings.json")
    assert {name: claude[name] for name in ("model", "env", "unknown")} == {
        "model": "opus",
        "env": {"TOKEN": "s3cret"},
        "unknown": [1.0, 2e3],
    }
    assert [hook["hooks"][0]["command"] for hook in claude["hooks"]["Stop"]] == ["new", "say done"]
    assert claude["hooks"]["Other"] == []
    assert set(claude["hooks"]) == {"Stop", "Other"}
    assert set(home.json(".gemini/settings.json")["hooks"]) == {"Stop"}
    assert tomllib.loads(config.read_text()) == {**tomllib.loads(THEIRS[".codex/config.toml"]), "late": {"x": 1}}


def test_without_a_record_ours_are_known_by_what_they_run(home: Home) -> None:
    for name, text in THEIRS.items():
        home.write(name, text)
    before = home.files()
    for agent in ALL:
        install(home.place, agent)
    (home.place.folder / "installed.json").write_text("{broken")
    for agent in ALL:
        assert uninstall(home.place, agent)
    assert home.files() == before


ODD_FILES = {
    "empty": b"",
    "blank": b" \n\n",
    "an empty object": b"{}",
    "spread": b"{\n\n}\n",
    "empty hooks": b'{"hooks": { }}',
    "an empty list": b'{\n "hooks": {\n  "Stop": [ ],\n  "PreToolUse": [\n  ]\n }\n}\n',
    "a mark": b'\xef\xbb\xbf{\n  "a": "\xc3\xbc"\n}',
}


@pytest.mark.parametrize("data", ODD_FILES.values(), ids=ODD_FILES.keys())
@pytest.mark.parametrize("agent", ALL, ids=lambda agent: agent.name)
def test_odd_files_are_again_what_they_were(home: Home, agent: Any, data: bytes) -> None:
    path = agent.settings(home.environment)
    home.write(str(path.relative_to(home.path)), data)
    before = home.files()
    install(home.place, agent)
    assert home.standing(agent.name).state == "installed"
    assert path.read_bytes().startswith(data[:3] if data[:1] == b"\xef" else b"")
    uninstall(home.place, agent)
    assert home.files() == before


REFUSED = {
    "comments": b'{\n  // mine\n  "a": 1\n}',
    "no JSON": b"{",
    "a list": b"[]",
    "no UTF-8": b'{"a": "\xff"}',
    "hooks that are none": b'{"hooks": []}',
    "an event that is none": b'{"hooks": {"SessionStart": {}}}',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("agent", ALL, ids=lambda agent: agent.name)
def test_what_cannot_be_edited_is_left_alone(home: Home, agent: Any, data: bytes) -> None:
    path = agent.settings(home.environment)
    home.write(str(path.relative_to(home.path)), data)
    with pytest.raises(CannotInstall, match=str(path)):
        install(home.place, agent)
    assert path.read_bytes() == data
    assert home.standing(agent.name).state in ("unreadable", "not installed")


@pytest.mark.parametrize("config", ["hooks = {}\n", "broken ["])
def test_where_codex_cannot_be_made_to_trust_them_it_is_said(home: Home, config: str) -> None:
    path = home.write(".codex/config.toml", config)
    left = install(home.place, CODEX)
    assert left is not None
    assert str(path) in left
    assert path.read_text() == config
    assert home.standing("codex").state == "outdated"
    uninstall(home.place, CODEX)
    assert home.files() == {".codex": None, ".codex/config.toml": config.encode()}


# What stands there


def test_each_hook_runs_the_program_with_the_socket(home: Home) -> None:
    for agent in ALL:
        install(home.place, agent)
        settings = json.loads(agent.settings(home.environment).read_text())
        for event, ((group),) in settings["hooks"].items():
            ((hook),) = group["hooks"]
            words = [str(home.place.program), str(home.place.socket), agent.name, event]
            assert shlex.split(hook["command"]) == words
            limit = 630 if event == "PermissionRequest" else 3 if event in ("Interrupt", "SessionEnd") else 5
            limit = 5 if agent.name == "claude" and event == "SessionEnd" else limit
            limit = 5000 if agent.name == "gemini" else limit
            assert hook["timeout"] == limit


def test_where_the_files_lie() -> None:
    def paths(**environment: str) -> list[str]:
        return [str(agent.settings({"HOME": "/h", **environment})) for agent in ALL]

    assert paths() == ["/h/.claude/settings.json", "/h/.codex/hooks.json", "/h/.gemini/settings.json"]
    given = paths(CLAUDE_CONFIG_DIR="/c", CODEX_HOME="/x", GEMINI_CLI_HOME="/g")
    assert given == ["/c/settings.json", "/x/hooks.json", "/g/.gemini/settings.json"]


def test_codex_folder_is_named_as_codex_does(home: Home) -> None:
    """In the names of trusted hooks: resolved where it is given, as it is where it is not."""
    (home.path / "real").mkdir()
    (home.path / ".codex").symlink_to(home.path / "real")
    assert CODEX.settings(home.environment) == home.path / ".codex" / "hooks.json"
    given = {**home.environment, "CODEX_HOME": str(home.path / ".codex")}
    assert CODEX.settings(given) == home.path / "real" / "hooks.json"


@pytest.mark.parametrize(
    ("line", "program"),
    [
        (f"/x/{PROGRAM} /s claude Stop", f"/x/{PROGRAM}"),
        (f"'/x y/{PROGRAM}' '/s t' claude Stop", f"/x y/{PROGRAM}"),
        (f"echo {PROGRAM}", None),
        (f"/x/{PROGRAM}-else", None),
        (f"'/x/{PROGRAM}", None),
        ("", None),
        (5, None),
        (None, None),
    ],
)
def test_ours_are_known_by_what_they_run(line: Any, program: str | None) -> None:
    assert program_of({"command": line}) == (None if program is None else Path(program))


# Standing


def test_entries_of_another_version_are_replaced(home: Home) -> None:
    """Another socket, a hook that is no more, one that is missing, one that stands twice."""
    home.write(".claude/settings.json", THEIRS[".claude/settings.json"])
    before = home.files()
    older = Home(home.path, socket="elsewhere.sock")
    install(older.place, CLAUDE)
    assert home.standing().state == "outdated"
    assert "dragoman hooks install claude" in home.standing().problems[0]
    path = home.path / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Gone"] = settings["hooks"].pop("PreToolUse") * 2
    path.write_text(json.dumps(settings, indent=4))
    install(home.place, CLAUDE)
    assert home.standing().state == "installed"
    found = [entry.event for entry in entries(home.json(".claude/settings.json"))]
    assert sorted(found) == sorted(CLAUDE.events)
    install(older.place, CLAUDE)
    install(home.place, CLAUDE)
    uninstall(home.place, CLAUDE)
    assert json.loads(path.read_text()) == json.loads(before[".claude/settings.json"] or b"")


def test_another_installation_is_seen_and_left_alone(home: Home) -> None:
    other = Home(home.path)
    other.place = Place(home.path / "other", home.path / "o.sock", 600.0, home.environment)
    install(other.place, CLAUDE)
    assert home.standing().state == "other's"
    assert home.standing().others == (str(other.place.program),)
    install(home.place, CLAUDE)
    assert home.standing().state == "installed"
    assert home.standing().others == (str(other.place.program),)
    assert other.standing().state == "installed"
    uninstall(home.place, CLAUDE)
    assert other.standing().state == "installed"
    uninstall(other.place, CLAUDE)
    assert home.files() == {}


def test_groups_that_the_person_made_with_ours_stay(home: Home) -> None:
    install(home.place, CLAUDE)
    path = home.path / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Stop"][0]["hooks"].insert(0, {"type": "command", "command": "mine"})
    path.write_text(json.dumps(settings))
    assert home.standing().state == "outdated"
    uninstall(home.place, CLAUDE)
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "mine"}]}]}
    }


def test_a_hook_before_ours_changes_what_codex_must_trust(home: Home) -> None:
    install(home.place, CODEX)
    path = home.path / ".codex" / "hooks.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "mine"}]})
    path.write_text(json.dumps(settings))
    assert home.standing("codex").state == "outdated"
    assert "does not trust" in home.standing("codex").problems[0]
    install(home.place, CODEX)
    assert home.standing("codex").state == "installed"
    keys = trusted((home.path / ".codex" / "config.toml").read_text())
    assert f"{path}:stop:1:0" in keys
    assert f"{path}:stop:0:0" not in keys
    assert len(keys) == len(CODEX.events)
    uninstall(home.place, CODEX)
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert (
        trusted((home.path / ".codex" / "config.toml").read_text()) == {}
        if (home.path / ".codex" / "config.toml").exists()
        else True
    )


SWITCHED_OFF = [
    (CLAUDE, ".claude/settings.json", '{"disableAllHooks": true}', "disableAllHooks"),
    (GEMINI, ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "hooksConfig"),
    (GEMINI, ".gemini/settings.json", '{"hooksConfig": {"disabled": ["dragoman"]}}', "hooksConfig"),
    (CODEX, ".codex/config.toml", "[features]\nhooks = false\n", "features.hooks"),
]


@pytest.mark.parametrize(("agent", "name", "text", "said"), SWITCHED_OFF)
def test_hooks_that_are_switched_off_are_told_of(home: Home, agent: Any, name: str, text: str, said: str) -> None:
    home.write(name, text)
    install(home.place, agent)
    found = home.standing(agent.name)
    assert found.state == "installed"
    assert [said in problem for problem in found.problems] == [True]


def test_whether_an_agent_is_here(home: Home) -> None:
    assert not home.standing().present
    (home.path / ".claude").mkdir()
    assert home.standing().present
    program = home.write("bin/codex", "#!/bin/sh\n")
    program.chmod(0o755)
    home.environment["PATH"] = str(program.parent)
    assert home.standing("codex").present


def test_an_older_claude_gets_no_hook_that_it_does_not_know(home: Home) -> None:
    """It would skip the whole file."""
    known = [event for event in CLAUDE.events if event not in ("PostToolBatch", "StopFailure")]
    program = home.write("bin/claude", "\n".join(f'"{event}"' for event in known))
    program.chmod(0o755)
    home.environment["PATH"] = str(program.parent)
    install(home.place, CLAUDE)
    assert list(home.json(".claude/settings.json")["hooks"]) == known
    assert home.standing().state == "installed"
    program.write_text("\n".join(f'"{event}"' for event in CLAUDE.events))
    install(home.place, CLAUDE)
    assert list(home.json(".claude/settings.json")["hooks"]) == list(CLAUDE.events)
    program.write_text("#!/bin/sh\nexec node cli.js\n")  # nothing can be told of that
    install(home.place, CLAUDE)
    assert list(home.json(".claude/settings.json")["hooks"]) == list(CLAUDE.events)


# Files


def test_a_link_stays_a_link(home: Home) -> None:
    real = home.write("dots/claude.json", '{"a": 1}\n')
    (home.path / ".claude").mkdir()
    link = home.path / ".claude" / "settings.json"
    link.symlink_to("../dots/claude.json")
    install(home.place, CLAUDE)
    assert link.is_symlink()
    assert "hooks" in json.loads(real.read_text())
    uninstall(home.place, CLAUDE)
    assert link.is_symlink()
    assert real.read_text() == '{"a": 1}\n'


def test_a_link_to_nowhere_makes_what_it_means(home: Home) -> None:
    (home.path / ".claude").mkdir()
    link = home.path / ".claude" / "settings.json"
    link.symlink_to("../dots/claude.json")
    install(home.place, CLAUDE)
    assert link.is_symlink()
    assert home.standing().state == "installed"
    uninstall(home.place, CLAUDE)
    assert link.is_symlink()
    assert not link.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told_of(home: Home) -> None:
    home.write(".claude/settings.json", "{}").parent.chmod(0o500)
    with pytest.raises(CannotInstall, match="cannot be written"):
        install(home.place, CLAUDE)


def test_what_is_no_file_is_left_alone(home: Home) -> None:
    (home.path / ".claude" / "settings.json").mkdir(parents=True)
    with pytest.raises(CannotInstall, match=r"settings\.json"):
        install(home.place, CLAUDE)


def test_nothing_half_written_is_left(home: Home) -> None:
    for agent in ALL:
        install(home.place, agent)
    names = [path.name for path in home.path.rglob("*") if path.is_file()]
    assert sorted(names) == sorted(
        [PROGRAM, "post.py", "installed.json", "settings.json", "settings.json", "hooks.json", "config.toml"]
    )


def test_many_at_once_leave_one(home: Home) -> None:
    home.write(".claude/settings.json", THEIRS[".claude/settings.json"])
    before = home.files()
    problems: list[BaseException] = []

    def both() -> None:
        try:
            for _ in range(3):
                install(home.place, CLAUDE)
                uninstall(home.place, CLAUDE)
        except BaseException as problem:  # noqa: BLE001  shown below
            problems.append(problem)

    threads = [threading.Thread(target=both) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert home.files() == before
    assert not home.place.folder.exists()


@hypothesis.settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=5), max_size=3),
    st.sampled_from([None, 1, 4]),
    st.sampled_from(["", "\n"]),
    st.lists(st.sampled_from(["install", "uninstall", "edit"]), max_size=6),
)
def test_whatever_is_done_in_whatever_order_the_person_has_what_is_theirs(
    more: dict[str, Any], indent: int | None, end: str, steps: list[str]
) -> None:
    more.pop("hooks", None)
    text = json.dumps(more, indent=indent) + end
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        path = home.write(".claude/settings.json", text)
        edited = False
        for number, step in enumerate(steps):
            if step == "edit":
                settings = {**json.loads(path.read_text()), f"edit{number}": number}
                path.write_text(json.dumps(settings, indent=indent))
                more[f"edit{number}"] = number
                edited = True
            else:
                (install if step == "install" else uninstall)(home.place, CLAUDE)
            found = json.loads(path.read_text())
            assert {name: value for name, value in found.items() if name != "hooks"} == more
            assert [entry.event for entry in entries(found)] in ([], list(CLAUDE.events))
        uninstall(home.place, CLAUDE)
        assert json.loads(path.read_text()) == more
        assert edited or path.read_text() == text
