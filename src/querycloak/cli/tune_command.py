"""`querycloak tune`: yield against the bound."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import generated_options, options
from querycloak.methods.method import Method
from querycloak.methods.option import current_options

if TYPE_CHECKING:
    from querycloak.comparison.bound_yields import BoundYield
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.method import KeysMethod

LEAKS = (
    "PRIVATE OUTPUT: yields on this log. Of a private log, a bound chosen by them\n"
    "reveals something that no budget covers: use --max-keys-per-user auto instead.\n"
    "If the log is public or made up, say --public."
)
_BAR = 12


def tune(
    method: Method,
    log: options.Logs,
    *,
    public: Annotated[
        bool, typer.Option("--public", help="State that the log is public or invented, so its figures may be shown.")
    ] = False,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show the yield of each bound, on a public log."""
    from querycloak.comparison.bound_yields import tunable

    bounded = tunable(method)
    with reading.open(log, quiet=quiet or as_json) as opened:
        show_yields(bounded, opened, public=public, as_json=as_json)


def show_yields(method: KeysMethod, log: SearchLog, *, public: bool, as_json: bool) -> None:
    """Print a table with a bar for each bound."""
    from querycloak.comparison.bound_yields import yields

    if as_json:
        rows = [each.to_json() for each in yields(method, log)]
        json.dump({"private": not public, "method": method.name, "yields": rows}, sys.stdout)
        sys.stdout.write("\n")
        return
    if not public:
        sys.stdout.write(f"{LEAKS}\n\n")
    listed = list(yields(method, log))
    most = max((each.keys for each in listed), default=0)
    lines = ["per user  selection     threshold      keys      volume  covered"]
    lines += [_line(method, each, most) for each in listed]
    if listed and most:
        best = max(listed, key=lambda each: each.keys)
        lines += ["", f"most keys at --max-keys-per-user {best.bound}", "each line is one draw, so close ones may swap"]
        lines += ["covered: share of the log's pairs of user and key whose key came out"]
    elif listed:
        lines += ["", "nothing passed the threshold at any bound: the log is small for this budget"]
    sys.stdout.write("\n".join(lines) + "\n")


def _line(method: KeysMethod, row: BoundYield, most: int) -> str:
    bar = "█" * round(_BAR * row.keys / most) if most else ""
    parameters = current_options(type(method), row.parameters)
    selection, threshold = parameters.get("selection", ""), parameters.get("threshold", 0)
    covered = "-" if row.covered is None else f"{row.covered:.1%}"
    figures = f"{threshold:>11.4g} {row.keys:>9,} {row.volume:>11,} {covered:>8}"
    return f"{row.bound:>8}  {selection:<11} {figures}  {bar}".rstrip()
