"""`querycloak ledger`: budgets, and what has been spent on whom."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from querycloak.privacy.ledger import Account


def show_accounts(accounts: Sequence[Account], *, as_json: bool) -> None:
    """Print limits, spending and every charge."""
    if as_json:
        json.dump([account.to_json() for account in accounts], sys.stdout)
        sys.stdout.write("\n")
        return
    if not accounts:
        sys.stdout.write("no population has a budget yet: querycloak ledger set NAME --epsilon 8 --delta 1e-6\n")
    for account in accounts:
        (epsilon, delta), (left_epsilon, left_delta) = account.spent, account.left
        sys.stdout.write(
            f"{account.population}: epsilon {float(epsilon):g} spent, {float(left_epsilon):g} left; "
            f"delta {float(delta):.3g} spent, {float(left_delta):.3g} left\n"
        )
        for charge in account.charges:
            spent = f"epsilon {float(charge.epsilon):g}, delta {float(charge.delta):.3g}"
            sys.stdout.write(f"  {charge.made}  {charge.method:<12} {spent:<32} {charge.status}\n")
