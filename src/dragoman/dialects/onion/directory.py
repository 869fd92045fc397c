"""Who is here and where: ``/health``, ``/info``, and the directory entry that clients ask a relay for (spec §10, §11).

With the last one this server is its own relay: a client that is given nothing but its address finds the rest.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.responses import Response

from dragoman.services.identity import address_of
from dragoman.services.observability.version import running_version

from .http_call import NOT_FOUND, Call, Problem, as_json

PREFIX = "/api/agents/"


async def health(call: Call) -> Response:
    """A sign of life. ``uptime`` is in whole seconds."""
    host = call.host
    uptime = int(host.clock.monotonic() - host.started)
    return as_json({"status": "healthy", "agent": host.settings.name, "uptime": uptime})


async def info(call: Call) -> Response:
    """What clients compare and show before they connect: above all ``address``, which is to be the one they dialled."""
    host, limits = call.host, call.host.uploads
    about = await host.about()
    found: dict[str, object] = {
        "name": host.settings.name,
        "address": host.address,
        "tools": about.tools,
        "model": about.model,
        "trust": host.trust.name,
        "version": running_version(),
        "skills": about.skills,
        "accepted_inputs": {
            "text": True,
            "images": True,
            "files": {
                "max_file_size_mb": _plain(limits.max_file_size),
                "max_files_per_request": limits.max_files_per_request,
            },
        },
    }
    # Only what can let somebody in: a door that is painted on is worse than none.
    doors = host.trust.onboarding()
    if doors is not None:
        found["onboard"] = {"invite_code": "invite_code" in doors.methods, "payment": doors.payment_amount}
    return as_json(found)


async def agent(call: Call) -> Response:
    """The entry of this server's own agent, at the address by which the client reached it; there is no other."""
    host = call.host
    if address_of(call.path.removeprefix(PREFIX)) != host.address:
        raise Problem(404, NOT_FOUND)
    place = _reached(call) + call.root
    about = await host.about()
    return as_json(
        {
            "online": True,
            "endpoints": (f"http://{place}", f"ws://{place}/ws"),
            "last_seen": host.clock.now() / 1000,
            "profile": {
                "alias": host.settings.name,
                "model": about.model,
                "tools": about.tools,
                "skills": about.skills,
            },
        }
    )


def _reached(call: Call) -> str:
    """The name and port in the Host header, which the server let pass, and nothing else of it."""
    parts = urlsplit(f"//{call.headers.get('host', '')}")
    name = parts.hostname or ""
    try:
        port = parts.port
    except ValueError:
        port = None
    name = f"[{name}]" if ":" in name else name
    return name if port is None else f"{name}:{port}"


def _plain(megabytes: float) -> float | int:
    return int(megabytes) if megabytes == int(megabytes) else megabytes
