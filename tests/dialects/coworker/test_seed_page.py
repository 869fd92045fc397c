"""The seed's page and our messages say the same: every example, type, table and list, in both directions."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from dragoman.client.errors import Refused
from dragoman.dialects.coworker import client_messages, messages, parts
from dragoman.dialects.coworker import workspace_messages as around
from dragoman.dialects.coworker.client_messages import ProtocolProblem
from dragoman.hub.events import Json, Problem, StepEnded, UsageReported
from dragoman.services.observability.queries import QueryRequest, QueryType
from dragoman.services.observability.slo import Operator, SloCheck

from . import page
from .rig import Coworker, Heard, calls, script

TO_SERVER = page.listed("""
    client_hello user_message ask_response approval_response set_model refresh_provider_status provider_catalog_get
    provider_auth_methods_get provider_auth_authorize provider_auth_callback provider_auth_set_api_key list_tools
    list_commands execute_command list_skills read_skill disable_skill enable_skill delete_skill set_enable_mcp
    harness_context_get harness_context_set observability_query harness_slo_evaluate reset cancel ping
    session_backup_get session_backup_checkpoint session_backup_restore session_backup_delete_checkpoint
""")

TO_CLIENT = page.listed("""
    server_hello session_settings provider_catalog provider_auth_methods provider_auth_challenge provider_auth_result
    provider_status session_busy user_message model_stream_chunk assistant_message reasoning log todos ask approval
    config_updated tools commands skills_list skill_content session_backup_state observability_status harness_context
    observability_query_result harness_slo_result reset_done error pong
""")

BEYOND = {"prompt_void", "features"}
"""What we say beyond the page, to a link that asks for it."""

STRUCTS: dict[str, type[messages.ServerMessage]] = {
    str(kind.__struct_config__.tag): kind for kind in messages.ServerMessage.__subclasses__()
}


def fields(kind: type[msgspec.Struct]) -> tuple[set[str], set[str]]:
    """The fields of a type of ours that must be there, and those that may."""
    may = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
    return {field.encode_name for field in msgspec.structs.fields(kind)} - may, may


def test_the_page_has_the_messages_that_are_tested() -> None:
    assert list(page.headings(page.TO_SERVER)) == TO_SERVER
    assert list(page.headings(page.TO_CLIENT)) == TO_CLIENT


def test_there_is_one_type_of_ours_for_each_event_of_the_page() -> None:
    assert set(STRUCTS) - BEYOND == set(TO_CLIENT)


METHODS = {"openai": ("api_key",), "codex-cli": ("oauth_cli", "api_key")}
SESSION = "..."
"""What the page writes in place of it."""


def decoded(message: page.Example) -> dict[str, Any]:
    """A client's message as our type has it, its fields spelled as on the wire; what was left out is left out."""
    typed = client_messages.decode(json.dumps(message), SESSION, METHODS)
    names = msgspec.structs.asdict(typed).keys()
    plain = json.loads(msgspec.json.encode(typed))
    assert type(typed).__name__.lower() == message["type"].replace("_", "")
    return {camel(name): plain[name] for name in names if plain[name] not in (None, [])}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def said(example: page.Example) -> dict[str, Any]:
    """What an example says beside what it is and whose it is."""
    return {key: value for key, value in example.items() if key not in ("type", "sessionId")}


@pytest.mark.parametrize("kind", TO_SERVER)
def test_every_example_of_a_clients_message_is_taken_with_all_that_it_says(kind: str) -> None:
    found = [example for heading, example in page.examples(page.TO_SERVER) if heading == kind]
    assert found
    for example in found:
        assert ("sessionId" in example) == (kind != "client_hello")
        assert without_nothing(decoded(example)) == said(example)


def without_nothing(value: Any) -> Any:
    """The value without what was left out at any depth."""
    if not isinstance(value, dict):
        return value
    return {key: without_nothing(inner) for key, inner in value.items() if inner is not None}


@pytest.mark.parametrize("kind", TO_SERVER)
def test_of_a_clients_message_only_what_the_page_calls_optional_may_be_left_out(kind: str) -> None:
    for heading, example in page.examples(page.TO_SERVER):
        if heading == kind:
            optional = {name for name in example if name not in ("type", "sessionId") and may_be_left_out(kind, name)}
            for name in set(example) - {"type"}:
                less = {key: value for key, value in example.items() if key != name}
                if name in optional:
                    assert name not in decoded(less)
                else:
                    with pytest.raises(ProtocolProblem, match=f"^{kind} ") as problem:
                        decoded(less)
                    assert problem.value.code == "validation_failed"


def may_be_left_out(kind: str, name: str) -> bool:
    """What the page says beside the field, in its value, in its text, or by a second example without it."""
    part = page.section(page.TO_SERVER).partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
    line = next(line for line in part.splitlines() if f'"{name}":' in line)
    examples = [example for heading, example in page.examples(page.TO_SERVER) if heading == kind]
    by_text = kind == "execute_command" and name == "arguments" and "optional arguments" in part
    return "optional" in line or by_text or any(name not in example for example in examples)


@pytest.mark.parametrize("kind", TO_CLIENT)
def test_every_example_of_an_event_is_one_of_ours(kind: str) -> None:
    """As our type it has every value that it has on the page, and no other."""
    found = [example for heading, example in page.examples(page.TO_CLIENT) if heading == kind]
    assert found
    for example in found:
        typed = msgspec.convert(example, STRUCTS[kind], strict=True)
        assert msgspec.json.decode(messages.encode(typed)) == example
        assert list(example)[:2] == ["type", "sessionId"]


@pytest.mark.parametrize("kind", TO_CLIENT)
def test_an_event_of_ours_has_its_fields_in_the_order_of_the_page(kind: str) -> None:
    for heading, example in page.examples(page.TO_CLIENT):
        if heading == kind:
            typed = msgspec.convert(example, STRUCTS[kind], strict=True)
            assert list(msgspec.json.decode(messages.encode(typed))) == list(example)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ConfigSubset", messages.Config),
        ("TodoItem", messages.TodoItem),
        ("SessionBackupCheckpoint", around.Checkpoint),
        ("SessionBackupState", around.Backup),
        ("CommandInfo", around.CommandInfo),
    ],
)
def test_a_type_of_the_page_has_the_fields_of_ours(name: str, ours: type[msgspec.Struct]) -> None:
    assert page.interface(name) == fields(ours)


@pytest.mark.parametrize(("name", "ours"), [("ObservabilityQueryRequest", QueryRequest), ("HarnessSloCheck", SloCheck)])
def test_a_type_that_clients_send_has_the_fields_of_ours(name: str, ours: type[msgspec.Struct]) -> None:
    must, may = page.interface(name)
    required = {field.encode_name for field in msgspec.structs.fields(ours) if field.required}
    assert (must, may) == (required, {field.encode_name for field in msgspec.structs.fields(ours)} - required)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ProviderName", messages.PROVIDERS),
        ("ObservabilityQueryType", get_args(QueryType)),
        ("HarnessSloOperator", get_args(Operator)),
    ],
)
def test_words_of_the_page_are_ours(name: str, ours: tuple[str, ...]) -> None:
    assert page.words(name) == ours


def test_codes_sources_and_reasons_are_those_of_the_page() -> None:
    ours: dict[str, Any] = {
        "code": messages.ErrorCode,
        "source": messages.ErrorSource,
        "reasonCode": messages.ReasonCode,
    }
    assert page.lists(page.TO_CLIENT) == {name: get_args(kind) for name, kind in ours.items()}


def test_reasons_of_a_backup_are_those_of_the_page() -> None:
    (said,) = [line for line in page.section(page.TO_CLIENT).splitlines() if '"reason":' in line]
    assert [word.strip() for word in said.partition("//")[2].split("|")] == list(get_args(around.BackupReason))


def test_no_event_of_ours_takes_what_the_page_does_not_have() -> None:
    """A wrong code is none: the lists are part of the types."""
    for field, wrong in (("code", "broken"), ("source", "elsewhere")):
        error = {"type": "error", "sessionId": "s", "message": "m", "code": "busy", "source": "session", field: wrong}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(error, messages.Error)


def part_problem(kind: str, part: Json) -> str | None:
    """What is wrong with a chunk's part, by the page's table."""
    must, may = page.part_types()[kind]
    assert isinstance(part, dict)
    missing, strange = must - set(part), set(part) - must - may
    return f"{kind}: {missing} missing, {strange} strange" if missing or strange else None


def test_the_table_of_parts_is_read_as_it_stands() -> None:
    assert len(page.part_types()) == 24
    assert page.part_types()["tool_call"] == (
        {"toolCallId", "toolName", "input"},
        {"dynamic", "invalid", "error", "providerMetadata"},
    )
    assert part_problem("text_delta", {"id": "x", "text": "y"}) is None
    assert part_problem("text_delta", {"id": "x", "delta": "y"}) is not None


META: dict[str, dict[str, Any]] = {"openai": {"itemId": "i"}}
BROKEN = Problem(code="no_such_tool", message="m")
ENDED = StepEnded(turn="t", step=1, finish_reason="tool_calls", raw_finish_reason="x", response={"id": "r"})
SPENT = [UsageReported(message="m", input_tokens=2, output_tokens=3)]
CALL: dict[str, Any] = {"dynamic": True, "by_provider": False, "metadata": META}
BY_PROVIDER: dict[str, Any] = {"dynamic": False, "by_provider": True, "metadata": None}

SPELLED = [
    parts.start(),
    parts.finish(ENDED, SPENT),
    parts.finish(None, ()),
    parts.abort(parts.CANCELLED),
    parts.error(BROKEN),
    parts.start_step({"body": {"model": "m"}}, ["w"]),
    parts.start_step(None, ()),
    parts.finish_step(ENDED, SPENT[0], "openai"),
    parts.finish_step(ENDED, None, "google"),
    *(parts.text_edge(f"text_{edge}", "p", META) for edge in ("start", "end")),
    parts.text_delta("p", "t", META),
    *(parts.reasoning_edge(f"reasoning_{edge}", "p", "summary", META) for edge in ("start", "end")),
    parts.reasoning_delta("p", "summary", "t", META),
    parts.tool_input_start("p", "bash", title="T", **CALL),
    parts.tool_input_start("p", "bash", title=None, **BY_PROVIDER),
    parts.tool_input_delta("p", "{", META),
    parts.text_edge("tool_input_end", "p", META),
    parts.tool_call("c", "bash", {"command": "ls"}, invalid=None, **CALL),
    parts.tool_call("c", "dance", None, invalid=BROKEN, **BY_PROVIDER),
    parts.tool_result("c", "bash", {}, None, **CALL),
    parts.tool_result("c", "search", {}, [], **BY_PROVIDER),
    parts.tool_error("c", "bash", {}, "wrong", **CALL),
    parts.tool_output_denied("c", "bash", "no", META),
    parts.tool_output_denied("c", "bash", None, None),
    parts.tool_approval_request("a", "c", "bash", {}),
    parts.source({"type": "source", "url": "https://x.example"}),
    parts.file({"mediaType": "image/png"}),
    parts.raw({"type": "response.created"}),
    parts.unknown("new-thing", {"x": 1}),
]
"""Every part that we can spell, with all of its fields and with the fewest."""


def test_we_can_spell_every_part_of_the_table_and_no_other() -> None:
    assert {kind for kind, _, _ in SPELLED} == set(page.part_types())


@pytest.mark.parametrize("number", range(len(SPELLED)), ids=[f"{n}-{kind}" for n, (kind, _, _) in enumerate(SPELLED)])
def test_a_part_has_the_fields_of_the_table(number: int) -> None:
    kind, part, raw = SPELLED[number]
    assert part_problem(kind, part) is None
    assert raw["type"] == kind.replace("_", "-") or kind == "unknown"


async def everything(served: Coworker, link: Heard) -> None:
    """A session in which every event of the page is told once at least."""
    folder = served.home / ".cowork" / "skills" / "seen"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: to be seen\n---\n# Seen\n")
    client = link.client
    todos = [{"content": "a", "status": "pending", "activeForm": "doing a"}]
    steps = calls(("todoWrite", {"todos": todos}), ("ask", {"question": "Q?"}), ("bash", {"command": "touch x"}))
    await client.say(script(*steps, "think so\nsay done\nusage 3 4"), message_id="m")
    client.answer((await link.next("ask"))["requestId"], "A")
    client.approve((await link.next("approval"))["requestId"], approved=True)
    await link.next("session_busy", busy=False)
    await client.tools()
    await client.commands()
    await client.skills()
    await client.read_skill("seen")
    await client.set_model("m", "openai")
    await client.authorize("codex-cli", "oauth_cli")
    await client.set_key("google", "key-0123456789")
    await client.harness_context()
    await client.query({"queryType": "logql", "query": "x"})
    check = {
        "id": "c",
        "type": "custom",
        "queryType": "promql",
        "query": "x",
        "op": "<",
        "threshold": 1,
        "windowSec": 9,
    }
    await client.evaluate([check])
    await client.reset()
    await client.ping()
    with pytest.raises(Refused):
        await client.read_skill("nobody")


async def test_every_event_of_the_page_is_told_and_fits_its_type(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        await everything(served, link)
        assert {frame["type"] for frame in link.frames} == set(TO_CLIENT)
        for frame in link.frames:
            typed = msgspec.convert(frame, STRUCTS[frame["type"]], strict=True)
            again = msgspec.json.decode(messages.encode(typed))
            assert (again, list(again)) == (frame, list(frame))


async def test_every_chunk_that_is_told_fits_the_table(served: Coworker) -> None:
    page.text()
    async with served.client() as link:
        look = "\n".join(calls(("glob", {"pattern": "*"}), ("read", {"filePath": "nothing"}), ("dance", {})))
        failing = 'raw {"type":"response.created"}\ndeltas 3\nfail failed no more'
        for steps in ((f"think hm\nsay look\n{look}", "say done"), (failing,)):
            await link.turn(script(*steps))
        await link.client.say(script("say so far\nwait"))
        link.client.cancel()
        await link.next("session_busy", busy=False)
        chunks = [frame for frame in link.frames if frame["type"] == "model_stream_chunk"]
        kinds = {chunk["partType"] for chunk in chunks}
        assert {"tool_call", "tool_result", "tool_error", "reasoning_delta", "raw", "error", "abort", "finish"} <= kinds
        assert [problem for chunk in chunks if (problem := part_problem(chunk["partType"], chunk["part"]))] == []
