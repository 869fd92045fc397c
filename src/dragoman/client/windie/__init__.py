"""A client of WindieOS' protocol: agents that run on a server and call functions of this process.

    sdk = AgentSdkClient(backend_url="http://127.0.0.1:8765", default_user_id="dev-user")
    async with await sdk.wake_up(tools=[{"name": "save_note", "module": "my_project.tools:save_note"}]) as agent:
        print(await agent.ask("Keep this in mind: milk", conversation_ref="conv_1"))

WebSocket by ``websockets``, HTTP and JSON by the standard library; nothing of the server is imported.
"""

from dragoman.client.errors import ClientClosed, ClientError, ConnectionLost, Denied, Refused, TurnFailed

from .addresses import Addresses
from .agent import RECONNECTED, Agent
from .connection import WindieOptions
from .definition import Definition
from .errors import EventsMissed, McpUnavailable, OutOfSequence, ReconnectFailed, ToolNotUsable, TurnStopped
from .http import Fetched
from .mcp import McpServer
from .sdk import AgentSdkClient
from .tools import Tool
from .turn import Turn

__all__ = [
    "RECONNECTED",
    "Addresses",
    "Agent",
    "AgentSdkClient",
    "ClientClosed",
    "ClientError",
    "ConnectionLost",
    "Definition",
    "Denied",
    "EventsMissed",
    "Fetched",
    "McpServer",
    "McpUnavailable",
    "OutOfSequence",
    "ReconnectFailed",
    "Refused",
    "Tool",
    "ToolNotUsable",
    "Turn",
    "TurnFailed",
    "TurnStopped",
    "WindieOptions",
]
