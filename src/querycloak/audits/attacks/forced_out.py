"""Forced out: the number of accounts that one person needs to bring out a text of their choice, or several at once.

The number of accounts follows from what the card says; then it is tried, with the method itself and invented accounts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querycloak.audits.attack import Finding, Share
from querycloak.audits.knowledge import AuditData
from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target
from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.searchlog import read
from querycloak.methods.method import Method
from querycloak.methods.option import current_options
from querycloak.methods.registry import METHODS, method_class
from querycloak.privacy.sampling.randomness import Randomness

TRIED = 200
"""Texts that are tried to be brought out, each by accounts of its own."""
SEVERAL = 16
CROWD = 1_000
"""Users who ask a frequent word beside which a text is tried to be brought out."""
_FREQUENT = "visa"
# What methods solve for, and may not be given along with a budget.
_CHOSEN = ("auto_choices", "auto_share")
_SOLVED = ("noise", "threshold", "fresh_noise", "queries", "clicks", "sessions", "split")
NOT_TRIED = "not tried: its card is not enough to make the method again; the number of accounts is by formula"
NEVER = {
    "semantic": "what comes out is drawn from a taxonomy: no text that was typed does",
    "generalize": "what comes out are labels of WordNet: no text that was typed does",
    "query-pool": "nothing outside a public list of queries can come out, whatever accounts ask",
}


@dataclass(frozen=True)
class ForcedOutRule:
    """Number of accounts that bring out one text with probability one half, and the cost of n texts at once.

    `at_once`: texts that the same accounts bring out beside it; None if there is no bound. `shared`: they share one
    weight among them, so that n texts take sqrt(n) times as many accounts. `beside`: accounts that are enough for a
    text beside a word that many ask.
    """

    accounts: int
    at_once: int | None = None
    shared: bool = False
    beside: int | None = None


@dataclass(frozen=True)
class Try:
    """A number of accounts asks a number of texts each, perhaps beside a word that many others ask."""

    accounts: int
    texts: int = 1
    beside: bool = False

    def __str__(self) -> str:
        many = f"{self.accounts} account{'s' * (self.accounts > 1)}, {self.texts} text{'s' * (self.texts > 1)}"
        return many + " beside a frequent word" * self.beside


class ForcedOut:
    """One text, and several by the same accounts: by formula, and tried."""

    name: ClassVar[str] = "forced-out"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """It takes a method whose card says when a text comes out."""
        if release.method in NEVER and not release.parameters.get("off_pool"):
            return NEVER[release.method]
        if rule_of(release) is None:
            return "its card does not say how many users a text needs to come out"
        return None

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """Tried with a log of invented accounts and nobody else."""
        rule = rule_of(release)
        if rule is None:
            return
        if release.method is None:
            yield Finding.of(str(Try(1)), Share.of(TRIED, TRIED), Share.exactly(0.0), 0.0)
            return
        method = _rebuilt(release)
        for tried in _tries(rule):
            if method is None:
                yield Finding.missing(NOT_TRIED, str(tried))
                continue
            groups = max(TRIED // tried.texts, 10)
            out = _brought_out(method, tried, groups, knowledge.random(f"forced-out {tried}"))
            yield Finding.of(str(tried), Share.of(out, groups * tried.texts), Share.exactly(0.0), 0.0)


def rule_of(release: Target) -> ForcedOutRule | None:
    """Rule by the release's card; for the log itself, every text comes out."""
    parameters: Mapping[str, Any] = release.parameters
    if release.method is None:
        return ForcedOutRule(1)
    if release.method == "k-anonymity":
        return ForcedOutRule(int(parameters["min_users"]))
    if release.method == "affinity":
        words = 1 if parameters.get("min_word_users") is None else int(parameters["min_word_users"])
        return ForcedOutRule(max(int(parameters["min_users"]), words), beside=words)
    # Tables with plans of their own: a text needs to come out of one of them.
    own = [parameters[kind] for kind in ("queries", "clicks") if isinstance(parameters.get(kind), Mapping)]
    threshold = min((each["threshold"] for each in own if "threshold" in each), default=parameters.get("threshold"))
    if threshold is None:
        return None
    per_user = parameters.get("per_user") if isinstance(parameters.get("per_user"), int) else None
    shared = parameters.get("selection") in ("weighted", "rounds")
    if release.variant == "paper" and per_user:
        # One account may count several times for one text there, but then for no other.
        return ForcedOutRule(math.floor(threshold / per_user) + 1, 1)
    return ForcedOutRule(math.floor(threshold) + 1, per_user, shared)


def _tries(rule: ForcedOutRule) -> Iterator[Try]:
    yield Try(rule.accounts)
    if rule.accounts > 1:
        yield Try(rule.accounts - 1)
    several = min(SEVERAL, rule.at_once or SEVERAL)
    if several > 1:
        yield Try(math.ceil(rule.accounts * math.sqrt(several)) if rule.shared else rule.accounts, several)
    if rule.beside is not None:
        yield Try(rule.beside, beside=True)


def _brought_out(method: Method, tried: Try, groups: int, random: np.random.Generator) -> int:
    """Number of texts that come out if all accounts of a group ask the same texts."""
    accounts, texts = tried.accounts, tried.texts
    beside = f" {_FREQUENT}" * tried.beside
    chosen = pa.array([f"q{number:015x}{beside}" for number in random.integers(0, 1 << 60, groups * texts).tolist()])
    text = np.tile(np.arange(groups * texts).reshape(groups, 1, texts), (1, accounts, 1)).ravel()
    user = np.repeat(np.arange(groups * accounts), texts)
    minute = np.tile(np.arange(texts), groups * accounts)
    if tried.beside:
        text = np.append(text, np.full(CROWD, len(chosen)))
        user = np.append(user, groups * accounts + np.arange(CROWD))
        minute = np.append(minute, np.zeros(CROWD, np.int64))
    asked = pa.concat_arrays([chosen, pa.array([_FREQUENT])])
    rows = pa.table(
        {
            "user": pa.array(user).cast(pa.string()),
            "time": pa.array(1_141_205_400 + 60 * minute, pa.timestamp("s")),
            "query": asked.take(pa.array(text)),
            "rank": pa.array(np.ones(len(text), np.int32)),
            "url": pa.array(["example.com"]).take(pa.array(np.zeros(len(text), np.int64))),
        }
    )
    folder = PrivateFolder()
    try:
        pq.write_table(rows, folder.path / "accounts.parquet")
        with read(folder.path / "accounts.parquet") as log:
            target = Target.of(method.release(log, randomness=Randomness()), "accounts")
            released_texts = pa.chunked_array([part.unique() for part in target.texts()], pa.string())
            return int(pc.sum(pc.is_in(chosen, released_texts)).as_py() or 0)
    finally:
        folder.remove()


def _rebuilt(release: Target) -> Method | None:
    """The method with the parameters of the card, if it can be had: solved-for numbers must come out the same."""
    if release.method is None or release.method not in METHODS:
        return None
    kind = method_class(release.method)
    accepted = {field.name for field in fields(kind) if field.init}
    parameters = {name: value for name, value in release.parameters.items() if name not in _CHOSEN}
    options = current_options(kind, parameters)
    options_given = {name: value for name, value in options.items() if name in accepted and value is not None}
    options_given["variant"] = release.variant
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


def _budgets(release: Target) -> Iterator[dict[str, float]]:
    """Budgets that may have been asked for: what is proven is at most that, by a little."""
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
    """True if two sets of parameters are the same, numbers to within two in a hundred."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return math.isclose(one, other, rel_tol=0.02)
    return bool(one == other)
