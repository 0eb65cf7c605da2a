"""Unprotected facts that several methods share, in the words of their cards; each method's note lists the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from querycloak.privacy.calibration.table_plan import TablePlan
    from querycloak.privacy.guarantee import Guarantee

ALWAYS = (
    "the parameters of the release",
    "that the log could be read, and in which format if its owner did not name it",
)
BAD_ROWS = "that the share of bad rows in the log was within the owner's limit"
KEPT_ROWS = "that rows (and clicks, if clicks are counted) were kept, as the owner was told before paying"
WITHOUT_GUARANTEE = (*ALWAYS, BAD_ROWS)
"""Without a guarantee, a log with too many bad rows is refused."""
AGREED_ACCOUNTS = "what several accounts of one person agree to release"
TWO_RELEASES = "the difference between two releases of one log"
SEARCHES_OF_EACH = "how many searches of each person were released"


def with_kept_rows(proven: Guarantee) -> Guarantee:
    """The guarantee of a release that its owner could have stopped because nothing was kept."""
    return replace(proven, unprotected=(*proven.unprotected, KEPT_ROWS))


def with_bad_rows(proven: Guarantee) -> Guarantee:
    """The guarantee of a release that would have been refused for too many bad rows."""
    if BAD_ROWS in proven.unprotected:
        return proven
    return replace(proven, unprotected=(*proven.unprotected, BAD_ROWS))


def several_accounts(one: int, at_once: tuple[int, int] | None = None, *, what: str = "text of their choice") -> str:
    """Power of several accounts of one person against a threshold (privacy/calibration/poisoning.md).

    one: how many bring out one text; at_once: a number of texts, and how many accounts bring them all out.
    """
    more = ""
    if at_once is not None and at_once[0] > 1:
        who = f"the same {one:,}" if at_once[1] == one else f"{at_once[1]:,}"
        more = f"; {who} bring out {at_once[0]:,} at once"
    return (
        f"what several accounts of one person do together: {one:,} bring out one {what} with a chance of about one "
        f"half{more}"
    )


def accounts_of_a_rule(k: int, what: str) -> str:
    """Power of several accounts of one person against a required number of users, without noise."""
    return f"{AGREED_ACCOUNTS}: {k:,} bring out any {what}, for certain, and any number of them at once"


def with_thresholds(*plans: TablePlan) -> tuple[str, ...]:
    """Unprotected facts of a release by these plans; accounts by the table that needs the fewest."""
    weakest = min(plans, key=lambda plan: plan.accounts_for(1))
    texts = weakest.per_user
    return (*ALWAYS, several_accounts(weakest.accounts_for(1), (texts, weakest.accounts_for(texts))))


def with_any_bound(plans: Sequence[TablePlan]) -> tuple[str, ...]:
    """The same if the plan is chosen on the log: the fewest accounts that any of the plans needs."""
    texts = max(plan.per_user for plan in plans)
    one, many = (min(plan.accounts_for(number) for plan in plans) for number in (1, texts))
    return (*ALWAYS, several_accounts(one, (texts, many)))
