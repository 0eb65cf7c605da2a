"""`querycloak release`: the main job."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.error_line import as_typed
from querycloak.cli.guarantee_command import guarantee_lines, reach_lines, reach_of
from querycloak.cli.options import ADVANCED, OUTPUT
from querycloak.cli.release_summary import show_release, why_empty
from querycloak.cli.running import say_all
from querycloak.cli.terminal import print_json, print_lines
from querycloak.errors import InputError
from querycloak.methods.method import Method
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.exact import shown_up
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from querycloak.logs.preflight import EmptyGate
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.releases.folder import Unfinished
    from querycloak.releases.output_filter import OutputFilter


@dataclass(frozen=True)
class ReleaseOutput(options.OptionGroup):
    """The folder to write, and the rows that may stand in it."""

    heading: ClassVar[str] = OUTPUT

    out: Annotated[Path | None, typer.Option(help="The folder to write; it must not exist yet.")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show guarantee and charge; read nothing.")] = False
    table_format: Annotated[
        Literal["parquet", "tsv", "csv"], typer.Option("--format", help="Format of the tables.")
    ] = "parquet"
    never_release: Annotated[
        Path | None, typer.Option(help=f"File of words or /patterns/ that never come out. {options.UNSEEN}")
    ] = None
    filter_names: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="off|NAMES",
            help="Rows to drop by pattern: cards, social-security, emails, telephones, with commas; or off.",
        ),
    ] = "cards,social-security,emails,telephones"
    about: Annotated[
        Path | None, typer.Option(help="TOML file for the card: licence, owner, contact, doi, keywords, citation.")
    ] = None
    dropped: Annotated[
        Path | None, typer.Option(help="Private file for rows that the filter dropped, as JSON lines.")
    ] = None
    refuse_empty: Annotated[
        bool,
        typer.Option(
            "--refuse-empty",
            help="Refuse, without a charge, a log of which no row (if clicks are counted, no click) is kept.",
            rich_help_panel=ADVANCED,
        ),
    ] = False
    paid_gate: Annotated[
        bool,
        typer.Option(
            "--paid-gate",
            help="Refuse a log whose noisy number of users is below 196; costs epsilon 0.02 more, also if it refuses.",
            rich_help_panel=ADVANCED,
        ),
    ] = False
    chosen_on_log: Annotated[
        bool,
        typer.Option(
            "--chosen-on-log",
            help="Say on the card that parameters were chosen after looking at the log.",
            rich_help_panel=ADVANCED,
        ),
    ] = False

    def output_filter(self) -> OutputFilter:
        """The output filter: built-in patterns by name, and the words and patterns of the owner's file, if any."""
        from querycloak.releases.output_filter import OutputFilter

        named = () if self.filter_names == "off" else tuple(name.strip() for name in self.filter_names.split(","))
        file = self.never_release
        return OutputFilter(patterns=named) if file is None else OutputFilter.from_file(file, named)

    def stated(self) -> Mapping[str, Any]:
        """The owner's public statements, checked; empty without a file."""
        from querycloak.releases.about_file import About

        return About.of(self.about).public

    def check_dropped(self) -> None:
        """Refuse a place for dropped rows that is taken or lies in a release folder, before anything is read."""
        if self.dropped is not None:
            from querycloak.files.private_file import check_new
            from querycloak.releases.folder import outside_releases

            check_new(self.dropped, "the file for dropped rows")
            outside_releases(self.dropped, "dropped")

    def write_dropped(self, rows: Mapping[str, Any]) -> None:
        """Write the rows that the output filter dropped, for the owner alone; nothing without a file."""
        if self.dropped is None:
            return
        from querycloak.files.private_file import private_file

        with private_file(self.dropped, "the file for dropped rows") as file:
            for kind, table in rows.items():
                for row in table.to_pylist():
                    file.write(json.dumps({"table": kind, **row}, ensure_ascii=False, default=str).encode() + b"\n")


ExplainedQuery = Annotated[
    str | None,
    typer.Option(
        "--explain",
        metavar="QUERY",
        help="Private: show what protects a query; release nothing.",
        rich_help_panel=OUTPUT,
    ),
]


def release(
    method: Method,
    log: options.Logs,
    *,
    charging: options.Charging,
    output: ReleaseOutput,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    population_size: options.PopulationSize = None,
    accuracy: options.AccuracyOptions,
    composing: options.Composing,
    explain_query: ExplainedQuery = None,
    reading: options.Reading,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Release a log: a folder with tables, card and datasheet."""
    reading = reading.with_attributes(method.attributes)
    if explain_query is not None:
        from querycloak.cli.release_summary import show_explanation

        with reading.open(log, quiet=quiet or as_json) as opened:
            explained = method.explain(opened, explain_query)
        show_explanation(explained, as_json=as_json)
        return
    about = output.stated()
    book = charging.book()
    method = method.paid_by(book, charging.population)
    cautions = [] if quiet else [as_typed(each) for each in method.warnings(population_size)]
    gate = output.paid_gate
    together = method.composition(at_delta=composing.at_delta, paid_gate=gate) if composing.tightly else None
    if output.dry_run:
        show_dry_run(method, log, book, charging.population, as_json=as_json, solved=accuracy.line, paid_gate=gate)
        say_all(cautions)
        return
    never = output.output_filter()
    output.check_dropped()
    with (
        check_first(method, output.out, book, charging.population, paid_gate=gate) as folder,
        reading.open(log, quiet=quiet or as_json, out=output.out) as opened,
    ):
        opened.empty_gate = empty_gate(refuse=output.refuse_empty, quiet=quiet or as_json, paid_gate=gate)
        made = make_and_save(
            method, opened, folder, output.table_format, never, about,
            ledger=book, population=charging.population, composition=together, population_size=population_size,
            paid_gate=gate, chosen_on_log=output.chosen_on_log,
        )  # fmt: skip
    output.write_dropped(made.pop("dropped_rows"))
    show_release(method, made, as_json=as_json, quiet=quiet)
    say_all(cautions)


def check_first(
    method: Method, out: Path | None, ledger: Ledger | None, population: str | None, *, paid_gate: bool
) -> Unfinished:
    """The folder to write, reserved, after everything that can be refused before the log is opened."""
    from querycloak.methods.paid_gate import PaidGate
    from querycloak.releases.folder import check_target, reserve

    if out is None:
        refuse("out", "the folder to write the release into", None, "it must not exist yet")
    check_target(out)
    method.check_account(method.payment(ledger, population).check())
    if paid_gate:
        PaidGate.checked(method.bill(), ledger, population)
    return reserve(out)


def empty_gate(*, refuse: bool, quiet: bool, paid_gate: bool = False) -> EmptyGate:
    """The owner's decision about a log of which nothing would be counted: the option, or an answer on the terminal.

    paid_gate: noise decides, so nobody is asked.
    """
    from querycloak.logs.preflight import EmptyGate

    def tell(problem: Sentence) -> None:
        sys.stderr.write(f"querycloak: private, before the charge: {as_typed(problem)}\n")

    def ask(problem: Sentence) -> bool:
        tell(problem)
        return typer.confirm("Release all the same, and pay for it?", err=True)

    hint = tell if sys.stderr.isatty() and not quiet else None
    if refuse or quiet or paid_gate or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return EmptyGate(tell, refuse=refuse, hint=hint)
    return EmptyGate(tell, ask, hint=hint)


def show_dry_run(
    method: Method,
    logs: list[str],
    ledger: Ledger | None,
    population: str | None,
    *,
    as_json: bool,
    solved: str | None = None,
    paid_gate: bool = False,
) -> None:
    """Print the guarantee, the charge, the size of the log and the accuracy of counts; nothing is read."""
    from querycloak.methods.paid_gate import PaidGate, with_gate

    method.check_inputs()
    size = sum(_size(log) for log in logs)
    payment = method.payment(ledger, population)
    account = payment.check()
    method.check_account(account)
    if paid_gate:
        PaidGate.checked(method.bill(), ledger, population)
    proven = with_gate(method.proven(), paid_gate=paid_gate)
    if as_json:
        charge_to = account and {"population": population, "account": account.to_json()}
        described = {**method.describe(), "proven": proven.to_json()}
        shown = {**described, "tables": reach_of(method), "charge": charge_to, "log_bytes": size}
        print_json(shown)
        return
    charge = "nothing: no ledger, the card will say not accounted"
    if payment.is_prepaid:
        charge = f"nothing: an earlier release has paid for the queries of each user of {population}"
    elif account is not None and proven.kind == "syntactic":
        charge = f"nothing, but recorded for {population}: a rule about the output has no number to add up"
    elif account is not None:
        step = "" if proven.covers_release else "; that is for one step only"
        price = "epsilon {}, delta {}".format(*map(shown_up, proven.numbers))
        first = "; epsilon 0.02 of it first, for the gate" if paid_gate else ""
        charge = f"{price} to {population}, which has enough left{step}{first}"
    charged = textwrap.wrap(f"charge: {charge}", 80, subsequent_indent="  ")
    promised = [*guarantee_lines(method, proven), *reach_lines(method, solved)]
    lines = [*promised, "", *charged, f"log: {size:,} bytes", "nothing was read"]
    print_lines(lines)


def _size(log: str) -> int:
    """Stored bytes of a log, from its folder's entries alone; an address is not asked."""
    if "://" in log:
        return 0
    path = Path(log)
    if not path.exists():
        raise InputError(f"LOG: no such file or folder: {log!r}")
    return sum(each.stat().st_size for each in ([path] if path.is_file() else path.rglob("*")) if each.is_file())


def make_and_save(
    method: Method,
    log: SearchLog,
    out: Unfinished,
    table_format: str,
    output_filter: OutputFilter,
    about: Mapping[str, Any],
    **given: Any,
) -> dict[str, Any]:
    """Release and save; returns the values to show, and (private) the rows that the output filter dropped.

    given: parameters of `Method.release`.
    """
    from querycloak.releases.saving import save

    release = method.release(log, **given)
    saved = save(replace(release, about=about), out, table_format, output_filter)
    card = json.loads((saved.folder / "card.json").read_text())
    return {
        "folder": str(saved.folder),
        "digest": saved.digest,
        "card": card,
        "dropped": dict(saved.dropped),
        "dropped_rows": saved.dropped_rows,
        "remarks": (*release.remarks, *why_empty(method, log, card)),
    }
