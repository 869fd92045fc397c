"""The environment of a command that the model has run.

Whether a command may run unasked is judged by its text alone (``permissions``). So it runs in a plain environment, in
which a name means what it says: nothing that makes a shell, a loader, an interpreter or git do something else first.
Keys stay with the server: what a command prints goes to the model.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Collection, Mapping

from dragoman.agents.common.environment import OF_ANOTHER_TERMINAL
from dragoman.agents.native.permissions.reading import words
from dragoman.agents.native.settings import NativeSettings

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_STEERS = words(
    # the shell
    "ENV SHELLOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 CDPATH GLOBIGNORE EXECIGNORE FIGNORE IFS POSIXLY_CORRECT "
    "HISTFILE HISTCONTROL HISTIGNORE TIMEFORMAT TMOUT FCEDIT INPUTRC OLDPWD PWD SHLVL _ "
    # interpreters
    "JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH PERLLIB DENO_DIR BUN_OPTIONS "
    # programs that others start, and options that they take from nowhere
    "PAGER MANPAGER LESS LESSOPEN LESSCLOSE EDITOR VISUAL BROWSER SSH_ASKPASS SUDO_ASKPASS SSH_ASKPASS_REQUIRE "
    "GREP_OPTIONS TAR_OPTIONS MAKEFLAGS MAKEFILES MFLAGS GNUMAKEFLAGS RIPGREP_CONFIG_PATH "
    # the C library
    "GCONV_PATH LOCPATH NLSPATH GETCONF_DIR RESOLV_HOST_CONF TZDIR "
    # colours where nobody sees them
    "COLORTERM FORCE_COLOR CLICOLOR CLICOLOR_FORCE"
)
_STEERING = (
    *("DRAGOMAN_", "COOP", "GIT_", "BASH", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "COMP_"),
    *("PYTHON", "PERL5", "RUBY", "GEM_", "BUNDLE_", "NODE_", "NPM_CONFIG_", "LUA_"),
)

_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|BEARER|AUTHORIZATION|(?:^|_)(?:PASS|PWD|PAT)(?:_|$)"
)
_SHORTEST = 12
"""Characters of a secret for which other variables are searched too; what is shorter may stand anywhere by chance."""
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def plain_environment(settings: NativeSettings) -> dict[str, str]:
    """What a program gets of ours, where these are the settings: they may name more variables that hold keys."""
    keys = {provider.key_env for provider in settings.providers.values()}
    return command_environment(os.environ, secret=keys)


def command_environment(ours: Mapping[str, str], *, secret: Collection[str] = ()) -> dict[str, str]:
    """What a command gets of our environment. ``secret`` names further variables that hold a key.

    What holds the same key under another name is left out with it.

    Always has ``PATH`` (of absolute folders), ``HOME``, ``LANG`` and ``TERM=dumb``.
    """
    hidden = {name for name in ours if name in secret or is_secret_name(name)}
    values = {ours[name] for name in hidden if len(ours[name]) >= _SHORTEST}
    kept = {
        name: value
        for name, value in ours.items()
        if name not in hidden and _harmless(name, value) and not any(each in value for each in values)
    }
    return {
        "LANG": "C.UTF-8",
        **kept,
        "PATH": _search_path(ours.get("PATH", "")),
        "HOME": _home(ours.get("HOME", "")),
        "TERM": "dumb",
    }


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a secret."""
    return _SECRET.search(name.upper()) is not None


def _harmless(name: str, value: str) -> bool:
    if not _NAME.fullmatch(name) or name in _STEERS or name in OF_ANOTHER_TERMINAL:
        return False
    upper = name.upper()
    return not (upper.startswith(_STEERING) or _URL_WITH_PASSWORD.search(value))


def _search_path(path: str) -> str:
    """Only absolute places: an empty or relative one is the working folder, where the model may write programs."""
    places = [place for place in path.split(os.pathsep) if place.startswith("/")]
    return os.pathsep.join(places) or os.defpath


def _home(home: str) -> str:
    if home.startswith("/"):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"
