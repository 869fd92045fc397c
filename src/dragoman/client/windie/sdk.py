"""The way in: a server, who asks, and agents that are woken up there (seed: SDK)."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dragoman.client.reconnecting import Sleep

from .addresses import resolved
from .agent import Agent
from .connection import WindieOptions
from .definition import Definition
from .http import Fetched, WindieHttp
from .mcp import McpServer, McpServers, server_of
from .requests import Message
from .tools import Tool, Toolbox, tool_of


class AgentSdkClient:
    """One server. ``backend_url`` is its HTTP root (``https://api.windieos.com``), ``ws_url`` its socket where that is
    elsewhere; without either the environment says it: ``BACKEND_WS_URL``, ``BACKEND_HTTP_URL``, ``BACKEND_HOST`` with
    ``BACKEND_PORT``.

    ``default_user_id`` is who asks where nothing else is said; a server with install tokens goes by ``install_token``
    alone. ``sleep`` is how it waits between two attempts to connect.
    """

    def __init__(
        self,
        backend_url: str | None = None,
        default_user_id: str | None = None,
        *,
        ws_url: str | None = None,
        install_token: str | None = None,
        options: WindieOptions | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.options = options or WindieOptions()
        self.addresses = resolved(backend_url, ws_url, os.environ)
        self.default_user_id = default_user_id
        self._sleep = sleep
        self._http = WindieHttp(self.addresses.http, install_token, self.options.answer_limit)

    # Who we are

    async def register(self, operating_system: str | None = None) -> Message:
        """Register this installation: ``user_id``, ``install_id``, ``install_token``, which is used from now on.

        The server says the token this once; keep it. Raises ``Refused``, ``ConnectionLost``, as all HTTP does here.
        """
        body = {} if operating_system is None else {"operating_system": operating_system}
        answer = await self._http.post("/api/install/register", body)
        self._http.token = answer.get("install_token")
        self.default_user_id = answer.get("user_id") or self.default_user_id
        return answer

    # What the server would do

    async def get_system_prompt(self, **query: Any) -> Message:
        """The system prompt, with the ``config`` it was made for. ``query``: ``user_id``, ``model_id``,
        ``model_provider``, ``interaction_mode``."""
        return await self._http.get("/api/sdk/system-prompt", query)

    async def get_tool_schemas(self, **query: Any) -> Message:
        """``canonical_tool_schemas`` and ``provider_tool_schemas``. ``query`` as for the system prompt."""
        return await self._http.get("/api/sdk/tool-schemas", query)

    async def get_models(self, **query: Any) -> Message:
        """``models``, with the ``config``. ``query`` as for the system prompt."""
        return await self._http.get("/api/sdk/models", query)

    async def get_tool_capability(self, name: str, **query: Any) -> Message:
        """What the server knows of one tool. ``query`` as for the system prompt."""
        return await self._http.get(f"/api/sdk/tool-capabilities/{quote(name, safe='')}", query)

    async def get_prompt_preview(self, request: Mapping[str, Any]) -> Message:
        """What a model would read, without asking it. Keys as on the wire."""
        return await self._http.post("/api/sdk/prompt-preview", dict(request))

    async def get_query_plan(self, request: Mapping[str, Any]) -> Message:
        """What a first query and its events would be, without asking. Keys as on the wire."""
        return await self._http.post("/api/sdk/query-plan", dict(request))

    # Files

    async def upload_artifact(self, file: str | Path | bytes, *, filename: str | None = None) -> Message:
        """Upload a file, or bytes with a name; returns ``artifact_id``, ``content_type``, ``size_bytes``,
        ``sha256`` and ``url``."""
        if isinstance(file, bytes):
            data, name = file, filename or "upload"
        else:
            path = Path(file)
            data, name = await asyncio.to_thread(path.read_bytes), filename or path.name
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return await self._http.upload("/api/artifacts/", name, kind, data)

    async def fetch_artifact(self, artifact_id: str) -> Fetched:
        """A file by its id."""
        return await self._http.fetch(f"/api/artifacts/{quote(artifact_id, safe='')}")

    # Agents

    async def wake_up(
        self,
        *,
        user_id: str | None = None,
        tools: Iterable[Tool | Mapping[str, Any]] = (),
        mcp_servers: Iterable[McpServer | Mapping[str, Any]] = (),
        **definition: Any,
    ) -> Agent:
        """Connect as an agent that is defined like this, and return it once the server took it; close it at last.

        ``tools`` run in this process: a ``Tool``, or ``{name, description, schema, module or handler, timeout}``.
        ``mcp_servers`` are programs that are run here: a ``McpServer``, or ``{name, command, args, env, cwd}``.
        ``definition`` are the fields of ``Definition``: ``system_prompt``, ``workspace_path``, ``plugins``,
        ``disabled_tools``... A plugin's ``tools`` are tools of this process. Raises ``ToolNotUsable``,
        ``McpUnavailable``, ``ValueError`` without any user id, and as ``Agent.start``.
        """
        user = user_id or self.default_user_id
        if not user:
            raise ValueError("an agent needs a user_id, or the client a default_user_id")
        defined = Definition(**definition)
        toolbox = Toolbox(self.options.tool_limit)
        for given in (*tools, *defined.client_tools()):
            toolbox.add(tool_of(given))
        servers = McpServers([server_of(given) for given in mcp_servers])
        try:
            for tool in await servers.start():
                toolbox.add(tool)
            agent = self._agent(user, defined, toolbox, servers)
            await agent.start()
        except BaseException:
            await servers.stop()
            raise
        return agent

    def _agent(self, user: str, defined: Definition, toolbox: Toolbox, servers: McpServers) -> Agent:
        definition = defined.encoded(toolbox.manifest())
        return Agent(
            self.addresses.socket,
            {"type": "handshake", "user_id": user, "agent_definition": definition},
            toolbox=toolbox,
            servers=servers,
            token=self._http.token,
            options=self.options,
            sleep=self._sleep,
        )
