"""What each recording's server found: folders, files, configuration, keys; and what the recorder did in between."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import dragoman
import dragoman.services.skills as own_skills

from . import adding_server, skills, stores
from .recording import Frame

_PROGRAMS = ("bash", "sh", "cat", "env", "git", "ls", "rm", "sleep", "touch", "true", "wc")
"""What may be called. No ``claude``, no ``codex``: where the recordings were made, there was neither."""

_COMMANDS = {
    "all": {"template": "[script:text] args: $ARGUMENTS"},
    "greet": {"template": "[script:text] Say hello to $1 and rest $2", "description": "Say hello"},
    "INIT": {"template": "overridden init $1"},
    "mcpish": {"template": "mcp", "source": "mcp"},
    "noargs": {"template": "$1"},
    "plain": {"template": "[script:text] plain"},
}

_KEYS_KEPT: tuple[Frame, ...] = (
    {"type": "provider_auth_callback", "provider": "claude-code", "methodId": "oauth_cli"},
    {"type": "provider_auth_set_api_key", "provider": "openai", "methodId": "api_key", "apiKey": "test-key-123456789"},
)
"""What an earlier link of the same server had asked for."""

_SETTINGS = """
[native]
local_servers = []
turn = { retry_first = 0.02 }
mcp = { retry_delay = 0.02, first_wait = 10 }
"""
"""No look at what else runs on this machine; short pauses and long patience: no part of what was said."""

OWN_SKILLS = "<server>/skills"
"""Stands for the folder of skills that come with the server."""

PLAIN = (
    "client_hello",
    "connect",
    "harness_context",
    "lists",
    "observability_disabled",
    "ping",
    "protocol_errors",
    "provider",
    "reset_cancel_idle",
    "set_enable_mcp",
    "set_model",
    "validation",
)
"""Recorded with nothing configured, so with Google."""

OBSERVED = ("observability_enabled", "turn_mcp", "turn_yolo")
"""Recorded with telemetry and MCP servers."""


@dataclass
class World:
    """Everything that one server is started in."""

    root: Path
    project: Path
    home: Path
    built_in: Path
    environment: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    before: tuple[Frame, ...] = ()
    places: list[tuple[str, str]] = field(default_factory=list)
    """Our texts, and what the recordings have in their place."""

    @property
    def data(self) -> Path:
        """The server's own folder."""
        return self.root / "data"

    @property
    def go(self) -> Path:
        """The file that the MCP server waits for."""
        return self.root / "go"


def prepare(name: str, root: Path, *, model: str, store: str) -> World:
    """The world of a recording, in an empty folder; ``model`` and ``store`` are the URLs of those."""
    world = World(root, root / "project", root / "home", root / "opt")
    if name == "session_backup_real_w4_sub":
        world.project = root / "repository" / "project"
    elif name == "session_backup_home_is_workdir":
        world.project = world.home
    for folder in (world.project, world.home, world.built_in):
        folder.mkdir(parents=True, exist_ok=True)
    skills.write_built_in(world.built_in / "skills")
    world.environment = _environment(world)
    world.places = [(str(world.built_in), "/opt/cowork"), (str(world.home), "/home/user")]
    world.places.insert(0, (str(world.project), "/project"))
    world.places.append((str(Path(own_skills.__file__).parent / "built_in"), OWN_SKILLS))
    if name.startswith("session_backup_"):
        _FOLDERS[name](world)
    elif name not in PLAIN:
        _rich(world, name, model)
    if name in OBSERVED:
        _observed(world, store)
    if name == "turn_yolo":
        world.flags.append("--yolo")
    if name == "observability_disabled":
        world.before = _KEYS_KEPT
    return world


def _environment(world: World) -> dict[str, str]:
    programs = world.root / "bin"
    programs.mkdir()
    for name in _PROGRAMS:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    settings = world.root / "settings.toml"
    settings.write_text(_SETTINGS, "utf-8")
    return {
        "HOME": str(world.home),
        "PATH": str(programs),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(dragoman.__file__).parents[1]),  # the server is the one that the tests see
        "COWORK_BUILTIN_DIR": str(world.built_in),
        "DRAGOMAN_CONFIG": str(settings),
    }


def _rich(world: World, name: str, model: str) -> None:
    """OpenAI, commands, skills in every place, and the files that the recordings before had left behind."""
    world.environment |= {"AGENT_PROVIDER": "openai", "OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{model}/v1"}
    skills.write_recorders(world.project, world.home)
    (world.project / ".agent" / "config.json").write_text(json.dumps({"command": _COMMANDS}), "utf-8")
    files = {"a.txt": "hello\n", **_LEFT_BEHIND.get(name, {})}
    for at, (path, text) in enumerate(files.items()):
        write(world.project / path, text)
        os.utime(world.project / path, (1_771_000_000 + at, 1_771_000_000 + at))


_LEFT_BEHIND: dict[str, dict[str, str]] = {
    "turn_approval_no": {"old/x.txt": "x\n"},
    "turn_dangerous_yes": {"old/x.txt": "x\n"},
    "turn_control_op": {"made.txt": ""},
    "turn_files": {"made.txt": ""},
    "session_backup": {"made.txt": "", "p.txt": "", "full.txt": "", "notes/n.txt": "one\nthree\n"},
}
"""Files that show: in a list, in a count, or by not being new. From the oldest to the newest."""


def _observed(world: World, store: str) -> None:
    """Telemetry goes to the store, and the person has two MCP servers, of which one cannot be started."""
    world.environment |= {
        "AGENT_OBSERVABILITY_ENABLED": "true",
        "AGENT_OBS_OTLP_HTTP": store,
        "AGENT_OBS_LOGS_URL": store,
        "AGENT_OBS_METRICS_URL": f"{store}/",
        "AGENT_OBS_TRACES_URL": store,
        "AGENT_HARNESS_REPORT_ONLY": "false",
        "AGENT_HARNESS_STRICT_MODE": "true",
    }
    world.places.append((store, stores.RECORDED_URL))
    demo = {"type": "stdio", "command": sys.executable, "args": [adding_server.__file__, str(world.go)]}
    broken = {"type": "stdio", "command": "/nonexistent/bin", "args": []}
    servers = [
        {"name": "demo", "transport": demo, "trusted": True},
        {"name": "broken", "transport": broken, "retries": 1},
    ]
    write(world.home / ".agent" / "mcp-servers.json", json.dumps({"servers": servers}))


def write(path: Path, text: str | bytes) -> None:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


# Folders of the recordings about backups


def _no_place(world: World) -> None:
    """Where backups would lie there is a file."""
    world.places.append((str(world.home), "/R/home7"))
    write(world.home / ".cowork" / "session-backups", "in the way\n")


def _home(world: World) -> None:
    write(world.project / "a.txt", "hello\n")


def _matrix(world: World) -> None:
    texts = {"a.txt": "hello\n", "gone.txt": "x\n", "old.txt": "old\n" * 20, "run.sh": "true\n", "grün.txt": "g\n"}
    for path, text in {**texts, "q.sql": "line1\n-- note a//b\nline3\n"}.items():
        write(world.project / path, text)
    write(world.project / "bin.dat", bytes(range(256)) * 8)


def _real(world: World) -> None:
    _matrix(world)
    for path in ("a.txt", "gone.txt", "grün.txt"):
        (world.project / path).unlink()
    write(world.project / "sp ace.txt", "space\n")
    (world.project / "emptydir").mkdir()
    (world.project / "link.sql").symlink_to("q.sql")


def _within_a_repository(world: World) -> None:
    """The folder is one of a repository's."""
    write(world.project.parent / ".git" / "HEAD", "ref: refs/heads/main\n")
    for path in ("objects", "refs"):
        (world.project.parent / ".git" / path).mkdir()
    _real(world)


_FOLDERS: dict[str, Callable[[World], None]] = {
    "session_backup_failed": _no_place,
    "session_backup_home_is_workdir": _home,
    "session_backup_matrix": _matrix,
    "session_backup_real_w4_sub": _within_a_repository,
    "session_backup_real_w5": _real,
}


# What the recorder did to them


def act(note: str, project: Path) -> str:
    """Do what a note says, or see what it saw. The note as it would be written now."""
    if note.startswith("tree: "):
        return tree(project)
    if (edit := _EDITS.get(note.removeprefix("checkpoint: "))) is not None:
        edit(project)
    return note


def tree(project: Path) -> str:
    """The names in a folder, and the file that gave the original trouble."""
    names = sorted(path.name for path in project.iterdir() if not path.name.startswith("."))
    text = (project / "q.sql").read_text("utf-8").replace("\n", "|")
    return " ".join(["tree: .", *(f"./{name}" for name in names), text])


def image(project: Path) -> dict[str, str]:
    """All that is in a folder: what kind each path is, its mode, its content."""
    found = {}
    for path in sorted(project.rglob("*")):
        mode = path.lstat().st_mode
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes().hex() if path.is_file() else ""
        found[str(path.relative_to(project))] = f"{stat.filemode(mode)} {content}"
    return found


def _edit_all(project: Path) -> None:
    write(project / "a.txt", "hello again\n")
    write(project / "new.txt", "new\n")
    write(project / "bin.dat", os.urandom(2048))
    (project / "gone.txt").unlink()


def _edit_real(project: Path) -> None:
    _drop_line(project)
    write(project / "new.txt", "new\n")
    write(project / "empty.txt", "")
    write(project / "bin.dat", os.urandom(2048))
    (project / "sp ace.txt").unlink()


def _add_empty(project: Path) -> None:
    write(project / "empty.txt", "")
    (project / "emptydir").mkdir()


def _drop_line(project: Path) -> None:
    write(project / "q.sql", "line1\nline3\n")


def _rename(project: Path) -> None:
    (project / "old.txt").rename(project / "renamed.txt")


def _make_executable(project: Path) -> None:
    (project / "run.sh").chmod(0o755)


def _edit_not_ascii(project: Path) -> None:
    write(project / "grün.txt", "grüner\n")


def _add_link(project: Path) -> None:
    (project / "link").symlink_to("a.txt")


def _add_repository(project: Path) -> None:
    write(project / "r" / ".git" / "HEAD", "ref: refs/heads/main\n")
    write(project / "r" / "in.txt", "in\n")


_EDITS: dict[str, Callable[[Path], None]] = {
    "plain edit+new+binary+delete": _edit_all,
    "empty file + empty dir": _add_empty,
    "content line starts with '-- '": _drop_line,
    "rename": _rename,
    "chmod only": _make_executable,
    "unicode name edit": _edit_not_ascii,
    "add symlink": _add_link,
    "nested git repo": _add_repository,
    "edit+new+empty+binary+delete": _edit_real,
    "with rename": _rename,
}
"""By the recorder's own notes."""
