"""The ledger's commands: set, show, verify."""

from __future__ import annotations

from typing import Annotated

import typer

from querycloak.cli import options


def ledger_set(
    population: Annotated[str, typer.Argument(metavar="NAME", help="A name for the people in a log.")],
    epsilon: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    delta: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    by: Annotated[str | None, typer.Option(help="Who decides; the name of your account if not given.")] = None,
    because: Annotated[str | None, typer.Option(help="Why the limit is what it is.")] = None,
    ledger: options.LedgerFile = None,
) -> None:
    """Set what may be spent on a population in all."""
    from querycloak.cli.ledger_command import show_accounts
    from querycloak.privacy.ledger.ledger import Ledger

    book = Ledger(ledger)
    show_accounts(book, [book.set_limit(population, epsilon, delta, by=by, why=because)])


@options.with_groups
def ledger_show(
    *,
    population: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One population; all if not given.")
    ] = None,
    ledger: options.LedgerFile = None,
    composing: options.Composing,
    as_json: options.Json = False,
) -> None:
    """Show budgets, and every charge with its release."""
    from querycloak.cli.ledger_command import show_accounts
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.releases.folder import reconcile

    book = Ledger(ledger)
    reconcile(book)
    tightly = composing.tightly
    show_accounts(book, book.show(population), tightly=tightly, at_delta=composing.at_delta, as_json=as_json)


def ledger_verify(
    ledger: options.LedgerFile = None,
    digest: Annotated[
        str | None, typer.Option(help="The digest that you kept: entries before it must be there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the ledger's journal: did anything else change it?"""
    from querycloak.cli.ledger_command import show_verification
    from querycloak.privacy.ledger.ledger import Ledger

    show_verification(Ledger(ledger), digest, as_json=as_json)
