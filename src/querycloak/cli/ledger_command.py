"""`querycloak ledger`: budgets, and what has been spent on whom."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.errors import CheckFailed
from querycloak.privacy.sampling.exact import shown_up
from querycloak.sentence import printable

if TYPE_CHECKING:
    from querycloak.privacy.accounting.composition import Composed
    from querycloak.privacy.ledger.journal import Entry
    from querycloak.privacy.ledger.ledger import Account, Charge, Ledger

_WIDTH = 80


def ledger_set(
    population: Annotated[str, typer.Argument(metavar="NAME", help="A name for the people in a log.")],
    epsilon: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    delta: Annotated[float, typer.Option(help="The most that may be spent on them in all.")],
    by: Annotated[str | None, typer.Option(help="Who decides; the name of your account if not given.")] = None,
    because: Annotated[str | None, typer.Option(help="Why the limit is what it is; needed to raise one.")] = None,
    ledger: options.LedgerFile = None,
) -> None:
    """Set what may be spent on a population in all."""
    from querycloak.privacy.ledger.ledger import Ledger

    book = Ledger(ledger)
    show_accounts(book, [book.set_limit(population, epsilon, delta, by=by, why=because)])


@with_groups
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
    from querycloak.privacy.ledger.ledger import Ledger

    show_verification(Ledger(ledger), digest, as_json=as_json)


def show_accounts(
    ledger: Ledger,
    accounts: Sequence[Account],
    *,
    tightly: bool = False,
    at_delta: float | None = None,
    as_json: bool = False,
) -> None:
    """Print limits, spending and every charge; if asked, also what the charges come to when composed tightly."""
    together = {each.population: each.composed(at_delta) for each in accounts if each.charges} if tightly else {}
    if as_json:
        shown = [account.to_json() for account in accounts]
        for each in shown:
            if each["population"] in together:
                each["composition"] = together[each["population"]].to_json()
        json.dump(shown, sys.stdout)
        sys.stdout.write("\n")
        return
    sys.stdout.write(f"ledger {ledger.path}\n")
    if not accounts:
        sys.stdout.write(f"no population has a budget yet: {ledger.how_to_set('NAME').as_typed()}\n")
    for account in accounts:
        (epsilon, delta), (left_epsilon, left_delta) = account.spent, account.left
        sys.stdout.write(
            f"{account.population}: epsilon {shown_up(float(epsilon))} spent, {float(left_epsilon):g} left; "
            f"delta {shown_up(float(delta))} spent, {float(left_delta):.3g} left\n"
        )
        if account.coverage is not None:
            sys.stdout.write(_indented(f"the sum {account.coverage}"))
        for change in ledger.limits(account.population):
            sys.stdout.write(_indented(_limit_line(change)))
        if account.charges:
            sys.stdout.write("".join(f"{line}\n" for line in _charge_lines(account.charges)))
        if account.population in together:
            text = f"{composed_line(together[account.population])} The limit counts sums."
            sys.stdout.write(_indented(text))


def _limit_line(change: Entry) -> str:
    what = change.what
    why = f": {what['why']}" if what["why"] else ""
    return f"limit epsilon {what['epsilon']}, delta {what['delta']} since {change.made[:10]}, set by {what['by']}{why}"


def _indented(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ") + "\n"


def _charge_lines(charges: Sequence[Charge]) -> Iterator[str]:
    line = "  {:<16}  {:<11}  {:<14}  {:>8}  {:>9}  {}"
    yield line.format("made (UTC)", "method", "kind", "epsilon", "delta", "").rstrip()
    for charge in charges:
        # A rule that bounds nothing costs nothing, which is not the same as costing 0.
        counts = charge.guarantee.kind != "syntactic"
        epsilon, delta = (shown_up(float(charge.epsilon)), shown_up(float(charge.delta))) if counts else ("-", "-")
        made = charge.made[:16].replace("T", " ")
        yield line.format(made, charge.method, charge.guarantee.kind, epsilon, delta, charge.status)
        yield from (f"    in {printable(folder)}" for folder in charge.folders)


def composed_line(composed: Composed) -> str:
    """The composed budget by privacy-loss distributions, with its condition."""
    if not composed.below_the_sum:
        return f"By privacy-loss distributions: nothing below the sum at delta {shown_up(composed.delta)}."
    sums = f"{shown_up(composed.epsilon_sum)} at {shown_up(composed.delta_sum)}"
    return (
        f"By privacy-loss distributions: epsilon {composed.epsilon:g} at delta {shown_up(composed.delta)} in all, "
        f"where the sum is {sums}; this {composed.condition}."
    )


def show_verification(ledger: Ledger, digest: str | None, *, as_json: bool) -> None:
    """Print whether the ledger's journal is whole; a problem is a failed check."""
    problems, notices = ledger.verify(), ledger.notices()
    if digest is not None and not ledger.knows(digest):
        problems.append("no entry has the digest that was given: entries are missing, or it is another ledger")
    if as_json:
        known = {"ok": not problems, "digest": ledger.digest(), "problems": problems, "notices": notices}
        json.dump(known, sys.stdout)
        sys.stdout.write("\n")
    else:
        lines = problems or ([f"every entry is as it was written; digest of the last: {ledger.digest()}"])
        lines = [*lines, *(f"note: {notice}" for notice in notices)]
        sys.stdout.write("".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") + "\n" for line in lines))
    if problems:
        raise CheckFailed("the ledger, or its spending record, was changed by other means than querycloak")
