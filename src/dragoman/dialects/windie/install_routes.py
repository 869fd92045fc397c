"""Registering an install, and what a token says of who shows it (seed: "install register"; spec §1, §2)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.requests import Request

from dragoman.services.installs import InstallsUnavailable, InvalidInstall, TooManyInstalls, TooOften

from .fields import Shape, Text
from .host import Host
from .http_auth import REGISTER, authorise_registration
from .http_reading import invalid
from .route import Call, Problem, Route

ME = "/api/install/me"

UNAVAILABLE = "Install auth service not available"

NO_INSTALL = "No install bearer token was shown"
"""Said where none must be: there is nobody to speak of."""

SYSTEM_SENT = 1024
"""Characters of an operating system's name that are read at all; how many are kept is a setting of installs."""


class RegisterBody(Shape, frozen=True, kw_only=True):
    """What a client may say of itself."""

    operating_system: Annotated[str, Text(most=SYSTEM_SENT)] | None = None


class RegisteredInstall(msgspec.Struct, frozen=True):
    """The only time that the token is told."""

    success: bool
    user_id: str
    install_id: str
    install_token: str


class KnownInstall(msgspec.Struct, frozen=True):
    """Whose token it is."""

    success: bool
    user_id: str
    install_id: str


def may_register(host: Host, request: Request) -> None:
    """Raises ``Problem`` (401) for who does not show the server's token, where it has one."""
    denied = authorise_registration(host.access, request.scope["headers"], request.query_params.get("token"))
    if denied is not None:
        raise Problem(denied.status, msgspec.json.decode(denied.body)["detail"])


async def register(call: Call) -> RegisteredInstall:
    """A new user and its install."""
    client = call.request.client
    try:
        made = await call.host.installs.register(call.body.operating_system, peer=client.host if client else "")
    except InvalidInstall as problem:
        raise invalid(["body", "operating_system"], str(problem)) from None
    except TooOften as problem:
        raise Problem(429, str(problem), headers={"retry-after": str(problem.seconds)}) from None
    except TooManyInstalls as problem:
        raise Problem(503, str(problem)) from None
    except InstallsUnavailable:
        raise Problem(503, UNAVAILABLE) from None
    return RegisteredInstall(True, made.user_id, made.install_id, made.token)


async def me(call: Call) -> KnownInstall:
    """Who the token belongs to."""
    return KnownInstall(True, call.caller.user_id, _install_id(call))


async def forget_me(call: Call) -> KnownInstall:
    """Beyond the contract: an install that goes away says so, and its token is nobody's. Its open links end."""
    install_id = _install_id(call)
    try:
        await call.host.installs.revoke(install_id)
    except InstallsUnavailable:
        raise Problem(503, UNAVAILABLE) from None
    finally:
        # Whatever the disk did: from now on this server does not know the token.
        call.host.revoked(install_id)
    return KnownInstall(True, call.caller.user_id, install_id)


def _install_id(call: Call) -> str:
    """Raises ``Problem`` (401) where the caller is no install."""
    if call.caller.install_id is None:
        raise Problem(401, NO_INSTALL)
    return call.caller.install_id


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=REGISTER,
        summary="Register an install: a new user, and the token that it is known by",
        handler=register,
        body=RegisterBody,
        answer=RegisteredInstall,
        guards=(may_register,),
        refusals={
            401: "The server's token is wanted",
            429: "Too many registrations from this network; Retry-After says for how long",
            503: "No more installs are kept, or none can be now",
        },
    ),
    Route(
        method="GET",
        path=ME,
        summary="Whose token this is",
        handler=me,
        answer=KnownInstall,
    ),
    Route(
        method="DELETE",
        path=ME,
        summary="Revoke the token that is shown",
        handler=forget_me,
        answer=KnownInstall,
    ),
)
