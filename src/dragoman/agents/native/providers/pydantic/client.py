"""The client behind the adapter: model calls through the library. Import it late, in a thread."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.native_tools import AbstractNativeTool, WebSearchTool
from pydantic_ai.tools import ToolDefinition

from dragoman.agents.native.providers.conversation import ModelRequest
from dragoman.agents.native.providers.http import LONGEST_ANSWER, LONGEST_ERROR
from dragoman.agents.native.providers.port import ProviderFailed, StreamEvent
from dragoman.agents.native.providers.secret import Secret
from dragoman.agents.native.providers.sse import LONGEST_EVENT
from dragoman.agents.native.settings import NativeSettings

from .cleaning import Cleaner
from .endings import ending, is_paused, resumed, spent
from .events import Translation
from .failures import failure
from .messages import History
from .models import Models

if TYPE_CHECKING:
    from .api import Api

warnings.filterwarnings("ignore", module=r"pydantic_ai(\.|$)")  # its hints are for who writes against it


class Client:
    """Connections to one provider."""

    def __init__(self, name: str, api: Api, key: str | None, base_url: str, settings: NativeSettings) -> None:
        self._name = name
        self._api = api
        self._key = key
        self._http = _http(settings)
        self._cleaner = Cleaner(Secret(key))
        self._models = Models(api, key or "none", base_url, self._http, settings)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """One model call. Raises ``ProviderFailed``."""
        try:
            async with aclosing(self._segments(request)) as events:
                async for event in events:
                    yield self._cleaner.event(event)
        except Exception as error:  # noqa: BLE001 - whatever the vendors' packages raise is a failed call
            raise failure(error, self._name, self._key) from None

    async def close(self) -> None:
        """Give up the connections."""
        await self._http.aclose()

    async def _segments(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """One answer, in as many HTTP calls as it takes: a provider may pause while it uses tools of its own."""
        model = self._models.model(request.model)
        asked = History(self._name, model.system).messages(request.messages)
        paused: list[ModelResponse] = []
        taken: set[str] = set()
        while True:
            call = model_request_stream(
                model,
                [*asked, *resumed(paused)],
                model_settings=self._models.settings(model, request),
                model_request_parameters=self._parameters(request),
                instrument=False,
            )
            async with _opened(call) as response:
                translation = Translation(
                    response, segment=len(paused), calls_overlap=self._api == "openai-chat", taken=taken
                )
                async with aclosing(_translated(response, translation)) as events:
                    async for event in events:
                        yield event
                said = response.get()
            finished = None if is_paused(said, len(paused)) else ending(said, self._name)
            for event in translation.rest():
                yield event
            if finished is not None:
                break
            paused.append(said)
        yield spent(*paused, said)
        yield finished

    def _parameters(self, request: ModelRequest) -> ModelRequestParameters:
        tools = [
            ToolDefinition(name=it.name, description=it.description, parameters_json_schema=it.schema, strict=False)
            for it in request.tools
        ]
        system = [InstructionPart(content=request.system)] if request.system.strip() else []
        search: list[AbstractNativeTool] = (
            [WebSearchTool()] if request.web_search and self._models.can_search(request) else []
        )
        return ModelRequestParameters(function_tools=tools, native_tools=search, instruction_parts=system)


async def _translated(response: StreamedResponse, translation: Translation) -> AsyncGenerator[StreamEvent, None]:
    # What the library calls an iterator is a generator, which is to be closed before its connection is.
    events = cast("AsyncGenerator[ModelResponseStreamEvent, None]", aiter(response))
    async with aclosing(events):
        async for event in events:
            for translated in translation.of(event):
                yield translated


_ANSWERS: ContextVar[list[httpx2.Response] | None] = ContextVar("_ANSWERS", default=None)
"""Where the call that is being opened wants its HTTP answers noted."""


@asynccontextmanager
async def _opened(call: AbstractAsyncContextManager[StreamedResponse]) -> AsyncGenerator[StreamedResponse, None]:
    """A call that ends with its HTTP connection: not every vendor's package closes an answer that it did not finish."""
    answers: list[httpx2.Response] = []
    async with AsyncExitStack() as stack:
        token = _ANSWERS.set(answers)
        try:
            response = await stack.enter_async_context(call)
        finally:
            _ANSWERS.reset(token)
            for answer in answers:
                stack.push_async_callback(answer.aclose)
        yield response


async def _note(answer: httpx2.Response) -> None:
    if (answers := _ANSWERS.get()) is not None:
        answers.append(answer)


async def _bound(answer: httpx2.Response) -> None:
    """Limit what is read of an answer, before a vendor's package reads all there is."""
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        await answer.aclose()
        raise httpx2.DecodingError("the answer is compressed, which was not asked for", request=answer.request)
    assert isinstance(answer.stream, httpx2.AsyncByteStream)
    answer.stream = _Bounded(answer.stream, failed=not answer.is_success)


class _Bounded(httpx2.AsyncByteStream):
    """A body, up to our limits: an error's ends there, an answer's raises ``ProviderFailed``."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, failed: bool) -> None:
        self._stream = stream
        self._failed = failed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = line = 0
        async for chunk in self._stream:
            came += len(chunk)
            line = len(chunk) - chunk.rfind(b"\n") - 1 if b"\n" in chunk else line + len(chunk)
            if self._failed and came > LONGEST_ERROR:
                return
            if came > LONGEST_ANSWER:
                raise ProviderFailed(f"the provider sent an answer of more than {LONGEST_ANSWER} bytes")
            if line > LONGEST_EVENT:
                raise ProviderFailed(f"the provider sent an event of more than {LONGEST_EVENT} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _http(settings: NativeSettings) -> httpx2.AsyncClient:
    """An HTTP client with our limits, whatever a vendor's package asks for with a request."""
    connect, silence = settings.connect_seconds, settings.silence_seconds
    limits = {"connect": connect, "pool": connect, "read": silence, "write": silence}

    async def limit(request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "timeout": limits}

    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"},  # what is unpacked has no limit
        timeout=httpx2.Timeout(**limits),
        event_hooks={"request": [limit], "response": [_note, _bound]},
    )
