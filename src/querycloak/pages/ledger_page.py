"""The ledger on pages: the balance of a release, and a page with a picture of each budget."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.pages import palette
from querycloak.pages.charts import NARROW, Picture, themed
from querycloak.pages.comparison_pictures import percent_axis
from querycloak.pages.layout import render, write_page
from querycloak.pages.shown_text import shown_share
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, GaussianLimit
from querycloak.privacy.ledger.accounts import Account, Charge
from querycloak.privacy.sampling.exact import rounded_up, shown_up

if TYPE_CHECKING:
    from querycloak.privacy.ledger.ledger import Ledger


def balance_of(account: Account | None, charge: int | None) -> list[tuple[str, str]] | None:
    """Limit of an account, and its spending before and with this charge; None if the release was not charged."""
    if account is None or charge is None:
        return None
    before = [each for each in account.charges if each.id < charge]
    with_this = [each for each in account.charges if each.id <= charge]
    if account.limit is not None:
        return [("Population", account.population), *_squared_balance(account, account.limit, before, with_this)]
    sums = [
        tuple(sum((getattr(each, name) for each in charges), start=Fraction(0)) for name in ("epsilon", "delta"))
        for charges in (before, with_this, account.charges)
    ]
    texts = [f"epsilon {rounded_up(epsilon):g}, delta {rounded_up(delta):g}" for epsilon, delta in sums]
    left = account.epsilon_limit - float(sums[1][0]), account.delta_limit - float(sums[1][1])
    return [
        ("Population", account.population),
        ("Limit", f"epsilon {account.epsilon_limit:g}, delta {account.delta_limit:g}"),
        ("Spent before this release", f"{texts[0]} ({len(before)} charges)"),
        ("Spent with this release", texts[1]),
        ("Left after this release", f"epsilon {max(left[0], 0.0):g}, delta {max(left[1], 0.0):g}"),
        ("Spent by now", f"{texts[2]} ({len(account.charges)} charges)"),
    ]


def _squared_balance(
    account: Account, limit: GaussianLimit, before: Sequence[Charge], with_this: Sequence[Charge]
) -> list[tuple[str, str]]:
    """The balance of a ledger that adds up squared losses."""
    parts = (before, with_this, account.charges)
    first, second, total = (sum((each.gaussian for each in part), start=GaussianCost()) for part in parts)

    def words(cost: GaussianCost) -> str:
        return f"squared loss {shown_up(cost.squared)}, additive delta {shown_up(cost.additive)}"

    left = max(limit.squared - second.squared, 0.0), max(limit.additive - second.additive, 0.0)
    return [
        ("Limit", f"epsilon {limit.epsilon:g}, delta {limit.delta:g}: squared loss {limit.squared:.4g}, "
                  f"additive delta {limit.additive:.3g}"),
        ("Spent before this release", f"{words(first)} ({len(before)} charges)"),
        ("Spent with this release", words(second)),
        ("Left after this release", f"squared loss {left[0]:.4g}, additive delta {left[1]:.3g}"),
        ("Spent by now", f"{words(total)} ({len(account.charges)} charges)"),
    ]  # fmt: skip


def spending_picture(account: Account, number: int = 1) -> Picture:
    """Share of a population's limit that was spent, after each of its charges; number: of the picture on its page."""
    parts = _spent_shares(account)
    rows = [
        {"charge": place, "part": part, "share": share}
        for part, shares in parts.items()
        for place, share in enumerate([0.0, *shares])
    ]
    last = {part: shares[-1] if shares else 0.0 for part, shares in parts.items()}
    spent = ", ".join(f"{shown_share(share)} of {part}" for part, share in last.items())
    charges = len(account.charges)
    description = f"{account.population}: {spent} is spent after {charges:,} charge{'s' * (charges != 1)}."
    name, title = f"spending-{number}", "Spent of the limit"
    return Picture(name, title, description, lambda width: themed(_spending(rows, list(parts), width)))


def write_ledger_page(ledger: Ledger, accounts: Sequence[Account], path: Path) -> Path:
    """A private page with a picture of each population's budget."""
    pictures = [(account, spending_picture(account, number)) for number, account in enumerate(accounts, start=1)]
    page = render("ledger.html", title="Budgets", private=True, path=str(ledger.path), accounts=pictures)
    return write_page(page, path, private=True)


def _spent_shares(account: Account) -> dict[str, list[float]]:
    """Running sums over the charges, as shares of what the ledger adds up and limits."""
    if account.limit is None:
        sums = {
            "epsilon": ([float(charge.epsilon) for charge in account.charges], account.epsilon_limit),
            "delta": ([float(charge.delta) for charge in account.charges], account.delta_limit),
        }
    else:
        limit = account.limit
        sums = {
            "squared loss": ([charge.gaussian.squared for charge in account.charges], limit.squared),
            "additive delta": ([charge.gaussian.additive for charge in account.charges], limit.additive),
        }
    shares = {}
    for part, (spent, most) in sums.items():
        total, running = 0.0, []
        for each in spent:
            total += each
            running.append(total / most if most else 0.0)
        shares[part] = running
    return shares


def _spending(rows: list[dict[str, Any]], parts: list[str], width: int) -> Any:
    import altair as alt

    top = max([1.0, *(row["share"] for row in rows)])
    colours = alt.Scale(domain=parts, range=[palette.light("blue"), palette.light("orange")])
    legend = alt.Legend(title=None, orient="bottom")
    last = max(row["charge"] for row in rows)
    ticks = alt.Axis(values=list(range(0, last + 1, max(1, last // 6))), format="d", grid=False)
    steps = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after", point=True, strokeWidth=2).encode(
        x=alt.X("charge:Q", title="Charges", axis=ticks, scale=alt.Scale(domain=[0, max(last, 1)], nice=False)),
        y=alt.Y("share:Q", title="Spent of the limit", axis=percent_axis(alt), scale=alt.Scale(domain=[0, top])),
        color=alt.Color("part:N", scale=colours, legend=legend),
    )  # fmt: skip
    limit = alt.Chart(alt.Data(values=[{"share": 1.0}])).mark_rule(color=palette.light("ink"), strokeDash=[4, 3])
    narrow = width <= NARROW
    return (steps + limit.encode(y="share:Q")).properties(width=width - 80, height=180 if narrow else 240)
