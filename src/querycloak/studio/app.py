"""The studio over HTTP, for one browser on the same machine: a guard before everything, then a few addresses.

Nothing that was typed or counted stands in an address, so that histories and logs hold none of it: what is typed is
posted, and an address names a part of the studio alone.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from querycloak.errors import QuerycloakError
from querycloak.pages import palette
from querycloak.pages.layout import POLICY, TEMPLATES, environment
from querycloak.privacy.sampling.randomness import random_name
from querycloak.studio.studio import Studio
from querycloak.studio.tradeoff_picture import shown_rows

HERE = Path(__file__).parent / "templates"
TOKEN_HEADER = "x-studio-token"
_MOST_BYTES = 1 << 17
_OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _OWN_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Lets a request through if it names this host and brings the token of the address; others get a plain 403.

    The token comes in the address once, and as a cookie from then on. A request that changes something also brings a
    second token, which stands in the page alone, so that no other page can send it.
    """

    def __init__(self, app: ASGIApp, token: str, page_token: str, port: int) -> None:
        self._app, self._token, self._page_token = app, token, page_token
        self._cookie = f"querycloak-studio-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        if (asked := self._refusal(request)) is not None:
            response: Response = PlainTextResponse(asked, 403, dict(_HEADERS))
            await response(scope, receive, send)
            return
        if scope["path"] == "/" and "token" in request.query_params:
            response = RedirectResponse("/", 303, dict(_HEADERS))
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            await response(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(self, request: Request) -> str | None:
        """Reason that a request is refused; None if it is not."""
        headers = request.headers
        if headers.get("host") not in self._hosts or not self._is_own(headers):
            return "This is not the address of the studio.\n"
        brought = request.cookies.get(self._cookie, "")
        if request.url.path == "/" and request.method == "GET":
            brought = request.query_params.get("token", brought)
        if not _same(brought, self._token):
            return "Open the address that `querycloak studio` printed.\n"
        if request.method not in ("GET", "HEAD") and not _same(headers.get(TOKEN_HEADER, ""), self._page_token):
            return "Open the studio again.\n"
        return None

    def _is_own(self, headers: Headers) -> bool:
        """True unless a browser says that a page of another site sent the request; following a link is allowed."""
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return False
        return headers.get("sec-fetch-site") != "cross-site" or headers.get("sec-fetch-mode") == "navigate"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def studio_app(studio: Studio, token: str, port: int) -> ASGIApp:
    """The application; `token` is in the address that its owner opens."""
    page_token = random_name()

    def screen(problem: str | None = None) -> Response:
        view = studio.view(problem)
        return HTMLResponse(_templates().get_template("studio.html").render(page_token=page_token, **view))

    async def show(_: Request) -> Response:
        return await run_in_threadpool(screen)

    def acting(act: Callable[[], None]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            posted = await _posted(request)
            return await run_in_threadpool(done, posted)

        def done(posted: Mapping[str, str]) -> Response:
            try:
                studio.take(posted)
                act()
            except QuerycloakError as error:
                return screen(studio.commands.in_words(error))
            return screen()

        return answer

    def page(request: Request) -> Response:
        text = studio.page(str(request.path_params["name"]))
        if text is None:
            return PlainTextResponse("There is no such page yet.\n", 404)
        return HTMLResponse(text, headers={"content-security-policy": f"{POLICY}; frame-ancestors 'none'"})

    routes = [
        Route("/", show),
        Route("/state", show),
        Route("/studio.css", lambda _: Response(_style(), media_type="text/css")),
        Route("/studio.js", lambda _: Response((HERE / "studio.js").read_text(), media_type="text/javascript")),
        Route("/pages/{name}", page),
        Route("/view", acting(lambda: None), methods=["POST"]),
        Route("/inspect", acting(studio.inspect), methods=["POST"]),
        Route("/budget", acting(studio.set_budget), methods=["POST"]),
        Route("/measure", acting(lambda: studio.sign_off(release=False)), methods=["POST"]),
        Route("/release", acting(lambda: studio.sign_off(release=True)), methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token, page_token, port)


def studio_server(studio: Studio, token: str, port: int) -> uvicorn.Server:
    """The server, without access log and without a header that names it."""
    config = uvicorn.Config(
        studio_app(studio, token, port), log_config=None, log_level="critical", access_log=False, server_header=False,
        lifespan="off", timeout_graceful_shutdown=1,
    )  # fmt: skip
    return uvicorn.Server(config)


async def _posted(request: Request) -> dict[str, str]:
    """Fields of a form, each once; what is too long is cut, and then lacks fields."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            break
    text = bytes(body[:_MOST_BYTES]).decode("utf-8", "replace")
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))


@cache
def _templates() -> Environment:
    """Templates of the studio; every value is escaped, and a missing name is an error."""
    made = Environment(
        loader=ChoiceLoader([FileSystemLoader(HERE), FileSystemLoader(TEMPLATES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= environment().filters
    made.globals["rows_text"] = shown_rows
    return made


@cache
def _style() -> str:
    colours = {"light": palette.variables(dark=False), "dark": palette.variables(dark=True)}
    return _templates().get_template("studio.css").render(**colours)
