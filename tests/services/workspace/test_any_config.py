"""Whatever stands in the files: reading never fails, and what layers say together depends on their order alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.workspace_config import WorkspaceConfig
from dragoman.services.workspace.said import BUILT_IN, Said, SaidCommand, SaidObservability, together

from .rig import Rig

Read = Callable[[Mapping[Path, bytes], Mapping[str, str]], tuple[Rig, WorkspaceConfig]]

KEYS = """
    provider model subAgentModel outputDirectory uploadsDirectory userName knowledgeCutoff enableMcp
    command harness observabilityEnabled observability queryApi otlpHttpEndpoint logsBaseUrl
    defaultWindowSec reportOnly template description source servers name transport type url headers env
    args cwd required retries trusted
"""
WORDS = ["openai", "yes", "stdio", "http", "http://127.0.0.1:1", "output", "../x", "\0", "\ud800", "$1", "mcp", ""]

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(max_size=3), inner)
    ),
    max_leaves=20,
)


def encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return b'"\\ud800"'


files = st.binary(max_size=50) | values.map(encoded)
hostile = st.dictionaries(st.sampled_from(KEYS.split()), values).map(encoded)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """One rig for all examples, and a way to read it without a loop for each."""
    rig = Rig(tmp_path_factory.mktemp("any"))
    (rig.cwd / "link").symlink_to("/")
    with asyncio.Runner() as runner:

        def read(files: Mapping[Path, bytes], environment: Mapping[str, str]) -> tuple[Rig, WorkspaceConfig]:
            for path, content in files.items():
                path.write_bytes(content)
            rig.environment.clear()
            rig.environment.update(environment)
            return rig, runner.run(rig.read())

        yield read


@settings(max_examples=100, deadline=None)
@given(
    st.lists(files | hostile, min_size=6, max_size=6),
    st.dictionaries(st.sampled_from(["AGENT_MODEL", "AGENT_OUTPUT_DIR", "AGENT_ENABLE_MCP"]), st.text()),
)
def test_reading_never_fails(read: Read, contents: list[bytes], environment: dict[str, str]) -> None:
    rig, _ = read({}, {})
    names = ("config.json", "mcp-servers.json", "AGENT.md")
    paths = [layer / name for layer in (rig.person, rig.project) for name in names]
    _, config = read(dict(zip(paths, contents, strict=True)), environment)
    assert config.output_directory.is_absolute()
    assert all("\n" not in problem for problem in config.problems)
    msgspec.json.encode(config, enc_hook=str)


steps = st.sampled_from(["..", ".", "/", "//", "~", "a", "link", "etc", "", " "]) | st.text(max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=6).map("/".join) | st.text())
def test_no_folder_that_a_project_names_is_outside_of_it(read: Read, name: str) -> None:
    rig, _ = read({}, {})
    said = {rig.person / "config.json": b"{}", rig.project / "config.json": encoded({"outputDirectory": name})}
    _, config = read(said, {})
    assert config.output_directory.resolve().is_relative_to(rig.cwd.resolve())


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"command":{"a":'])
async def test_nor_for_what_is_nested_without_end(rig: Rig, opening: bytes) -> None:
    (rig.project / "config.json").write_bytes(opening * (250_000 // len(opening)))
    assert (await rig.read()).problems == (f"{rig.project}/config.json is skipped: it is no JSON",)


async def test_nor_for_a_file_that_has_no_end(rig: Rig) -> None:
    with (rig.project / "config.json").open("wb") as file:
        file.truncate(1 << 40)
    assert (await rig.read()).problems == (f"{rig.project}/config.json is skipped: it is larger than 262144 bytes",)


words = st.none() | st.sampled_from(["a", "b"])
commands = st.builds(SaidCommand, name=st.sampled_from(["x", "X"]), template=words, description=words)
layers = st.builds(
    Said,
    provider=words,
    model=words,
    enable_mcp=st.none() | st.booleans(),
    observability=st.builds(SaidObservability, logs=words, enabled=st.none() | st.booleans()),
    commands=st.dictionaries(st.sampled_from(["x", "y"]), commands),
)


@given(layers, layers, layers)
def test_layers_may_be_put_together_in_any_grouping(low: Said, middle: Said, high: Said) -> None:
    assert together(together(low, middle), high) == together(low, together(middle, high))


@given(layers)
def test_a_layer_that_says_nothing_changes_nothing(said: Said) -> None:
    assert together(said, Said()) == said == together(Said(), said)
    assert together(said, said) == said


def test_what_is_built_in_says_all_that_has_to_be_said() -> None:
    said: dict[str, Any] = msgspec.structs.asdict(BUILT_IN)
    silent = {key for key, value in said.items() if value is None}
    optional = {"provider", "model", "sub_agent_model", "working_directory", "user_name", "knowledge_cutoff"}
    assert silent == optional
    assert None not in msgspec.structs.astuple(BUILT_IN.observability)
