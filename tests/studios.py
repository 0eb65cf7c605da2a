"""A studio that answers, for tests: on a free port of this machine, in a thread, stopped at the end."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from querycloak.studio.app import TOKEN_HEADER, studio_server
from querycloak.studio.studio import Studio

TOKEN = "0123456789abcdef"


@dataclass(frozen=True)
class Running:
    """A studio that answers at an address."""

    studio: Studio
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"

    @property
    def cookie(self) -> str:
        return f"querycloak-studio-{self.port}={TOKEN}"

    def ask(
        self, path: str = "/", headers: Mapping[str, str] | None = None, posted: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and text of an answer; `posted`: fields of a form."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            body = None if posted is None else urlencode(posted)
            connection.request("GET" if posted is None else "POST", path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()

    def page_token(self) -> str:
        """The token that stands in the page."""
        text = self.ask("/", {"cookie": self.cookie})[2]
        return text.partition('name="studio-token" content="')[2].partition('"')[0]

    def post(self, path: str, **posted: str) -> str:
        """The page after a form was sent as the page itself sends it."""
        status, _, text = self.ask(path, {"cookie": self.cookie, TOKEN_HEADER: self.page_token()}, posted)
        assert status == 200
        return text


@contextmanager
def running(studio: Studio) -> Iterator[Running]:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        server = studio_server(studio, TOKEN, port)
        place.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            yield Running(studio, port)
        finally:
            server.should_exit = True
            thread.join(10)
