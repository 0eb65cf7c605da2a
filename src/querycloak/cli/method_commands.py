"""Commands that take a method: guarantee, release, tune, audit method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from querycloak.cli import method_options, options
from querycloak.cli.error_line import as_typed
from querycloak.cli.running import say_all
from querycloak.methods.method import Method


def guarantee(
    method: Method,
    *,
    population_size: method_options.PopulationSize = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what the numbers mean for one person.")] = False,
    releases: Annotated[int, typer.Option(help="Number of such releases: show what they cost together.")] = 1,
    wishing: options.AccuracyOptions,
    composing: options.Composing,
    as_json: options.Json = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show what a method guarantees: claimed, and proven."""
    from querycloak.cli.guarantee_command import show_guarantee

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
    wishing: options.AccuracyOptions,
    charging: options.Charging,
    never_release: Annotated[
        Path | None, typer.Option(help=f"File of words or /patterns/ that never come out. {options.UNSEEN}")
    ] = None,
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
    from querycloak.cli import release_command as releasing

    if explain_query is not None:
        from querycloak.cli.explain_query_command import show_explanation

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
    look = releasing.output_filter(never_release)
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
    from querycloak.cli.tune_command import show_yields
    from querycloak.comparison.bound_yields import tunable

    bounded = tunable(method)
    with reading.open(log, quiet=quiet or as_json) as opened:
        show_yields(bounded, opened, public=public, as_json=as_json)


def audit_guarantee(
    method: Method,
    *,
    runs: Annotated[int, typer.Option(help="How often to draw from each log.")] = 20_000,
    seed: Annotated[
        int | None, typer.Option(help="Make the draws repeatable; if not given, they are as in a release.")
    ] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="Kinds of neighbouring logs, with commas; all that fit if not given.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Test a guarantee by runs on neighbouring logs."""
    from querycloak.cli.audit_method_command import audited_method, show_method_audit

    found = audited_method(method, runs, seed, neighbours, quiet=quiet or as_json)
    show_method_audit(found, as_json=as_json)
