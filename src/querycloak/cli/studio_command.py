"""`querycloak studio`: choose, see, release and sign in a browser on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.error_line import error_line
from querycloak.cli.inspect_command import figures_of
from querycloak.cli.signoff_command import opened_plan
from querycloak.errors import ResourceError
from querycloak.privacy.parameters import refuse

if TYPE_CHECKING:
    import socket

    from querycloak.logs.searchlog import OnStep
    from querycloak.signing.signoff import SignedOff
    from querycloak.studio.studio import Studio


def studio(
    port: Annotated[int | None, typer.Option(help="Port on this machine; a free one if not given.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Choose, see, release and sign in a browser on this machine."""
    from querycloak.extras import STUDIO, require

    require(STUDIO, "the studio")
    if port is not None and not 1 <= port <= 65_535:
        refuse("port", "between 1 and 65535", port, "leave it out for a free one")
    with _listening(port) as place:
        _serve(place, open_browser=not no_browser)


def new_studio() -> Studio:
    """A studio whose work is done by the functions of other commands, with the owner's ledger."""
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.studio.studio import Studio, StudioCommands

    return Studio(StudioCommands(_sign_off, _inspect, error_line), Ledger())


def _listening(port: int | None) -> socket.socket:
    """A socket that only this machine reaches."""
    import socket

    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind(("127.0.0.1", port or 0))
        return place
    except OSError:
        place.close()
    raise ResourceError(f"port {port} is taken or not allowed; name another, or leave it out for a free one")


def _serve(place: socket.socket, *, open_browser: bool) -> None:
    """Print the address and serve until the command is stopped; logs nothing."""
    import webbrowser

    from querycloak.privacy.sampling.randomness import random_name
    from querycloak.studio.app import studio_server

    port, token = place.getsockname()[1], random_name()
    address = f"http://127.0.0.1:{port}/?token={token}"
    server = studio_server(new_studio(), token, port)
    place.listen()  # so that the address answers from the moment it is printed
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    if open_browser:
        webbrowser.open(address)
    server.run(sockets=[place])


def _sign_off(log: str, plan: Path, out: Path, release: bool, on_step: OnStep) -> SignedOff:
    from querycloak.signing.signoff import signoff

    with opened_plan([log], plan, out, None) as opened:
        return signoff(
            opened.log, opened.plan, out, ledger=opened.ledger, truth=opened.truth, decide=lambda _: release,
            on_step=on_step,
        )  # fmt: skip


def _inspect(log: str, reading: Mapping[str, str], on_step: OnStep) -> Sequence[tuple[str, str]]:
    from querycloak.logs.profile import profile

    on_step("reading the log", 0.0)
    stated = options.Reading(log_format=reading.get("log_format"), columns=reading.get("columns"))
    with stated.open([log], quiet=True) as opened:
        return figures_of(opened, profile(opened))
