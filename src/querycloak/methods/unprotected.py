"""What several methods leave unprotected, in the words of their cards; each method's note lists the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from querycloak.privacy.prices.histogram_plan import HistogramPlan
    from querycloak.privacy.prices.table_plan import TablePlan

ALWAYS = (
    "the parameters of the release",
    "that the log was read at all: its format was recognised, and no more of its rows were bad than its owner allows",
)
AGREED_ACCOUNTS = "what several accounts of one person agree to release"
TWO_RELEASES = "the difference between two releases of one log"
SEARCHES_OF_EACH = "how many searches each person has among the released"


def several_accounts(enough: int | None = None) -> str:
    """What accounts of one person can do where a threshold decides; so many are enough, if that is known."""
    return (
        f"what several accounts of one person do together: {enough or 'a few'} that do the same may well bring it out, "
        "whatever it is"
    )


def with_thresholds(*plans: TablePlan) -> tuple[str, ...]:
    """What a release by these plans leaves unprotected; without any, plans are chosen later."""
    return (*ALWAYS, several_accounts(min((plan.enough_users for plan in plans), default=None)))


def of_paper_variant(*plans: HistogramPlan) -> tuple[str, ...]:
    """The same where one user may add as much as the bound to a single count."""
    return (*ALWAYS, several_accounts(min(plan.threshold // plan.per_user + 1 for plan in plans)))
