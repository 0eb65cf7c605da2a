"""Forced out: the number of accounts that one person needs to bring out a text of their choice, or several at once.

The card determines the number of accounts; a trial runs the method itself with invented accounts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData
from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target
from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import read
from querycloak.methods.forcing_accounts import POOL_QUERY, TEXT, URL, forced_out_rule
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.public_lists import PublicList, queries_of
from querycloak.methods.method import DRAWN_TOTAL, Method
from querycloak.methods.option import current_options, options_of
from querycloak.methods.registry import METHODS, method_class
from querycloak.privacy.calibration.poisoning import ForcedOutRule
from querycloak.privacy.sampling.randomness import Randomness

TRIED = 200
"""Texts tried in each attempt; each text, or group of texts, has accounts of its own."""
SEVERAL = 16
CROWD = 1_000
"""Users who ask a frequent word, beside which an attempt asks its text."""
_FREQUENT = "visa"
_ELSEWHERE = "example.com"
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
# Parameters that a draw chose; then parameters that methods solve for, which exclude a budget.
_CHOSEN = ("auto_choices", "auto_share", DRAWN_TOTAL)
_SOLVED = ("noise", "threshold", "fresh_noise", "queries", "clicks", "sessions", "split")
NOT_TRIED = "not tried: its card is not enough to make the method again; the number of accounts is by formula"
NO_NUMBER = "its card does not say how many users a text needs to come out"
EVERY_URL = "no threshold: as published, every url that anybody clicked for a released query comes out"
CANDIDATES = (
    "its candidates are selected as by queries: the card's unprotected facts have the number of accounts, and attacks "
    "on queries, at the card's selection_budget_of_one_user, try it"
)
AROUND_CONCEPTS = "no threshold: as published, words around a concept come out as they were typed"
_OF_SEMANTIC = {"log": CANDIDATES, "paper": AROUND_CONCEPTS}
NEVER = {
    "semantic": "what comes out is drawn from a taxonomy: no text that was typed does",
    "generalize": "what comes out are labels of WordNet: no text that was typed does",
}


@dataclass(frozen=True)
class Attempt:
    """Accounts that ask a number of texts each, alone or beside a word that many others ask."""

    accounts: int
    texts: int = 1
    beside: bool = False
    crowd: int = 0
    """Others, who ask a frequent word."""
    key: str = TEXT
    repeats: int = 1
    """Number of times that each account asks each text."""
    letters: bool = False
    """True if texts have no digit, for rules that leave out numbers."""

    def __str__(self) -> str:
        keys = {TEXT: "text", POOL_QUERY: "query", URL: "url"}[self.key]
        plural = f"{keys.removesuffix('y')}ies" if keys == "query" else f"{keys}s"
        many = f"{self.accounts} account{'s' * (self.accounts > 1)}, {self.texts} {keys if self.texts == 1 else plural}"
        return many + " of the pool" * (self.key == POOL_QUERY) + " beside a frequent word" * self.beside


class ForcedOut:
    """One text, and several by the same accounts: the number of accounts by formula, and its success in a trial."""

    name: ClassVar[str] = "forced-out"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs a card that states the users a text needs to come out."""
        if release.method == "semantic" and release.variant in _OF_SEMANTIC:
            return _OF_SEMANTIC[release.variant]
        if release.method in NEVER:
            return NEVER[release.method]
        if any(name in release.parameters for name in ("by", "views")):
            return "the accounts of this attack have no attributes and no views; try the same method without them"
        if rule_of(release) is None:
            return EVERY_URL if release.method == "query-pool" else NO_NUMBER
        return None

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Attempts on a log of invented accounts only."""
        rule = rule_of(release)
        if rule is None:
            return
        if release.method is None:
            yield Finding.of(str(Attempt(1)), Share.of(TRIED, TRIED), Share.exactly(0.0), 0.0)
            return
        method = _rebuilt(release)
        sequences = rule.table == "sessions"
        for attempt in _attempts(rule, release.parameters.get("sessions_per_user") if sequences else None):
            if method is None:
                yield Finding.missing(NOT_TRIED, str(attempt))
                continue
            groups = max(TRIED // attempt.texts, 10)
            out = _brought_out(method, attempt, groups, knowledge.random(f"forced-out {attempt}"), sequences=sequences)
            yield Finding.of(str(attempt), Share.of(out, groups * attempt.texts), Share.exactly(0.0), 0.0)


def rule_of(release: Target) -> ForcedOutRule | None:
    """Rule by the release's card; for the log itself, every text comes out."""
    if release.method is None:
        return ForcedOutRule(0)
    if release.method == "query-pool" and release.variant == "paper":
        return None
    return forced_out_rule(release.method, release.variant, release.parameters)


def _attempts(rule: ForcedOutRule, sessions: int | None) -> Iterator[Attempt]:
    """sessions: number of sessions of one user that count, if the release has sequences."""
    records = rule.adding == "records"
    crowd = max(CROWD * (rule.beside is not None or rule.key == URL), rule.crowd)
    once = Attempt(
        rule.accounts, key=rule.key, crowd=crowd, repeats=rule.added(1) if records else 1, letters=rule.crowd > 0
    )
    yield once
    if rule.accounts > 1:
        yield replace(once, accounts=rule.accounts - 1)
    several = min(SEVERAL, rule.per_user or SEVERAL, sessions or SEVERAL)
    if several > 1:
        repeats = rule.added(several) if records else 1
        yield replace(once, accounts=rule.accounts_for(several), texts=several, repeats=repeats)
    if rule.beside is not None:
        yield Attempt(rule.beside, beside=True, crowd=crowd)


def _brought_out(
    method: Method, attempt: Attempt, groups: int, random: np.random.Generator, *, sequences: bool = False
) -> int:
    """Number of texts that come out if all accounts of a group ask the same texts.

    sequences: each text is the first of a session of two queries.
    """
    chosen = _chosen(attempt, groups * attempt.texts, random)
    rows = _asked(attempt, groups, chosen)
    if sequences:
        after = rows.set_column(1, "time", pc.add(rows["time"], pa.scalar(60, pa.duration("s"))))
        second = pc.binary_join_element_wise(rows["query"], "then", " ")
        unclicked = after.set_column(2, "query", second)
        for place, name in ((3, "rank"), (4, "url")):
            unclicked = unclicked.set_column(place, name, pa.nulls(len(rows), rows[name].type))
        rows = pa.concat_tables([rows, unclicked])
    folder = PrivateFolder()
    try:
        pq.write_table(rows, folder.path / "accounts.parquet")
        with read(folder.path / "accounts.parquet") as log:
            release = Target.of(method.release(log, randomness=Randomness()), "accounts")
            parts = [release.table("clicks")["url"]] if attempt.key == URL else release.texts()
            texts = pa.chunked_array([part.unique() for part in parts], pa.string())
            return int(pc.sum(pc.is_in(chosen, texts)).as_py() or 0)
    finally:
        folder.remove()


def _chosen(attempt: Attempt, number: int, random: np.random.Generator) -> pa.Array:
    """Distinct texts that no other user has; queries of the built-in pool if only these come out."""
    if attempt.key == POOL_QUERY:
        pool = queries_of(PublicList.of("pool", None), Choices())
        return pool.take(pa.array(random.choice(len(pool), number, replace=False)))
    ending = {TEXT: f" {_FREQUENT}" * attempt.beside, URL: ".example"}[attempt.key]
    texts = [f"q{each:015x}{ending}" for each in random.integers(0, 1 << 60, number).tolist()]
    return pa.array([text.translate(_LETTERS) if attempt.letters else text for text in texts])


def _asked(attempt: Attempt, groups: int, chosen: pa.Array) -> pa.Table:
    """The rows of all accounts, an hour between the searches of each, and of those who ask the frequent word."""
    accounts, texts = attempt.accounts, attempt.texts
    text = np.tile(np.arange(groups * texts).reshape(groups, 1, texts), (1, accounts, 1)).ravel()
    user = np.repeat(np.arange(groups * accounts), texts)
    hour = np.tile(np.arange(texts), groups * accounts)
    if attempt.crowd:
        text = np.append(text, np.full(attempt.crowd, len(chosen)))
        user = np.append(user, groups * accounts + np.arange(attempt.crowd))
        hour = np.append(hour, np.zeros(attempt.crowd, np.int64))
    text, user, hour = (np.repeat(each, attempt.repeats) for each in (text, user, hour))
    second = np.arange(len(text)) % attempt.repeats
    frequent, elsewhere = (pa.array([each]) for each in (_FREQUENT, _ELSEWHERE))
    texts_of = pa.concat_arrays([chosen, elsewhere if attempt.key == URL else frequent]).take(pa.array(text))
    fixed = (frequent if attempt.key == URL else elsewhere).take(pa.array(np.zeros(len(text), np.int64)))
    return pa.table(
        {
            "user": pa.array(user).cast(pa.string()),
            "time": pa.array(1_141_205_400 + 3600 * hour + second, pa.timestamp("s")),
            "query": fixed if attempt.key == URL else texts_of,
            "rank": pa.array(np.ones(len(text), np.int32)),
            "url": texts_of if attempt.key == URL else fixed,
        }
    )


def _rebuilt(release: Target) -> Method | None:
    """The method of the card, with the same solved-for numbers; None if the card does not determine it."""
    if release.method is None or release.method not in METHODS:
        return None
    kind = method_class(release.method)
    if release.options is not None:
        return _by_options(kind(**release.options), release.parameters)
    files = {each.name for each in options_of(kind) if each.names_file}
    if any(isinstance(release.parameters.get(f"{name}_sha256"), str) for name in files):
        return None  # what was in the owner's list is not on the card
    accepted = {field.name for field in fields(kind) if field.init} - files
    parameters = {name: value for name, value in release.parameters.items() if name not in _CHOSEN}
    options = current_options(kind, parameters)
    options_given = {name: value for name, value in options.items() if name in accepted and value is not None}
    options_given["variant"] = release.variant
    if release.variant == "paper":  # has two draws of its own
        options_given.pop("two_draws", None)
    bare = {name: value for name, value in options_given.items() if name not in _SOLVED}
    given = [options_given, *({**bare, **budget} for budget in _budgets(release) if set(budget) <= accepted)]
    for tried in given:
        try:
            method: Method = kind(**tried)
        except (ParameterError, TypeError):
            continue
        if _alike(method.parameters(), parameters):
            return method
    return None


def _by_options(method: Method, parameters: Mapping[str, Any]) -> Method | None:
    """The method with these options, at the plan that was chosen; None if its parameters differ from the card's."""
    candidates: Sequence[Method] = [method]
    if isinstance(method, KeysMethod) and method.plan.candidates:
        candidates = [each.method for each in method.plan.candidates]
    for each in candidates:
        if all(_alike(value, parameters[name]) for name, value in each.parameters().items() if name in parameters):
            return each
    return None


def _budgets(release: Target) -> Iterator[dict[str, float]]:
    """Candidate budgets of the release: slightly above the proven epsilon and delta."""
    proven = release.proven
    if proven is None or proven.epsilon is None:
        return
    # What was chosen on the log had only a part of epsilon.
    spent = release.parameters.get("auto_share")
    epsilon = proven.epsilon if spent is None else proven.epsilon * (1 - float(spent))
    if not proven.delta:
        yield {"epsilon": epsilon}
        return
    for digits in (15, 3, 2, 1, 0):
        unit = 10.0 ** (math.floor(math.log10(proven.delta)) + 1 - digits)
        yield {"epsilon": epsilon, "delta": float(f"{math.ceil(proven.delta / unit) * unit:.15g}")}


def _alike(one: Any, other: Any) -> bool:
    """True if parameters are equal, numbers within 2 %."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return math.isclose(one, other, rel_tol=0.02)
    return bool(one == other)
