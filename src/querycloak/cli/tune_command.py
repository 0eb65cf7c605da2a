"""`querycloak tune`: the yield of a method at each bound, for logs whose figures may be seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.terminal import print_json, print_lines
from querycloak.errors import ParameterError
from querycloak.methods.method import Method
from querycloak.methods.option import current_options
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.releases.release import Release


LEAKS = (
    "PRIVATE OUTPUT: yields on this log. Of a private log, a bound chosen by them\n"
    "reveals something that no budget covers: use --max-keys-per-user auto instead.\n"
    "If the log is public or synthetic, say --public."
)
_BAR = 12


def tune(
    method: Method,
    log: options.Logs,
    *,
    public: Annotated[
        bool, typer.Option("--public", help="State that the log is public or synthetic, so its figures may be shown.")
    ] = False,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show the yield of each bound, on a public log."""
    bounded = tunable(method)
    with reading.open(log, quiet=quiet or as_json) as opened:
        show_yields(bounded, opened, public=public, as_json=as_json)


@dataclass(frozen=True)
class BoundYield:
    """Rows released at one bound and the sum of their noisy counts (private, unless the log is public)."""

    bound: int
    parameters: dict[str, Any]
    keys: int
    volume: int
    covered: float | None = None
    """Covered volume (1 - missing mass): share of the pairs of user and key whose key came out; None if unknown."""

    def to_json(self) -> dict[str, Any]:
        """The values that `tune --json` prints."""
        shown = {name: self.parameters.get(name) for name in ("selection", "noise", "threshold")}
        return {"per_user": self.bound, **shown, "keys": self.keys, "volume": self.volume, "covered": self.covered}


def tunable(method: Method) -> KeysMethod:
    """The method; refused unless it has a bound that is still open."""
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.methods.keys.selection_plan import AUTO

    if not isinstance(method, KeysMethod) or method.variant == "paper":
        raise ParameterError(f"{method.name}, {method.variant} variant, has no bound to tune; clicks has one")
    if method.max_keys_per_user not in (None, AUTO):
        raise ParameterError(Sentence("tune tries every bound: leave {max_keys_per_user} out"))
    return method


def yields(method: KeysMethod, log: SearchLog) -> Iterator[BoundYield]:
    """One release at each bound that the budget can pay; nothing is charged and nothing is kept."""
    from querycloak.methods.keys.selection_plan import BOUNDS, Choice

    log.stage()
    for bound in BOUNDS:
        try:
            bounded = method.at_choice(Choice(bound))
        except ParameterError:
            continue
        release = bounded.release(log)
        tables = [release.table(kind) for kind in release.tables]
        counted = [table for table in tables if "count" in table.column_names]
        volume = sum(int(sum(table["count"].fill_null(1).to_pylist())) for table in counted)
        keys = sum(table.num_rows for table in tables)
        yield BoundYield(bound, dict(release.parameters), keys, volume, _covered(method, log, release))


def _covered(method: KeysMethod, log: SearchLog, release: Release) -> float | None:
    covered = whole = 0
    for kind, contributions in method.contributions(log).items():
        columns, released = list(method.keys[kind]), release.table(kind)
        if not set(columns) <= set(released.column_names):
            return None  # sequences are published in other columns
        pairs = contributions.select("user", *columns).distinct()
        out = pairs.semi_join(log.engine.upload(released.select(columns)), columns)
        whole += log.engine.fetch(pairs.aggregate(pairs=pairs.count()))["pairs"][0].as_py()
        covered += log.engine.fetch(out.aggregate(pairs=out.count()))["pairs"][0].as_py()
    return covered / whole if whole else None


def show_yields(method: KeysMethod, log: SearchLog, *, public: bool, as_json: bool) -> None:
    """Print a table with a bar for each bound."""
    if as_json:
        rows = [each.to_json() for each in yields(method, log)]
        print_json({"private": not public, "method": method.name, "yields": rows})
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
    print_lines(lines)


def _line(method: KeysMethod, row: BoundYield, most: int) -> str:
    bar = "█" * round(_BAR * row.keys / most) if most else ""
    parameters = current_options(type(method), row.parameters)
    selection, threshold = parameters.get("selection", ""), parameters.get("threshold", 0)
    covered = "-" if row.covered is None else f"{row.covered:.1%}"
    figures = f"{threshold:>11.4g} {row.keys:>9,} {row.volume:>11,} {covered:>8}"
    return f"{row.bound:>8}  {selection:<11} {figures}  {bar}".rstrip()
