"""Pictures of a guarantee and of a ledger: most of what a test for one person detects; the budget, charge by charge."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.pages import palette
from querycloak.pages.charts import NARROW, Picture, themed
from querycloak.pages.comparison_pictures import percent_axis
from querycloak.pages.layout import render, write_page
from querycloak.pages.shown_text import shown_share
from querycloak.privacy.accounting.gaussian_filter import FALSE_ALARMS, GaussianCost

if TYPE_CHECKING:
    from querycloak.privacy.ledger.ledger import Account, Ledger
    from querycloak.releases.release import Release

_STEPS = 100


def trade_off_picture(release: Release) -> Picture | None:
    """The most that any test for one person's presence detects, by its false alarms (accounting/filter.md, claim 3).

    None where the card bounds no squared loss, or where the unit is not a whole user that is there or not.
    """
    if not release.gaussian_dp or release.proven.neighbours != "add-remove-user":
        return None
    cost = GaussianCost.from_json(release.gaussian_dp)
    shares = sorted({*FALSE_ALARMS, *(step / _STEPS for step in range(1, _STEPS))})
    curve = [
        {
            "false_alarms": share,
            "detected": min(cost.detected_at_most(share), _detected_by_budget(release, share)),
            "guess": share,
        }
        for share in [0.0001, *shares]
    ]
    few = next(row for row in curve if row["false_alarms"] == 0.01)
    by_budget = _detected_by_budget(release, 0.01)
    description = (
        "The upper line: whoever tests if one given person was in the log, and is wrong about 1 % of those who were "
        f"not, is right about at most {shown_share(few['detected'])} of those who were; by epsilon and delta alone it "
        f"would be {shown_share(by_budget)}. The lower line is guessing."
    )
    title = "The most that anybody can detect"
    return Picture("trade-off", title, description, lambda width: themed(_trade_off(curve, width)))


def _detected_by_budget(release: Release, share: float) -> float:
    """The bound by epsilon and delta."""
    epsilon, delta = release.proven.numbers
    return min(exp(min(epsilon, 700.0)) * share + delta, 1 - exp(-epsilon) * (1 - delta - share), 1.0)


def _trade_off(curve: list[dict[str, float]], width: int) -> Any:
    import altair as alt

    whole = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("false_alarms:Q", title="False alarms among people who were not", scale=whole, axis=percent_axis(alt))
    base = alt.Chart(alt.Data(values=curve)).encode(x=x)
    y = alt.Y("detected:Q", title="Detected of those who were", scale=whole, axis=percent_axis(alt))
    bound = base.mark_line(strokeWidth=2, color=palette.light("blue")).encode(y=y)
    guess = base.mark_line(strokeWidth=1, strokeDash=[4, 3], color=palette.light("soft")).encode(y="guess:Q")
    side = min(width - 80, 320)
    return (bound + guess).properties(width=side, height=side * 0.75)


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
    description = f"{account.population}: {spent} is spent after {_charges(len(account.charges))}."
    name, title = f"spending-{number}", "Spent of the limit"
    return Picture(name, title, description, lambda width: themed(_spending(rows, list(parts), width)))


def write_ledger_page(ledger: Ledger, accounts: Sequence[Account], path: Path) -> Path:
    """A private page with a picture of each population's budget."""
    pictures = [(account, spending_picture(account, number)) for number, account in enumerate(accounts, start=1)]
    page = render("ledger.html", title="Budgets", private=True, path=str(ledger.path), accounts=pictures)
    return write_page(page, path, private=True)


def _charges(number: int) -> str:
    return "1 charge" if number == 1 else f"{number:,} charges"


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
