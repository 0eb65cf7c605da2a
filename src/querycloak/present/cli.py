"""The command line: options in, one stage's work, results and exit codes out.

Exit codes: 0 done, 1 our own bug, 2 bad input or parameters, 3 budget refused, 4 a check failed, 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from querycloak.methods.method import Method
from querycloak.present import method_options, options
from querycloak.present.error_line import as_typed
from querycloak.present.running import run_and_exit, say_all
from querycloak.privacy.parameters import refuse
from querycloak.private_file import check_new

app = typer.Typer(
    name="querycloak",
    help="Release a search log that people can use, with a privacy guarantee that holds.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from querycloak.releases.versions import versions

        typer.echo(f"querycloak {versions()['querycloak']}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("inspect")
@options.with_groups
def inspect_log(
    log: options.Logs,
    *,
    set_aside: options.SetAside = None,
    gap_minutes: options.GapMinutes = 30,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Profile a log: rows, users, searches, clicks (private output)."""
    from querycloak.present.commands.inspect_command import show_profile

    if set_aside is not None:
        check_new(set_aside, "the file for rows set aside")
    with reading.open(log, quiet=quiet or as_json, out=set_aside) as opened:
        if set_aside is not None:
            opened.write_set_aside(set_aside)
        show_profile(opened, gap_minutes, as_json=as_json)


def guarantee(
    method: Method,
    *,
    population_size: method_options.PopulationSize = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what the numbers mean for one person.")] = False,
    releases: Annotated[int, typer.Option(help="How many such releases: what they come to together.")] = 1,
    wishing: options.Wishing,
    composing: options.Composing,
    as_json: options.Json = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show what a method guarantees, claimed beside proven."""
    from querycloak.present.commands.guarantee_command import show_guarantee

    method.check_inputs()
    tightly = composing.tightly
    together = method.composition(releases, composing.at_delta) if tightly or releases != 1 else None
    show_guarantee(
        method, as_json=as_json, plain_words=explain, population_size=population_size,
        releases=releases, together=together, tightly=tightly, solved=wishing.said,
    )  # fmt: skip


def release(
    method: Method,
    log: options.Logs,
    *,
    out: Annotated[Path | None, typer.Option(help="The folder to write; it must not exist yet.")] = None,
    population_size: method_options.PopulationSize = None,
    wishing: options.Wishing,
    charging: options.Charging,
    never_release: Annotated[Path | None, typer.Option(help="File of words or /patterns/ that never come out.")] = None,
    table_format: Annotated[
        Literal["parquet", "tsv"], typer.Option("--format", help="Format of the tables.")
    ] = "parquet",
    composing: options.Composing,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show guarantee and charge; read nothing.")] = False,
    explain_query: Annotated[
        str | None,
        typer.Option("--explain", metavar="QUERY", help="Private: show what protects a query; release nothing."),
    ] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Release a log: a folder with tables, card and datasheet."""
    from querycloak.present.commands import release_command as releasing

    if explain_query is not None:
        from querycloak.present.commands.explain_query_command import show_explanation

        with reading.open(log, quiet=quiet or as_json) as opened:
            explained = method.explain(opened, explain_query)
        show_explanation(explained, as_json=as_json)
        return
    cautions = [] if quiet else [as_typed(each) for each in method.warnings(population_size)]
    together = method.composition(at_delta=composing.at_delta) if composing.tightly else None
    book = charging.book()
    if dry_run:
        releasing.show_dry_run(method, log, book, charging.population, as_json=as_json, solved=wishing.said)
        say_all(cautions)
        return
    look = releasing.last_look(never_release)
    with (
        releasing.check_first(method, out, book, charging.population) as folder,
        reading.open(log, quiet=quiet or as_json, out=out) as opened,
    ):
        made = releasing.make_and_save(
            method, opened, folder, table_format, look, book, charging.population, together, population_size
        )
    releasing.show_release(method, made, as_json=as_json, quiet=quiet)
    say_all(cautions)


def tune(
    method: Method,
    log: options.Logs,
    *,
    public: Annotated[
        bool, typer.Option("--public", help="The log is public or made up: its figures may be seen.")
    ] = False,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show how much comes out at each bound, on a public log."""
    from querycloak.experiments.bound_yields import tunable
    from querycloak.present.commands.tune_command import show_yields

    bounded = tunable(method)
    with reading.open(log, quiet=quiet or as_json) as opened:
        show_yields(bounded, opened, public=public, as_json=as_json)


def audit_guarantee(
    method: Method,
    *,
    runs: Annotated[int, typer.Option(help="How often to draw from each log.")] = 20_000,
    seed: Annotated[int | None, typer.Option(help="Repeatable draws; by default they are as in a release.")] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="Kinds of neighbouring logs, with commas; all that fit if not given.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Test a guarantee by runs on neighbouring logs."""
    from querycloak.present.commands.audit_method_command import audited_method, show_method_audit

    found = audited_method(method, runs, seed, neighbours, quiet=quiet or as_json)
    show_method_audit(found, as_json=as_json)


audits = typer.Typer(help="Test what is promised, and attack what was released.", no_args_is_help=True)
app.add_typer(audits, name="audit")
for home, name, command in (
    (app, "guarantee", guarantee),
    (app, "release", release),
    (app, "tune", tune),
    (audits, "method", audit_guarantee),
):
    group = typer.Typer(
        cls=method_options.methods_group(command),
        help=command.__doc__,
        no_args_is_help=True,
        subcommand_metavar="METHOD [OPTIONS]",
    )
    home.add_typer(group, name=name)

ledgers = typer.Typer(help="Budgets, and what has been spent on whom.", no_args_is_help=True)
app.add_typer(ledgers, name="ledger")
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="The ledger's file; your own if not given.")]


@ledgers.command("set")
def ledger_set(
    population: Annotated[str, typer.Argument(metavar="NAME", help="The people behind a log.")],
    epsilon: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    delta: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    by: Annotated[str | None, typer.Option(help="Who decides; the name of your account if not given.")] = None,
    because: Annotated[str | None, typer.Option(help="Why the limit is what it is.")] = None,
    ledger: LedgerFile = None,
) -> None:
    """Set what may be spent on a population in all."""
    from querycloak.present.commands.ledger_command import show_accounts
    from querycloak.privacy.books.ledger import Ledger

    book = Ledger(ledger)
    show_accounts(book, [book.set_limit(population, epsilon, delta, by=by, why=because)])


@ledgers.command("show")
@options.with_groups
def ledger_show(
    *,
    population: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One population; all if not given.")
    ] = None,
    ledger: LedgerFile = None,
    composing: options.Composing,
    as_json: options.Json = False,
) -> None:
    """Show budgets, and every charge with what became of it."""
    from querycloak.present.commands.ledger_command import show_accounts
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.releases.unfinished import reconcile

    book = Ledger(ledger)
    reconcile(book)
    tightly = composing.tightly
    show_accounts(book, book.show(population), tightly=tightly, at_delta=composing.at_delta, as_json=as_json)


@app.command("describe")
def describe_release(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    as_json: options.Json = False,
) -> None:
    """Show what a release is, and what it can serve."""
    from querycloak.present.commands.describe_command import show_description

    show_description(release, as_json=as_json)


@audits.command("release")
@options.with_groups
def audit_releases(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The log that the releases were made of.")],
    release: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    *,
    control: Annotated[
        str | None, typer.Option(help="A log of other people of the same kind: TEST of a split.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="What is known to be sensitive: LOG.truth of a synthetic log.")
    ] = None,
    other_period: Annotated[str | None, typer.Option(help="A log of the same people from another time.")] = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="An attack, more than once for several; all if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Private file for all rows: .json, .csv or .parquet.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack releases: what anybody gains from them (private output)."""
    from querycloak.present.commands.audit_release_command import audited, show_audit

    found = audited(
        train, release, control, reading,
        truth=truth, other_period=other_period, attacks=attack, out=out, quiet=quiet or as_json,
    )  # fmt: skip
    show_audit(found, as_json=as_json, quiet=quiet)


@app.command()
@options.with_groups
def split(
    log: options.Logs,
    *,
    by: Annotated[
        Literal["user", "time"] | None,
        typer.Option(help="user, or time: TRAIN before a moment, TEST from then on; no user in both."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The private folder to write; it must not exist yet.")] = None,
    test: Annotated[float | None, typer.Option(help="The share of users in TEST; 0.1 if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed deals out users differently.")] = 1,
    folds: Annotated[int | None, typer.Option(help="The number of parts that take turns as TEST.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Split a log into TRAIN and TEST (private output)."""
    if by is None:
        refuse("by", "user or time", None, "say how the log is to be split")
    if out is None:
        refuse("out", "the folder to write", None, "it must not exist yet")
    from querycloak.logs.split import Split
    from querycloak.present.commands.split_command import show_split
    from querycloak.releases.folder import check_target
    from querycloak.utility.split_folder import write_split

    how, target = Split(by=by, test=test, seed=seed, folds=folds), check_target(out)
    with reading.open(log, quiet=quiet or as_json, out=target) as opened:
        written = write_split(opened, target, how)
    if as_json or not quiet:
        show_split(written, as_json=as_json)


@app.command()
@options.with_groups
def evaluate(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The log that the releases were made of.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="A log of other users, to judge them by.")],
    release: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    *,
    task: Annotated[
        list[str] | None, typer.Option(help="A task, more than once for several; all if not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Private file for all rows: .json, .csv or .parquet.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what releases are good for (private output)."""
    from querycloak.present.commands.evaluate_command import evaluated, show_evaluation

    found = evaluated(train, test, release, task, out, reading, quiet=quiet or as_json)
    if as_json or not quiet:
        show_evaluation(found, as_json=as_json)


@ledgers.command("verify")
def ledger_verify(
    ledger: LedgerFile = None,
    digest: Annotated[
        str | None, typer.Option(help="The digest that you kept: entries before it must be there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that nothing in the ledger was changed by other means."""
    from querycloak.present.commands.ledger_command import show_verification
    from querycloak.privacy.books.ledger import Ledger

    show_verification(Ledger(ledger), digest, as_json=as_json)


@app.command()
def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    ledger: LedgerFile = None,
    digest: Annotated[str | None, typer.Option(help="The digest that was printed when it was released.")] = None,
    signature: Annotated[
        Path | None, typer.Option(help="A signature of card.json, as `ssh-keygen -Y sign -n querycloak` writes it.")
    ] = None,
    signers: Annotated[
        Path | None, typer.Option(help="Who may sign: a file of allowed signers, as ssh-keygen reads it.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that a release is whole, and what was signed."""
    from querycloak.present.commands.verify_command import show_verified

    show_verified(release, ledger=ledger, digest=digest, signature=signature, signers=signers, as_json=as_json)


@app.command()
def synth(
    out: Annotated[Path | None, typer.Option(help="The file: .tsv (AOL), .parquet or .jsonl (UBI); .gz, .zst.")] = None,
    users: Annotated[int | None, typer.Option(help="How many people search.")] = None,
    preset: Annotated[str | None, typer.Option(help="standard: 100,000 users, the same for everybody.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed makes other people; 1 if not given.")] = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Write the truth beside it, into FILE.truth.")
    ] = True,
    check: Annotated[bool, typer.Option("--check", help="Compare it with AOL's figures.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a synthetic log like a real one, with the truth known."""
    if out is None:
        refuse("out", "the file to write", None, "its ending says the format, such as log.tsv.gz")
    from querycloak.present.commands.synth_command import make_log, users_and_seed

    number, chosen = users_and_seed(users, seed, preset)
    make_log(out, number, chosen, truth=truth, threads=threads, check=check, as_json=as_json, quiet=quiet)


@app.command()
def report(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    out: Annotated[Path | None, typer.Option(help="The folder for public.html and private.html.")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="What `evaluate --out` wrote about this release.")] = None,
    audit: Annotated[
        list[Path] | None, typer.Option(help="What `audit release --out` or `audit method --json` wrote.")
    ] = None,
    measured_on: Annotated[
        Path | None, typer.Option(help="The release made from TRAIN, same options, that was evaluated and attacked.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger that paid for the release.")] = None,
    about: Annotated[Path | None, typer.Option(help="TOML file: owner, contact, purpose, approved_by ...")] = None,
    to: Annotated[
        Literal["registry"] | None, typer.Option(help="registry: also the entry for OpenDP's registry.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the page to sign, public and private part apart."""
    if out is None:
        refuse("out", "the folder to write", None, "the public and the private page go there")
    from querycloak.pages.signing_report import report as write_report
    from querycloak.present.commands.report_command import show_report

    written = write_report(
        release, out, evaluation=evaluation, audits=audit or [], measured_on=measured_on, ledger=ledger, about=about,
        registry=to == "registry",
    )  # fmt: skip
    if not quiet:
        show_report(written)


@app.command()
@options.with_groups
def reproduce(
    paper: Annotated[str, typer.Argument(help="zhang2017, zhang2016, hong2012, sanchez2018, carpineto2015, or all.")],
    *,
    log: Annotated[
        list[str] | None, typer.Option("--log", help="AOL's log, or another; a synthetic one if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write; work that was begun there goes on.")] = Path(
        "reproduce"
    ),
    user: Annotated[str | None, typer.Option(help="carpineto2015: the person of Table 4 and Figure 5 (b).")] = None,
    short: Annotated[bool, typer.Option("--quick", help="Fewer users, points and runs: under two minutes.")] = False,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Make a paper's tables and figures again, beside its own."""
    from querycloak.present.commands.reproduce_command import show_reproductions

    show_reproductions(paper, log, out, reading, user=user, short=short, quiet=quiet)


@app.command()
@options.with_groups
def compare(
    log: options.Logs,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The private folder to write: a new one, or one that was begun so.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="One budget, or several with commas; 8 if not given.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of all budgets; 1e-6 if not given.")] = None,
    releases: Annotated[
        Path | None, typer.Option(help="TOML file with [[release]] name, method, options, in place of every method.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="What is known to be sensitive; LOG.truth if it is there.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every method on one log, as a page (private output)."""
    if out is None:
        refuse("out", "the folder to write", None, "a comparison that was stopped goes on there")
    from querycloak.present.commands.compare_command import compared, plan_of, show_comparison

    plan = plan_of(epsilon, delta, releases)
    found = compared(log, out, plan, reading, truth, quiet=quiet or as_json)
    show_comparison(found, as_json=as_json, quiet=quiet)


@app.command()
def demo(
    users: Annotated[int | None, typer.Option(help="How many people search; 3,000 if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write, ./demo-out if not given; replaced if a demo made it.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare every method on a synthetic log, as a page."""
    from querycloak.present.commands.demo_command import show_demo

    show_demo(users, out, quiet=quiet)


def main() -> None:
    """Run the command line and end with its exit code."""
    run_and_exit(lambda: app(standalone_mode=False))
