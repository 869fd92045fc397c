"""`dragoman serve` as a process in front of which the clients stand, and the model that its agents ask."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import re
from pathlib import Path
from typing import Any

from tests.agents.native.model_server import ModelServer
from tests.agents.native.model_server.script import Answer
from tests.faults.process import LIMIT, Message, Served

CODE = "open-sesame"
"""What lets a stranger in where there is a gate."""

CONFIG = """
[native]
provider = "house"
local_servers = []
[native.turn]
retry_first = 0.01
[native.delegates]
claude = "no-claude-here"
codex = "no-codex-here"
[native.providers.house]
api = "openai-chat"
base_url = "{url}"
models = ["scripted-1"]
"""

POLICY = f"""---
allow: [whitelisted, contact]
deny: [blocked]
onboard:
  invite_code: [{CODE}]
default: ask
---
Let those in who have the code.
"""


class Host(Served):
    """A server whose sessions work in ``work``. ``gate``: with a trust gate; ``root``: the dialect is at ``/``, too;
    ``plain``: nobody has set anything, and it has no key of any model provider."""

    def __init__(
        self, folder: Path, model: ModelServer, *, gate: bool = False, root: bool = False, plain: bool = False
    ) -> None:
        self.model = model
        self.work, home = folder / "work", folder / "home"
        home.mkdir(parents=True)
        settings = folder / "config.toml"
        text = "" if plain else CONFIG.format(url=model.base_url("openai-chat"))
        if gate:
            policy = folder / "policy.md"
            policy.write_text(POLICY)
            text += f"[trust]\npolicy = {json.dumps(str(policy))}\n"
        settings.write_text(text)
        flags = ["--data", str(folder / "data"), "--config", str(settings)]
        flags += ["--dialect", "onion"] if root else []
        env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_STATE_HOME": str(home / ".state")}
        super().__init__(self.work, *flags, env=env)
        # Where the clients are cached is no setting of the server's, and this machine's keys are nobody's business.
        private = re.compile("DRAGOMAN_.*|.*_API_KEY")
        self._env = {name: value for name, value in self._env.items() if not private.fullmatch(name)}
        self.log = folder / "log"
        self.lists = home / ".config" / "dragoman" / "trust"
        self._prefix = "" if root else "/onion"
        self.address = ""

    async def start(self) -> None:
        """Start it, and learn who it is."""
        await super().start()
        self.address = (await asyncio.to_thread(self.page, "/info"))["address"]

    @property
    def url(self) -> str:
        """Where its users are told to go."""
        return f"http://127.0.0.1:{self.ready['port']}{self._prefix}"

    @property
    def relay(self) -> str:
        """The same, as a client has its relay."""
        return self.url.replace("http:", "ws:")

    def page(self, path: str) -> Any:
        """A page of the dialect."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=LIMIT)
        try:
            connection.request("GET", f"{self._prefix}{path}")
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, (path, answer.status, data[:300])
            return json.loads(data)
        finally:
            connection.close()

    async def sessions(self) -> list[Message]:
        """Rows of all sessions."""
        rows: list[Message] = (await self.asked("GET", "/sessions"))["sessions"]
        return rows

    async def conversation(self, prompt: str) -> Conversation:
        """The session in which this was said, once it is there."""
        async with asyncio.timeout(LIMIT):
            while True:
                for row in await self.sessions():
                    events = await self.whole_log(row["session"])
                    if any(prompt in str(event["fact"].get("text")) for event in events):
                        return Conversation(self, row["session"])
                await asyncio.sleep(0.02)


class Conversation:
    """One session of the host, by its log."""

    def __init__(self, host: Host, session: str) -> None:
        self.host = host
        self.session = session

    async def facts(self, kind: str, **fields: Any) -> list[Message]:
        """The facts of a type with these fields."""
        events = [event["fact"] for event in await self.host.whole_log(self.session)]
        return [it for it in events if it["type"] == kind and all(it.get(key) == fields[key] for key in fields)]

    async def has(self, kind: str, count: int = 1, **fields: Any) -> list[Message]:
        """Wait until there are so many of them."""
        async with asyncio.timeout(LIMIT):
            while len(found := await self.facts(kind, **fields)) < count:
                await asyncio.sleep(0.02)
        return found

    async def answer(self, decision: str, given: Message) -> None:
        """Answer a decision as somebody with a client of another dialect."""
        await self.host.asked("POST", f"/sessions/{self.session}/decisions/{decision}", {"answer": given})

    async def texts(self) -> list[str]:
        """What the model said, each answer of a turn's end."""
        return [str(fact["result"]) for fact in await self.facts("turn.ended")]


class Stage:
    """A host and its model, and names for what the model is to say."""

    _names = itertools.count(1)

    def __init__(self, host: Host) -> None:
        self.host = host
        self.model = host.model

    def prompt(self, text: str, *answers: Answer) -> str:
        """A prompt that has the model give these answers, one a step."""
        name = f"play-{next(self._names)}"
        self.model.named[name] = answers
        return f"{text} [[script:{name}]]"

    async def reached(self, gate: str) -> None:
        """Wait until the model is at a gate of its answer."""
        async with asyncio.timeout(LIMIT):
            await self.model.gates[gate].reached.wait()

    def open(self, gate: str) -> None:
        """Let it go on."""
        self.model.gates[gate].open()

    def heard(self, prompt: str) -> list[Any]:
        """What the model was asked in turns whose newest words hold this, oldest first."""
        return [it.asked for it in self.model.journal if it.heard is not None and prompt in it.asked.newest_text]
