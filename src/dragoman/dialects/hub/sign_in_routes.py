"""The routes of signing in to providers."""

from __future__ import annotations

import msgspec

from dragoman.hub.providers import AuthChallenge, AuthResult

from . import bodies
from .replies import AuthMethods
from .route import Call, Route, on


async def _auth_methods(call: Call) -> msgspec.Struct:
    return await call.commands.providers.auth_methods(call.principal)


async def _begin_sign_in(call: Call) -> msgspec.Struct:
    return await call.commands.providers.begin_sign_in(call.principal, call.path["provider"], call.body.method)


async def _finish_sign_in(call: Call) -> msgspec.Struct:
    """What the program says goes nowhere: there is nobody to tell before the answer."""
    body: bodies.SignInEndBody = call.body
    provider = call.path["provider"]
    return await call.commands.providers.finish_sign_in(
        call.principal, provider, body.method, body.code, lambda _line: None
    )


SIGN_IN_ROUTES: tuple[Route, ...] = (
    on("GET", "/providers/auth", "How they can be signed in to", _auth_methods, AuthMethods),
    on(
        "POST",
        "/providers/{provider}/sign-in",
        "What is to be done to sign in",
        _begin_sign_in,
        AuthChallenge,
        body=bodies.SignInBody,
    ),
    on(
        "POST",
        "/providers/{provider}/sign-in/end",
        "Sign in there",
        _finish_sign_in,
        AuthResult,
        body=bodies.SignInEndBody,
    ),
)
"""Below the dialect's root, as the others."""
