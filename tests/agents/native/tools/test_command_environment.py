"""A command's environment is plain and holds no key."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.agents.common.processes import MARKER
from dragoman.agents.native.settings import NativeSettings, ProviderSettings
from dragoman.agents.native.tools.environment import command_environment

from .bash_context import BashContext, bash, output

STEERING = {
    "BASH_ENV": "/tmp/first",
    "ENV": "/tmp/first",
    "SHELLOPTS": "xtrace",
    "BASHOPTS": "extdebug",
    "PROMPT_COMMAND": "id",
    "PS4": "$(id)",
    "CDPATH": "/etc",
    "GLOBIGNORE": "*",
    "BASH_FUNC_ls%%": "() { id; }",
    "GIT_DIR": "/elsewhere",
    "GIT_SSH_COMMAND": "id",
    "GIT_CONFIG_COUNT": "1",
    "GIT_EXTERNAL_DIFF": "id",
    "NODE_OPTIONS": "--require=/tmp/first",
    "NODE_PATH": "/tmp",
    "LD_PRELOAD": "",
    "LD_LIBRARY_PATH": "/tmp",
    "LD_AUDIT": "",
    "PYTHONSTARTUP": "/tmp/first",
    "PYTHONPATH": "/tmp",
    "PERL5OPT": "-Mfirst",
    "RUBYOPT": "-rfirst",
    "JAVA_TOOL_OPTIONS": "-javaagent:first",
    "PAGER": "id",
    "LESSOPEN": "|id",
    "EDITOR": "vi",
    "COLUMNS": "80",
    "TMUX": "/tmp/tmux",
    "DRAGOMAN_TOKEN": "t",
    "DRAGOMAN_DATA": "/data",
    "COOP_URL": "http://127.0.0.1:1",
}
KEYS = {
    "OPENAI_API_KEY": "k",
    "ANTHROPIC_API_KEY": "k",
    "github_token": "k",
    "HF_TOKEN": "k",
    "AWS_SECRET_ACCESS_KEY": "k",
    "AWS_SESSION_TOKEN": "k",
    "PGPASSWORD": "k",
    "MYSQL_PWD": "k",
    "DB_PASS": "k",
    "SMTP_PASSWD": "k",
    "GPG_PASSPHRASE": "k",
    "GOOGLE_APPLICATION_CREDENTIALS": "/k.json",
    "SESSION_COOKIE": "k",
    "DATABASE_URL": "postgres://me:k@db/x",
    "HTTPS_PROXY": "http://me:k@proxy:3128",
}
HARMLESS = {
    "USER": "me",
    "LC_ALL": "C.UTF-8",
    "LANG": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "TMPDIR": "/tmp",
    "VIRTUAL_ENV": "/venv",
    "XDG_CONFIG_HOME": "/home/me/.config",
    "NO_PROXY": "localhost",
    "HTTP_PROXY": "http://proxy:3128",
    "SSH_AUTH_SOCK": "/run/agent",
    "COMPASS": "north",
    "HOME": "/home/me",
    "EMPTY": "",
}


@pytest.mark.parametrize("name", [*STEERING, *KEYS])
def test_what_steers_programs_or_holds_a_key_is_left_out(name: str) -> None:
    assert name not in command_environment({**STEERING, **KEYS, **HARMLESS})


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_the_users_own_stays(name: str) -> None:
    assert command_environment({**STEERING, **KEYS, **HARMLESS})[name] == HARMLESS[name]


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        (":/usr/bin::/bin:", "/usr/bin:/bin"),
        (".:/bin:bin:../x:~/bin", "/bin"),
        ("", "/bin:/usr/bin"),
        (".", "/bin:/usr/bin"),
    ],
)
def test_programs_are_never_looked_for_in_the_working_folder(path: str, plain: str) -> None:
    assert command_environment({"PATH": path})["PATH"] == plain


def test_what_a_command_cannot_do_without_is_always_there() -> None:
    env = command_environment({"TERM": "xterm-256color", "HOME": "relative"})
    assert set(env) == {"PATH", "HOME", "LANG", "TERM"}
    assert (env["TERM"], env["LANG"]) == ("dumb", "C.UTF-8")
    assert env["HOME"].startswith("/")


async def test_a_real_command_finds_only_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first").write_text("echo first")
    (tmp_path / "ls").write_text("#!/bin/sh\necho mine")
    (tmp_path / "ls").chmod(0o755)
    for name, value in {**STEERING, **KEYS, "BASH_ENV": str(tmp_path / "first"), "ODDLY_NAMED": "k"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", ":/usr/bin:/bin")
    context = BashContext(tmp_path)
    context.settings = NativeSettings(providers={"own": ProviderSettings(key_env="ODDLY_NAMED")})
    stdout, stderr, code = output(await bash(context, "ls; env -0 | tr '\\0' '\\n'"))
    assert (stderr, code) == ("", 0)
    assert stdout.startswith("first\nls\n")
    names = {line.partition("=")[0] for line in stdout.splitlines()[2:]}
    assert not names & ({*STEERING, *KEYS, "ODDLY_NAMED"} - {MARKER})
    assert {"PATH", "HOME", "LANG", "TERM", MARKER} <= names
