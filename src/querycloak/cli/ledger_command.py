"""`querycloak ledger`: budgets of populations, and the releases charged to them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.cli.terminal import print_json
from querycloak.errors import CheckFailed
from querycloak.files.documents import parsed_json
from querycloak.privacy.parameters import checked_digest, path_of
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
    accounting: Annotated[
        Literal["sum", "gaussian"] | None,
        typer.Option(
            help="sum: epsilons and deltas add up (if not given). gaussian: squared losses add up, for Gaussian noise. "
            "Fixed with the first charge."
        ),
    ] = None,
    additive_share: Annotated[
        float | None,
        typer.Option(help="gaussian: the part of delta for keys of one user alone; 0.25 if not given."),
    ] = None,
    ledger: options.LedgerFile = None,
) -> None:
    """Set what may be spent on a population in all."""
    from querycloak.privacy.ledger.ledger import Ledger

    book = Ledger(ledger)
    account = book.set_limit(
        population, epsilon, delta, by=by, why=because, accounting=accounting, additive_share=additive_share
    )
    show_accounts(book, [account])


def ledger_plan(
    population: Annotated[str, typer.Argument(metavar="NAME", help="The population that pays.")],
    releases: Annotated[int, typer.Option(help="How many releases the series has.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole series, charged at once.")],
    delta: Annotated[float, typer.Option(help="Delta of the whole series, charged at once.")],
    max_keys_per_user: Annotated[int, typer.Option(help="How many keys of one user count in each release.")] = 1,
    ledger: options.LedgerFile = None,
    as_json: options.Json = False,
) -> None:
    """Fix the Laplace noise of a series, and charge it whole."""
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.privacy.ledger.series import plan_series

    plan, charge = plan_series(Ledger(ledger), population, releases, epsilon, delta, max_keys_per_user)
    noise, threshold = plan.draw.noise, plan.draw.threshold
    if as_json:
        numbers = {"noise": noise.size, "threshold": threshold, "max_keys_per_user": plan.draw.per_user}
        print_json({"population": population, "charge": charge.id, "releases": releases, **numbers})
        return
    text = (
        f"{population}: charged epsilon {epsilon:g}, delta {shown_up(delta)} for {releases:,} releases. Each has "
        f"{noise.words} (epsilon {plan.draw.per_user / noise.size:.3g} alone), threshold {threshold}, and "
        f"{plan.draw.per_user} key{'s' * (plan.draw.per_user > 1)} of a user counts: "
        f"querycloak release queries LOG --plan-of {population} --out DIR"
    )
    sys.stdout.write(textwrap.fill(text, _WIDTH, break_on_hyphens=False) + "\n")


@with_groups
def ledger_show(
    *,
    population: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One population; all if not given.")
    ] = None,
    ledger: options.LedgerFile = None,
    composing: options.Composing,
    picture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a private page with a picture of each budget, too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show budgets, and every charge with its release."""
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.releases.folder import reconcile

    if picture is not None:
        from querycloak.extras import COMPARE, PICTURES, require

        require(COMPARE, "a picture of budgets", PICTURES)
    book = Ledger(ledger)
    reconcile(book)
    accounts = book.show(population)
    if picture is not None:
        from querycloak.pages.ledger_page import write_ledger_page

        write_ledger_page(book, accounts, path_of("picture", picture, "name a file for the page"))
    show_accounts(book, accounts, tightly=composing.tightly, at_delta=composing.at_delta, as_json=as_json)


def ledger_verify(
    ledger: options.LedgerFile = None,
    digest: Annotated[
        str | None, typer.Option(help="The digest that you kept: entries before it must be there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that nothing but querycloak changed the ledger."""
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
        print_json(shown)
        return
    sys.stdout.write(f"ledger {ledger.path}\n")
    if not accounts:
        sys.stdout.write(f"no population has a budget yet: {ledger.how_to_set('NAME').as_typed()}\n")
    for account in accounts:
        sys.stdout.write(_account_text(ledger, account, together.get(account.population)))


def _account_text(ledger: Ledger, account: Account, together: Composed | None) -> str:
    """One account: balance, limits, charges, and the composed figure if there is one."""
    lines = [f"{account.population}: {_balance(account)}\n"]
    if account.left_in_words is not None:
        lines.append(_indented(f"left: {account.left_in_words}"))
    if account.coverage is not None:
        lines.append(_indented(f"the sum {account.coverage}"))
    lines += [_indented(_limit_line(change)) for change in ledger.limits(account.population)]
    if account.charges:
        lines += [f"{line}\n" for line in _charge_lines(account.charges)]
    if together is not None:
        counts = "sums" if account.terms.is_sum else "squared losses and additive deltas"
        lines.append(_indented(f"{composed_line(together)} The limit counts {counts}."))
    return "".join(lines)


def _balance(account: Account) -> str:
    """Spent and remaining budget: of both sums of a Gaussian limit, or of epsilon and delta."""
    limit = account.limit
    if limit is None:
        (epsilon, delta), (left_epsilon, left_delta) = account.spent, account.left
        return (
            f"epsilon {shown_up(float(epsilon))} spent, {float(left_epsilon):g} left; "
            f"delta {shown_up(float(delta))} spent, {float(left_delta):.3g} left"
        )
    total = account.gaussian_spent
    over = "" if limit.admits(total) else "; more is spent than this limit allows, so every release is refused"
    return (
        f"squared loss {shown_up(total.squared)} spent of {limit.squared:.4g}; "
        f"additive delta {shown_up(total.additive)} spent of {limit.additive:.3g}{over}"
    )


def _limit_line(change: Entry) -> str:
    what = change.what
    why = f": {what['why']}" if what["why"] else ""
    terms = parsed_json(what.get("terms", "{}"))
    how = f", gaussian, additive share {terms['additive_share']:g}" if terms else ""
    limit = f"limit epsilon {what['epsilon']}, delta {what['delta']}{how}"
    return f"{limit} since {change.made[:10]}, set by {what['by']}{why}"


def _indented(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ") + "\n"


def _charge_lines(charges: Sequence[Charge]) -> Iterator[str]:
    line = "  {:<16}  {:<11}  {:<14}  {:>8}  {:>9}  {}"
    yield line.format("made (UTC)", "method", "kind", "epsilon", "delta", "").rstrip()
    for charge in charges:
        # A rule without a privacy guarantee costs nothing; a 0 would read as perfect privacy.
        counts = charge.guarantee.kind != "syntactic"
        epsilon, delta = (shown_up(float(charge.epsilon)), shown_up(float(charge.delta))) if counts else ("-", "-")
        made = charge.made[:16].replace("T", " ")
        yield line.format(made, charge.method, charge.guarantee.kind, epsilon, delta, charge.status)
        if "period" in charge.parameters:
            yield f"    rows {printable(str(charge.parameters['period']))}"
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
    known = None if digest is None else checked_digest("digest", digest)
    problems, notices = ledger.verify(), ledger.notices()
    if known is not None and not ledger.knows(known):
        problems.append("no entry has the digest that was given: entries are missing, or it is another ledger")
    if as_json:
        shown = {"ok": not problems, "digest": ledger.digest(), "problems": problems, "notices": notices}
        print_json(shown)
    else:
        lines = problems or ([f"every entry is as it was written; digest of the last: {ledger.digest()}"])
        lines = [*lines, *(f"note: {notice}" for notice in notices)]
        sys.stdout.write("".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") + "\n" for line in lines))
    if problems:
        raise CheckFailed("the ledger, or its spending record, was changed by other means than querycloak")
