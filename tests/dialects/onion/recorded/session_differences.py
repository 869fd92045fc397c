"""Differences in what a session is to whoever connects to it, and in the files it takes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.dialects.leaves import ANYTHING

from .recording import Answered, Asked, Entry, Frame, Received, Refused, Sent, sockets
from .rewriting import Talk, answered_by, connected, each, error, events_of, instead, session_of

PREFIX = "<seconds>_"


def there_since_connect(name: str, entries: list[Entry]) -> list[Entry]:
    """A session is there from its CONNECT on."""
    if name != "session_status":
        return entries
    told = [at for at, entry in enumerate(entries) if isinstance(entry, Received) and "status" in entry.frame]
    joined = next(at for at in told if _frame(entries[at])["type"] == "CONNECTED")
    made = list(entries)
    after = told[told.index(joined) + 1]
    made[after] = instead(entries[after], {**_frame(entries[after]), "status": "connected"})[0]
    return made


def later_turns_win(name: str, entries: list[Entry]) -> list[Entry]:
    """What a client gives back from before the last turn, or only claims, is older than what the server has."""
    if name == "reconnect_idle_merge":
        return _told_all(entries, "socket 5", "socket 4")
    if name != "merge_iteration_resets_each_turn":
        return entries
    last = max(at for at, entry in enumerate(entries) if isinstance(entry, Received) and entry.conn == "socket 2")
    output = _frame(entries[last])
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received) and entry.conn == "socket 3" and entry.frame["type"] == "CONNECTED":
            more = {"server_newer": True, "session": output["session"], "chat_items": output["chat_items"]}
            made += instead(entry, {**entry.frame, **more})
        else:
            made.append(entry)
    return answered_by(
        made,
        lambda sent: sent.conn == "socket 3" and sent.kind == "INPUT",
        lambda sent, had: Talk(had, "socket 3").echo(_prompt(sent)),
    )


def turns_that_were(name: str, entries: list[Entry]) -> list[Entry]:
    """Turns that a client remembers, and the server did not know of, count."""
    if name not in ("connect_unknown_session", "careful_onboard", "careful_code_onboard"):
        return entries
    sent = [entry.message for entry in entries if isinstance(entry, Sent) and isinstance(entry.message, dict)]
    claims = [message["session"] for message in sent if "session" in message]
    more = sum(message["role"] == "user" for message in claims[0]["messages"])

    def change(frame: Frame) -> None:
        for holder in (*events_of(frame), session_of(frame)):
            if "turn" in holder:
                holder["turn"] += more

    return each(entries, change)


def told_by_its_events(name: str, entries: list[Entry]) -> list[Entry]:
    """What a turn that runs has come to is told by its events, and not before them as well."""

    def change(frame: Frame) -> None:
        if frame.get("type") == "CONNECTED" and frame["status"] == "running":
            for key in ("server_newer", "session", "chat_items"):
                frame.pop(key, None)

    return each(entries, change)


def second_halves(name: str, entries: list[Entry]) -> list[Entry]:
    """Of a pair with one id, the second half is not said again to a client that has proved to have it."""
    if name != "rewind_to_shared_llm_id":
        return entries
    return [entry for entry in entries if not (isinstance(entry, Received) and _again(entry))]


def _again(entry: Received) -> bool:
    return entry.conn == "socket 2" and entry.frame["type"] == "llm_result"


def of_another(name: str, entries: list[Entry]) -> list[Entry]:
    """Who names a session that is somebody else's gets a new one under the same name."""
    if name != "reconnect_idle_merge":
        return entries
    made: list[Entry] = []
    for entry in entries:
        other = isinstance(entry, Received) and entry.conn == "socket 6"
        made += instead(entry, connected(str(_frame(entry)["session_id"]))) if other else [entry]
    return made


def limits_of_what_comes(name: str, entries: list[Entry]) -> list[Entry]:
    """Files are measured as they are, and not as they are written."""
    if name != "files_big":
        return entries
    first = [entry for entry in entries if isinstance(entry, Received) and entry.conn == "socket 1"]
    made = answered_by(
        entries, lambda sent: sent.kind == "INPUT" and sent.conn in ("socket 2", "socket 3"), lambda sent, had: []
    )
    found: list[Entry] = []
    for entry in made:
        found.append(entry)
        if isinstance(entry, Sent) and entry.kind == "INPUT" and entry.conn in ("socket 2", "socket 3"):
            joined = next(_frame(one) for one in made if isinstance(one, Received) and one.conn == entry.conn)
            found += [_moved(one, entry.conn, joined["session_id"]) for one in first[1:]]

    def change(frame: Frame) -> None:
        if str(frame.get("message", "")).startswith("File too large"):
            frame["message"] = "File too large: big.txt (11.4MB, max: 10MB). Increase max_file_size in host.yaml"

    return each(found, change)


def files_that_are_none(name: str, entries: list[Entry]) -> list[Entry]:
    """What is no file, or no base64, is refused."""
    if name != "files_errors":
        return entries
    names = dict(zip(sockets(entries), ("11files", "noname", "badb64", "emptyname", "dotdot", "notlist"), strict=True))
    bad = ("noname", "badb64", "notlist")
    return answered_by(
        entries,
        lambda sent: sent.kind == "INPUT" and names[sent.conn] in bad,
        lambda sent, had: [error()],
    )


def names_of_files(name: str, entries: list[Entry]) -> list[Entry]:
    """A file without a name gets one."""
    if name != "files_errors":
        return entries

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(item) for item in value]
        if not isinstance(value, dict):
            return value
        made = {key: change(item) for key, item in value.items()}
        if made.get("name") in (PREFIX, f"{PREFIX}.."):
            return {"name": f"{PREFIX}{ANYTHING}", "path": f".co/uploads/{PREFIX}{ANYTHING}"}
        return made

    return [replace(entry, frame=change(entry.frame)) if isinstance(entry, Received) else entry for entry in entries]


def files_of_interjections(name: str, entries: list[Entry]) -> list[Entry]:
    """Files and pictures that come while a turn runs are kept, too."""
    if name != "runtime_input_with_files":
        return entries
    made: list[Entry] = []
    event: Frame = {}
    for entry in entries:
        made.append(entry)
        if isinstance(entry, Received) and entry.frame.get("runtime_input"):
            file = {"name": f"{PREFIX}a.txt", "path": f".co/uploads/{PREFIX}a.txt"}
            told = {key: entry.frame[key] for key in ("turn", "ts")}
            event = {"type": "files_received", "id": "<new files>", "files": [file], **told}
            made.append(Received(entry.conn, {**event, "session_id": entry.frame["session_id"]}, entry.at))

    def change(frame: Frame) -> None:
        if frame["type"] != "OUTPUT":
            return
        trace, items = frame["session"]["trace"], frame["chat_items"]
        at = next(at for at, one in enumerate(trace) if one.get("runtime_input"))
        trace.insert(at + 1, dict(event))
        said = next(place for place, item in enumerate(items) if item.get("content") == trace[at]["content"])
        items.insert(said + 1, {"id": f"files-{at + 1}", "type": "files_received", "files": event["files"]})
        for holder in (frame, frame["session"], frame["session"]["messages"][-1], items[-1]):
            key = "result" if "result" in holder else "content"
            holder[key] = f"{holder[key]}{ANYTHING}"

    return each(made, change)


def unsigned_requests(name: str, entries: list[Entry]) -> list[Entry]:
    """Over HTTP as over sockets: when open nobody need sign, and what was signed is its owner's only."""
    if name != "http_open":
        return entries
    made: list[Entry] = []
    for entry in entries:
        asked = made[-1] if made else None
        if isinstance(entry, Answered) and isinstance(asked, Asked):
            entry = _unsigned(asked, entry)  # noqa: PLW2901
        made.append(entry)
    return made


def _unsigned(asked: Asked, answer: Answered) -> Answered:
    if asked.method == "GET" and asked.path.startswith("/sessions/"):
        return replace(answer, status=404, body={"error": "not found"})
    if asked.path != "/input" or answer.body != {"error": "unauthorized: signed request required"}:
        return answer
    if asked.body == "":
        return replace(answer, status=400, body={"error": "prompt required"})
    assert isinstance(asked.body, dict)
    talk = Talk([], "")
    output = talk.echo(asked.body["prompt"])[-1]
    told = {key: value for key, value in output.items() if key != "type"}
    return replace(answer, status=200, body={**told, "status": "done", "server_newer": False})


def other_paths(name: str, entries: list[Entry]) -> list[Entry]:
    """Where there is no socket, nothing is found: as everywhere on this server."""
    return [replace(entry, status=404) if isinstance(entry, Refused) else entry for entry in entries]


def http_as_it_is_here(name: str, entries: list[Entry]) -> list[Entry]:
    """What HTTP says of our server: a page of another origin reads it only if it was named."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Answered):
            headers = {key: value for key, value in entry.headers.items() if not key.startswith("access-control")}
            entry = replace(entry, headers=headers, body=_as_here(entry.body))  # noqa: PLW2901
        made.append(entry)
    return made


def _as_here(body: Any) -> Any:
    """A body as our server has it: its own version, and no word of what sessions there may be."""
    if not isinstance(body, dict):
        return body
    made = dict(body)
    if "uptime" in made:
        made["uptime"] = ANYTHING
    if "accepted_inputs" in made:
        made.update(version=ANYTHING, model=ANYTHING, tools=ANYTHING)
        made["trust"] = made["trust"] if made["trust"] in ("open", "strict") else "custom"
    if "onboard" in made:
        made["onboard"] = {"invite_code": True, "payment": None}
    return made


def _told_all(entries: Sequence[Entry], conn: str, as_on: str) -> list[Entry]:
    """What a socket is told when it connects is what another was told."""
    told = next(entry.frame for entry in entries if isinstance(entry, Received) and entry.conn == as_on)
    made: list[Entry] = []
    for entry in entries:
        here = isinstance(entry, Received) and entry.conn == conn
        made += instead(entry, copy.deepcopy(told)) if here else [entry]
    return made


def _moved(entry: Received, conn: str, session: str) -> Received:
    """A message as it is said on another socket, of another session."""
    was = entry.frame["session_id"]

    def change(value: Any) -> Any:
        if isinstance(value, str):
            named = value.replace(was, session)
            return f"{named[:-1]} on {conn}>" if named.startswith("<id ") else named
        if isinstance(value, list):
            return [change(item) for item in value]
        return {key: change(item) for key, item in value.items()} if isinstance(value, dict) else value

    return Received(conn, change(entry.frame), entry.at)


def _frame(entry: Entry) -> Frame:
    assert isinstance(entry, Received)
    return entry.frame


def _prompt(sent: Sent) -> str:
    assert isinstance(sent.message, dict)
    return str(sent.message["prompt"])
