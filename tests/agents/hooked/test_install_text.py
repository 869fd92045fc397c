"""Settings of somebody else's under change: what is added goes in where it belongs, and all else stays as it is."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.hooked.installation.codex_trust import distrust, event_key, hash_of, trust, trusted
from dragoman.agents.hooked.installation.edits import Edit, Text, undone
from dragoman.agents.hooked.installation.json_text import add, nodes, read_json, remove
from dragoman.agents.hooked.installation.problems import CannotInstall

OURS = {"hooks": [{"type": "command", "command": "it"}]}


def added(text: str, value: Any = 1, path: tuple[str, ...] = ("hooks", "Stop")) -> str:
    under_way = Text(text)
    add(under_way, path, value)
    assert undone(under_way.text, under_way.edits) == text
    return under_way.text


# JSON


ADDED = {
    "nothing yet": ("{}\n", '{\n  "hooks": {\n    "Stop": [\n      1\n    ]\n  }\n}\n'),
    "two blanks": ('{\n  "a": 1\n}', '{\n  "a": 1,\n  "hooks": {\n    "Stop": [\n      1\n    ]\n  }\n}'),
    "four blanks": (
        '{\n    "a": 1\n}',
        '{\n    "a": 1,\n    "hooks": {\n        "Stop": [\n            1\n        ]\n    }\n}',
    ),
    "tabs": ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t1\n\t\t]\n\t}\n}'),
    "carriage returns": (
        '{\r\n  "a": 1\r\n}\r\n',
        '{\r\n  "a": 1,\r\n  "hooks": {\r\n    "Stop": [\r\n      1\r\n    ]\r\n  }\r\n}\r\n',
    ),
    "one line": ('{"a": 1}', '{"a": 1, "hooks": {"Stop": [1]}}'),
    "one close line": ('{"a":1,"b":2}', '{"a":1,"b":2,"hooks":{"Stop":[1]}}'),
    "an event of theirs": (
        '{\n  "hooks": {\n    "Stop": [\n      {"x": 0}\n    ]\n  },\n  "z": 1.50\n}',
        '{\n  "hooks": {\n    "Stop": [\n      {"x": 0},\n      1\n    ]\n  },\n  "z": 1.50\n}',
    ),
    "an event in one line": (
        '{\n  "hooks": {\n    "Stop": [{"x": 0}]\n  }\n}',
        '{\n  "hooks": {\n    "Stop": [{"x": 0}, 1]\n  }\n}',
    ),
    "an empty list": (
        '{\n  "hooks": {\n    "Stop": []\n  }\n}',
        '{\n  "hooks": {\n    "Stop": [\n      1\n    ]\n  }\n}',
    ),
    "another event": (
        '{\n  "hooks": {\n    "Start": []\n  }\n}',
        '{\n  "hooks": {\n    "Start": [],\n    "Stop": [\n      1\n    ]\n  }\n}',
    ),
    "odd spacing": (
        '{ "hooks" :{ "Stop":[ 5 , 6 ] } ,\n"é\\u00e9\\"}{": 1e3}',
        '{ "hooks" :{ "Stop":[ 5 , 6, 1 ] } ,\n"é\\u00e9\\"}{": 1e3}',
    ),
}


@pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED.keys())
def test_what_is_added_looks_like_what_stands_beside_it(before: str, after: str) -> None:
    assert added(before) == after
    assert json.loads(after)["hooks"]["Stop"][-1] == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ('{"a": 1,}', "no JSON"),
        ("[]", "no JSON object"),
        ("5", "no JSON object"),
        ('{"a": 1} // mine', "comments"),
        ('// mine\n{"a": 1}', "comments"),
        ('{\n  /* mine */\n  "a": 1\n}', "comments"),
        ('{\n  "a": 1, // mine\n  "b": "http://x"\n}', "comments"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ("[" * 100_000, "deep"),
    ],
)
def test_what_is_no_settings_file_is_left_alone(text: str, why: str) -> None:
    with pytest.raises(CannotInstall, match=why):
        read_json(text, "the file")


@pytest.mark.parametrize(
    "text", ['{"hooks": []}', '{"hooks": null}', '{"hooks": {"Stop": {}}}', '{"hooks": {"Stop": 1}}']
)
def test_hooks_that_are_none_are_left_alone(text: str) -> None:
    with pytest.raises(CannotInstall, match="is left alone"):
        add(Text(text), ("hooks", "Stop"), 1)


def test_nothing_goes_too_deep() -> None:
    with pytest.raises(CannotInstall, match="deep"):
        nodes("[" * 500 + "]" * 500)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
GROUPS = st.lists(st.fixed_dictionaries({"hooks": st.lists(st.just({"command": "theirs"}), max_size=2)}), max_size=3)
HOOKS = st.dictionaries(st.sampled_from(["Stop", "Start", "é"]), GROUPS, max_size=3)
SETTINGS = st.builds(
    lambda more, hooks, first: {**hooks, **more} if first else {**more, **hooks},
    st.dictionaries(st.text(max_size=5).filter(lambda name: name != "hooks"), JSON, max_size=4),
    st.just({}) | st.fixed_dictionaries({"hooks": HOOKS}),
    st.booleans(),
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Settings as a person may have written them."""
    value = draw(SETTINGS)
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\n", "  "])) + text + draw(st.sampled_from(["", "\n", "\r\n\n"]))


@given(written(), st.sampled_from(["Stop", "Start", "New"]))
def test_whatever_the_settings_all_else_stays(text: str, event: str) -> None:
    before = json.loads(text)
    under_way = Text(text)
    add(under_way, ("hooks", event), OURS)
    after = json.loads(under_way.text)
    assert after["hooks"][event][-1] == OURS
    groups = after["hooks"][event][:-1]
    assert groups == before.get("hooks", {}).get(event, [])
    assert {name: value for name, value in after.items() if name != "hooks"} == {
        name: value for name, value in before.items() if name != "hooks"
    }
    assert undone(under_way.text, under_way.edits) == text
    added_at = len(groups)
    remove(under_way, ("hooks", event, added_at))
    rest = json.loads(under_way.text)
    assert rest["hooks"][event] == groups


@given(written())
def test_every_part_is_found_where_it_lies(text: str) -> None:
    def check(node: Any, value: Any) -> None:
        assert json.loads(text[node.start : node.end]) == value
        if isinstance(value, dict):
            assert [child.name for child in node.children] == list(value)
            for child in node.children:
                check(child.value, value[child.name])
        elif isinstance(value, list):
            for child, element in zip(node.children, value, strict=True):
                check(child.value, element)

    check(nodes(text), json.loads(text))


@given(written(), st.data())
def test_any_part_can_be_taken_out(text: str, data: st.DataObject) -> None:
    value = json.loads(text)
    if not value:
        return
    name = data.draw(st.sampled_from(sorted(value)))
    under_way = Text(text)
    remove(under_way, (name,))
    del value[name]
    assert json.loads(under_way.text) == value
    assert list(json.loads(under_way.text)) == list(value)
    assert undone(under_way.text, under_way.edits) == text


def test_edits_are_not_taken_back_from_another_text() -> None:
    with pytest.raises(ValueError, match="another"):
        undone("abc", [Edit(0, "", "x")])


# What Codex trusts


def test_hashes_are_those_that_codex_writes() -> None:
    """Of ``hooks/list`` of Codex 0.171's app server, and of its configuration after 'Trust all'."""

    def of(event: str, command: str, matcher: str | None = None, **more: Any) -> str:
        return hash_of(event, matcher, {"type": "command", "command": command, **more}).removeprefix("sha256:")[:16]

    assert of("PreToolUse", "/bin/echo hi", "") == "69781dcf54e04d9b"
    assert of("PreToolUse", "/bin/echo ho", timeout=7) == "676b2825935ee662"
    assert of("PermissionRequest", "/bin/echo ho", timeout=700) == "db0d4ae31c15123f"
    assert of("PostToolUse", "/bin/echo ho", timeout=7, statusMessage="x") == "043ded4e4a510206"
    assert of("UserPromptSubmit", '/bin/echo é "q"', "*", timeout=7) == "1a7c9f750a563ed8"
    assert of("SessionEnd", "/bin/echo ho") == "fd1e0fa27e5daea0"
    assert of("Interrupt", "/bin/echo ho") == "45494a0efbdcbdef"
    assert of("PreToolUse", "/bin/true 'a b'", "") == "ec3e6fdcf289dc37"
    assert of("Stop", "/bin/true") == "fef68b1a8a809001"


def test_an_events_name_as_a_key() -> None:
    assert [event_key(event) for event in ("PreToolUse", "Stop", "SubagentStart")] == [
        "pre_tool_use",
        "stop",
        "subagent_start",
    ]


KEY = '/home/ü "x"/.codex/hooks.json:stop:0:0'
CONFIGS = {
    "nothing": "",
    "no end of line": "model = 'x'",
    "mine": '# mine\nmodel = "x"\n\n[tui]  # here\nok = true\n\n# end\n',
    "carriage returns": 'model = "x"\r\n[tui]\r\nok = true\r\n',
    "others": '[hooks.state]\n\n[hooks.state."/a:stop:0:0"]\ntrusted_hash = "sha256:1"\n\n[z]\n',
    "a text like a table": "text = '''\n[hooks.state.\"q\"]\n'''\n",
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_hook_is_trusted_and_no_longer(config: str) -> None:
    text = Text(config)
    trust(text, {KEY: "sha256:a", "b": "sha256:b"})
    assert trusted(text.text).items() >= {(KEY, "sha256:a"), ("b", "sha256:b")}
    assert text.text.startswith(config)
    assert undone(text.text, text.edits) == config
    once = text.text
    trust(text, {KEY: "sha256:a"})
    assert text.text == once
    trust(text, {KEY: "sha256:c"})
    assert trusted(text.text)[KEY] == "sha256:c"
    distrust(text, [KEY, "b", "unknown"])
    assert tomllib.loads(text.text) == tomllib.loads(config)
    assert text.text.rstrip() == config.rstrip()


def test_what_codex_adds_behind_ours_stays() -> None:
    text = Text('a = 1\n\n[hooks.state."k"]\ntrusted_hash = "h"\nenabled = false\n# note\n[tui]\nb = 2\n')
    distrust(text, ["k"])
    assert text.text == "a = 1\n# note\n[tui]\nb = 2\n"


@pytest.mark.parametrize(
    "config",
    [
        "hooks = {}\n",
        "[hooks]\nstate = {}\n",
        '[hooks.state]\n"k" = { trusted_hash = "old" }\n',
        'hooks.state."k".trusted_hash = "old"\n',
        "broken [",
        "hooks = 5\n",
    ],
)
def test_a_configuration_that_cannot_be_edited_is_left_alone(config: str) -> None:
    with pytest.raises(CannotInstall):
        trust(Text(config), {"k": "new"})


def test_a_table_that_is_written_otherwise_is_understood() -> None:
    assert trusted('[hooks.state]\n"k" = { trusted_hash = "h" }\n') == {"k": "h"}
    text = Text("[ hooks . state . 'k' ]\ntrusted_hash='h'\n")
    trust(text, {"k": "h2"})
    assert trusted(text.text) == {"k": "h2"}
