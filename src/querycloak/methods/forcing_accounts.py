"""The one place that says how many accounts force a text out of a release, from its parameters alone (poisoning.md).

Cards, pages and audits take the number from here. Where a setting is chosen on the log, a release has the number of
the chosen setting; only before the choice is it the smallest over all settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from querycloak.privacy.calibration.poisoning import ForcedOutRule, rule_of_table

AGREED_ACCOUNTS = "what several accounts of one person agree to release"
TEXT, POOL_QUERY, URL = "text", "query of the pool", "url"
"""Keys that accounts can force: any text, a query of a public list, a url of a released query."""
_KEYS = {TEXT: "text of their choice", POOL_QUERY: POOL_QUERY, URL: "url of their choice beside a released query"}
_TABLES = ("queries", "clicks", "sessions", "level-1", "hosts")
"""Tables from which a text comes out; a phrase of several words needs its words to come out first."""


def forced_out_rule(method: str | None, variant: str, parameters: Mapping[str, Any]) -> ForcedOutRule | None:
    """The rule of a release, or of a method with chosen settings; None if parameters do not determine it."""
    if method == "k-anonymity":
        return ForcedOutRule(int(parameters["min_users"]) - 1)
    if method == "eu-records":
        return ForcedOutRule(int(parameters["min_term_users"]) - 1, crowd=int(parameters["min_group_users"]))
    if method == "affinity":
        words = 1 if parameters.get("min_word_users") is None else int(parameters["min_word_users"])
        return ForcedOutRule(max(int(parameters["min_users"]), words) - 1, beside=words)
    if method == "query-pool":
        return _rule_of_pool(parameters)
    records = variant == "paper" and method in ("clicks", "sessions")
    return fewest(list(_rules_of_tables(parameters, records=records)))


def fewest(rules: Sequence[ForcedOutRule]) -> ForcedOutRule | None:
    """The rule that needs the fewest accounts for one text, the first of several; None if there is none."""
    return min(rules, key=lambda rule: rule.accounts, default=None)


def _rules_of_tables(parameters: Mapping[str, Any], *, records: bool) -> Iterator[ForcedOutRule]:
    """A rule for each table; parameters that are a table's own stand under its name."""
    own = {table: parameters[table] for table in _TABLES if isinstance(parameters.get(table), Mapping)}
    tables: dict[str | None, Mapping[str, Any]] = {table: {**parameters, **own[table]} for table in own}
    if not any("threshold" in each for each in own.values()):
        tables = {None: parameters}
    if "sequences_per_user" in parameters:
        tables = {None: parameters, **tables} if parameters.get("per_user") is not None else {}
        sequences = {"per_user": parameters["sequences_per_user"]}
        tables["sessions"] = {**parameters, **own.get("sessions", {}), **sequences}
    for table, each in tables.items():
        if each.get("threshold") is not None:
            rule = rule_of_table(each, records=records)
            yield ForcedOutRule(rule.too_little, rule.per_user, rule.adding, table=table)


def _rule_of_pool(parameters: Mapping[str, Any]) -> ForcedOutRule:
    """Outside public lists if anything may come out there, else of the pool."""
    queries = ForcedOutRule(int(parameters["threshold"]), parameters.get("queries_per_user"), key=POOL_QUERY)
    outside = []
    if isinstance(parameters.get("outside"), Mapping):
        for table, own in parameters["outside"].items():
            rule = rule_of_table(own)
            key = TEXT if table == "queries" else URL
            outside.append(ForcedOutRule(rule.too_little, rule.per_user, rule.adding, key=key))
        return fewest(outside) or queries
    if parameters.get("off_pool"):
        outside.append(_rule_outside(parameters, "queries", parameters["threshold"], TEXT))
    if parameters.get("clicks") == "threshold":
        outside.append(_rule_outside(parameters, "clicks", parameters["clicks_threshold"], URL))
    return fewest(outside) or queries


def _rule_outside(parameters: Mapping[str, Any], table: str, threshold: Any, key: Any) -> ForcedOutRule:
    """Rule of keys outside public lists: one threshold, with a tie probability if the parameters have one."""
    own = {name: parameters.get(f"{table}_{name}") for name in ("per_user", "noise", "coin")}
    rule = rule_of_table({**own, "threshold": threshold, "selection": "laplace"})
    return ForcedOutRule(rule.too_little, rule.per_user, rule.adding, key=key)


def several_accounts(*rules: ForcedOutRule) -> str:
    """The rule in the words of a card; several: those of the settings of which one is still to be chosen."""
    texts = max(each.per_user or 1 for each in rules)
    one, many = (min(each.accounts_for(number) for each in rules) for number in (1, texts))
    more = ""
    if texts > 1:
        who = f"the same {one:,}" if many == one else f"{many:,}"
        more = f"; {who} bring out {texts:,} at once"
    chosen = " (each in the setting that needs fewest; a release's card has those of the setting that was chosen)"
    return (
        f"what several accounts of one person do together: {one:,} bring out one {_KEYS[rules[0].key]} with a chance "
        f"of about one half{more}{chosen if len(rules) > 1 else ''}"
    )


def accounts_of_a_rule(k: int, what: str) -> str:
    """Power of several accounts of one person against a required number of users, without noise."""
    return f"{AGREED_ACCOUNTS}: {k:,} bring out any {what}, for certain, and any number of them at once"


def accounts_beside(rule: ForcedOutRule) -> str:
    """The power of accounts against a rule by which a text beside a frequent query may need fewer of them."""
    if rule.beside == rule.accounts:
        return accounts_of_a_rule(rule.accounts, "text")
    return (
        f"{AGREED_ACCOUNTS}: {rule.beside:,} bring out any text that holds a frequent query, {rule.accounts:,} any "
        "text at all, for certain, and any number of them at once"
    )
