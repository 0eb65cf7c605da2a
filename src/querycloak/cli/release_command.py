"""`querycloak release`: the main job."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.error_line import as_typed
from querycloak.cli.guarantee_command import guarantee_lines, reach_lines, reach_of
from querycloak.cli.options import ADVANCED, OUTPUT
from querycloak.cli.running import say_all
from querycloak.errors import InputError, ParameterError
from querycloak.methods.method import Method
from querycloak.methods.option import current_options
from querycloak.privacy.guarantee import Guarantee
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

    out: Annotated[
        Path | None, typer.Option(help="The folder to write; it must not exist yet.", rich_help_panel=OUTPUT)
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show guarantee and charge; read nothing.", rich_help_panel=OUTPUT)
    ] = False
    table_format: Annotated[
        Literal["parquet", "tsv", "csv"], typer.Option("--format", help="Format of the tables.", rich_help_panel=OUTPUT)
    ] = "parquet"
    never_release: Annotated[
        Path | None,
        typer.Option(help=f"File of words or /patterns/ that never come out. {options.UNSEEN}", rich_help_panel=OUTPUT),
    ] = None
    filter_names: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="off|NAMES",
            help="Rows to drop by pattern: cards, social-security, emails, telephones, with commas; or off.",
            rich_help_panel=OUTPUT,
        ),
    ] = "cards,social-security,emails,telephones"
    dropped: Annotated[
        Path | None,
        typer.Option(help="Private file for rows that the filter dropped, as JSON lines.", rich_help_panel=OUTPUT),
    ] = None
    refuse_empty: Annotated[
        bool,
        typer.Option(
            "--refuse-empty",
            help="Charge nothing if no row, or no click where clicks are counted, is kept.",
            rich_help_panel=ADVANCED,
        ),
    ] = False
    paid_gate: Annotated[
        bool,
        typer.Option(
            "--paid-gate",
            help="For epsilon 0.02 more, refuse a log with, up to noise, fewer than 196 users; a refusal costs 0.02.",
            rich_help_panel=ADVANCED,
        ),
    ] = False

    def output_filter(self) -> OutputFilter:
        """The output filter: built-in patterns by name, and the words and patterns of the owner's file, if any."""
        from querycloak.releases.output_filter import OutputFilter

        named = () if self.filter_names == "off" else tuple(name.strip() for name in self.filter_names.split(","))
        file = self.never_release
        return OutputFilter(patterns=named) if file is None else OutputFilter.from_file(file, named)

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
    if explain_query is not None:
        from querycloak.cli.explain_query import show_explanation

        with reading.open(log, quiet=quiet or as_json) as opened:
            explained = method.explain(opened, explain_query)
        show_explanation(explained, as_json=as_json)
        return
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
            method, opened, folder, output.table_format, never,
            ledger=book, population=charging.population, composition=together, population_size=population_size,
            paid_gate=gate,
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

    if refuse or quiet or paid_gate or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return EmptyGate(tell, refuse=refuse)
    return EmptyGate(tell, ask)


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
        json.dump(shown, sys.stdout)
        sys.stdout.write("\n")
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
    sys.stdout.write("\n".join(lines) + "\n")


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
    **given: Any,
) -> dict[str, Any]:
    """Release and save; returns what may be shown, and (private) rows that the output filter dropped.

    given: parameters of `Method.release`.
    """
    from querycloak.releases.saving import save

    release = method.release(log, **given)
    saved = save(release, out, table_format, output_filter)
    card = json.loads((saved.folder / "card.json").read_text())
    return {
        "folder": str(saved.folder),
        "digest": saved.digest,
        "card": card,
        "dropped": dict(saved.dropped),
        "dropped_rows": saved.dropped_rows,
        "remarks": (*release.remarks, *_why_empty(method, log, card)),
    }


def _why_empty(method: Method, log: SearchLog, card: dict[str, Any]) -> list[Sentence]:
    """The likely reason for an empty release, for the owner; nothing if rows came out."""
    from querycloak.logs.preflight import why_nothing_came_out

    if any(table["rows"] for table in card["tables"].values()):
        return []
    reason, most = why_nothing_came_out(log)
    epsilon = _epsilon_for(method, most) if most else None
    if epsilon is None:
        return [Sentence("nothing came out: {reason}", reason=reason)]
    return [
        Sentence(
            "nothing came out: {reason}; such keys come out from epsilon {epsilon:g} on. Another try is charged again, "
            "and an epsilon chosen by this figure is chosen on the log, which no guarantee covers",
            reason=reason,
            epsilon=epsilon,
        )
    ]


def _epsilon_for(method: Method, users: int) -> float | None:
    """The smallest epsilon with which keys of this many users come out; None if the method has no such figure."""
    given = {name: value for name, value in (method.options() or {}).items() if name != "epsilon"}
    try:
        return float(type(method).for_users(users, **given).parameters()["epsilon"])
    except (ParameterError, KeyError):
        return None


def _when_empty(method: Method) -> str:
    """Advice after an empty release; it follows from the parameters alone."""
    parameters = method.parameters()
    if "min_users" in parameters:
        return "Nothing came out: nothing is shared by this many users. A smaller --min-users releases more."
    more = "More epsilon would help"
    if method.variant == "paper":
        more = "A larger budget would help"
    elif method.name in ("queries", "clicks", "sessions") and parameters.get("per_user") != "auto":
        more += ", or, if nobody knows how often people search, --max-keys-per-user auto"
    return f"Nothing passed. {more}, if the log has what is counted. Each try is a release, and budgets add up."


def _chosen(parameters: dict[str, Any]) -> str:
    """The bounds that were chosen, as options, and the selection."""
    names = ("max_keys_per_user", "sessions_per_user")
    bounds = {f"--{name.replace('_', '-')}": parameters.get(name) for name in names}
    given = [f"{option} {bound}" for option, bound in bounds.items() if bound is not None]
    return ", ".join([*given, parameters["selection"]])


def _reason(method: Method, chosen: dict[str, Any]) -> str:
    """Reason for the choice of auto, as a sentence; follows from the choice alone, which the budget has paid for."""
    bound = chosen.get("max_keys_per_user") or chosen.get("sessions_per_user")
    if method.parameters().get("selection") not in (None, "auto"):
        return f"Auto chose {bound} per user because, by a noisy score over all users, this bound releases most."
    if bound == 1:
        return (
            f"Auto chose {chosen['selection']} with one key per user because, by a noisy score over all users, most "
            "hold few keys: with one key each, a key needs the fewest users to come out."
        )
    return (
        f"Auto chose {chosen['selection']} with up to {bound} per user because, by a noisy score over all users, they "
        "hold many keys: counting one key each would lose most of them."
    )


def show_release(method: Method, made: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Print a summary; rows that the output filter dropped are private and go to stderr."""
    if as_json:
        json.dump(made["card"], sys.stdout)
        sys.stdout.write("\n")
    elif not quiet:
        lines = [*guarantee_lines(method, Guarantee.from_json(made["card"]["proven"])), ""]
        parameters = made["card"]["parameters"]
        if parameters.get("per_user") != method.parameters().get("per_user"):
            chosen = current_options(type(method), parameters)
            lines += [f"chosen for this log: {_chosen(chosen)}", *textwrap.wrap(_reason(method, chosen), 80)]
        lines += [f"{table['rows']:>12,} rows in {table['file']}" for table in made["card"]["tables"].values()]
        accounting = made["card"]["accounting"]
        verb = "recorded for" if method.proven().kind == "syntactic" else "charged to"
        paid = accounting if isinstance(accounting, str) else f"{verb} {accounting['population']}"
        if not any(table["rows"] for table in made["card"]["tables"].values()):
            lines += textwrap.wrap(_when_empty(method), 80)
        lines += [
            f"accounting: {paid}",
            f"written to {made['folder']}; its README.md is for the people who receive it",
            f"digest {made['digest']} (querycloak verify)",
        ]
        sys.stdout.write("\n".join(lines) + "\n")
    for remark in made["remarks"] if not quiet else ():
        sys.stderr.write(f"querycloak: private, not for publication: {as_typed(remark)}\n")
    if made["dropped"] and not quiet:
        what = ", ".join(f"{name} {rows:,}" for name, rows in made["dropped"].items())
        sys.stderr.write(
            f"querycloak: private, not for publication: the output filter dropped rows ({what}); "
            "--dropped FILE lists them, --filter chooses patterns\n"
        )
