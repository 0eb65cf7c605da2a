"""Neighbouring logs that a method might fail on: one log with a user, or with that user's queries, and one without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from querycloak.audits.guarantees.mechanism import Pair
from querycloak.audits.guarantees.user_rows import ClickRows, log_text, user_rows
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.method import Method
from querycloak.methods.semantic.log_domain import LogSemantic
from querycloak.methods.semantic.method import Semantic
from querycloak.privacy.calibration.accuracy import LIKELY
from querycloak.privacy.parameters import refuse

Pairs = Iterator[Pair[str]]
NEW = "new"
_MARGIN = 3
_MOST_SHARED = 16
_FEW_SHARED = 2
_LIFTED = 10
_RARE = 5
_MOST_OWN = 4
_ENOUGH_ROWS = 120
_TRIED_LABELS = 60
_SEARCHES = 3
_UNKNOWN = "zzyxqwv"


@dataclass(frozen=True)
class NeighbourLogs:
    """Pairs of neighbouring logs for a method: those of all kinds, or of the kinds named."""

    method: Method
    kinds: Sequence[str] | None = None

    def pairs(self) -> list[Pair[str]]:
        """The pairs, kind after kind."""
        makers = self._makers()
        wanted = list(makers) if self.kinds is None else list(self.kinds)
        for kind in wanted:
            if kind not in makers:
                refuse("neighbours", f"among {', '.join(makers)} for this method", kind, "or leave it out for all")
        return [pair for kind in wanted for pair in makers[kind]()]

    def _makers(self) -> dict[str, Callable[[], Pairs]]:
        if isinstance(self.method, Semantic):
            return {"replaced": lambda: _replaced(self.method)}
        users = user_rows(self.method)
        return {
            "own": lambda: _own(users.afresh()),
            "one-key": lambda: _one_key(users.afresh()),
            "one-query": lambda: _one_query(users.afresh()),
            "threshold": lambda: _threshold(users.afresh()),
            "shared": lambda: _shared(users.afresh(), self.shared_keys),
            "lift": lambda: _lift(users.afresh()),
            "repeats": lambda: _repeats(users.afresh()),
            "odd-rows": lambda: _odd_rows(users.afresh()),
            "accounts": lambda: _accounts(users.afresh()),
            "nobody": lambda: _nobody(users.afresh()),
            **self._of_method(),
        }

    def _of_method(self) -> dict[str, Callable[[], Pairs]]:
        """The pairs that the method itself names."""
        logs = list(self.method.audit_logs())
        return (
            {"method": lambda: (_pair(f"method: {each.name}", each.others, each.added) for each in logs)}
            if logs
            else {}
        )

    @property
    def shared_keys(self) -> int:
        """Number of keys of the user `shared`: few if every run counts all users again."""
        return min(user_rows(self.method).bound, _MOST_SHARED if self._one_draw else _FEW_SHARED)

    @property
    def _one_draw(self) -> bool:
        """True if each user adds 1 to a key, independent of the user's other keys."""
        return isinstance(self.method, KeysMethod) and self.method.parameters().get("selection") in (
            "laplace",
            "gaussian",
        )


def _crowd(users: ClickRows, key: str, number: int, name: str = "u") -> list[str]:
    """This number of users, who hold a key and no other."""
    return [row for user in range(number) for row in users.rows(f"{name}{user}", [key])]


def _base(users: ClickRows) -> list[str]:
    """Rows that come out with or without the user."""
    return _crowd(users, "common", users.enough + _MARGIN)


def _pair(name: str, others: Iterable[str], added: Iterable[str], accounts: int = 1) -> Pair[str]:
    """A pair of logs; the user's rows come first, where format detection reads."""
    rows = list(others)
    return Pair(name, log_text(rows), log_text([*added, *rows]), accounts)


def _keys(name: str, number: int) -> list[str]:
    return [f"{name} {place}" for place in range(number)]


def _own(users: ClickRows) -> Pairs:
    """A user with 1 to l keys that nobody else has."""
    steps = max(1, math.ceil((users.bound - 1) ** (1 / 3))) if users.bound > _MOST_OWN else 1
    numbers = range(1, users.bound + 1) if steps == 1 else [1, steps, steps**2, users.bound]
    for number in sorted(set(numbers)):
        yield _pair(f"own: a user with {number} of their own", _base(users), users.rows(NEW, _keys("own", number)))
    more = users.rows(NEW, _keys("own", 2 * users.bound + 1))
    yield _pair("own: a user with more than count", _base(users), more)


def _one_key(users: ClickRows) -> Pairs:
    """A user who asks one key again and again."""
    often = 2 * users.bound + _MARGIN
    for key, who in (("own 0", "their own"), ("common", "a shared one")):
        added = [row for _ in range(often) for row in users.rows(NEW, [key])]
        later = [users.row(NEW, key, 7 * 3600 + place) for place in range(often)]
        yield _pair(f"one-key: all on {who}", _base(users), [*added, *later])


def _one_query(users: ClickRows) -> Pairs:
    """A user whose keys all have one query: rounds that weigh parts of keys may put all of the weight on it."""
    for key, who in (("own 0", "their own"), ("common", "a shared one")):
        added = users.of_one_query(NEW, key, users.bound)
        yield _pair(f"one-query: {users.bound} with {who}", _base(users), added)


def _threshold(users: ClickRows) -> Pairs:
    """Keys with one user too few, just enough, and one more."""
    around = {f"around {step}": max(1, users.enough + step) for step in (-1, 0, 1)}
    others = [row for key, number in around.items() for row in _crowd(users, key, number, f"{key[-1]}-{number}-")]
    for key, number in around.items():
        yield _pair(f"threshold: a key that {number} others hold", others, users.rows(NEW, [key]))


def _shared(users: ClickRows, number: int) -> Pairs:
    """A user whose keys many others hold."""
    keys = _keys("shared", number)
    crowd = math.ceil(users.enough * math.sqrt(number)) + 4 * _MARGIN
    others = [row for user in range(crowd) for row in users.rows(f"u{user}", keys)]
    yield _pair(f"shared: a user with {number} that others hold", others, users.rows(NEW, keys))


def _lift(users: ClickRows) -> Pairs:
    """A user who lifts rare queries over a filter, so that other users' first ones change (query_pool.md)."""
    rare = _keys("rare", _LIFTED)
    others = [row for key in rare for user in range(_RARE - 1) for row in users.rows(f"{key} {user}", [key, "common"])]
    others += _crowd(users, "common", _RARE)
    yield _pair("lift: a user who makes rare queries frequent", others, users.rows(NEW, rare))


def _repeats(users: ClickRows) -> Pairs:
    """A user whose session goes back and forth, twice."""
    texts = ["own 0", "common", "own 0", "common", "own 1", "own 0"]
    session = [users.row(NEW, key, day * 86400 + 20 * place) for day in range(2) for place, key in enumerate(texts * 2)]
    yield _pair("repeats: a session that goes back and forth", _base(users), session)


def _odd_rows(users: ClickRows) -> Pairs:
    """A user with some unreadable rows, few enough that the log is not refused."""
    good = users.rows(NEW, ["own 0"])
    odd = [f"{NEW}\tonly two", f"{NEW}\tno time\tyesterday\t\t", f"{NEW}\t{'x' * 70_000}\t2006-03-01 00:00:00\t\t"]
    odd += [f"{NEW}\t \t2006-03-01 00:00:00\t\t", f'{NEW}\t"\u202eodd\x01\t2006-03-01 00:00:00\t\t']
    filling = max(0, _ENOUGH_ROWS - users.enough)
    others = [*_base(users), *_crowd(users, "filling", filling, "f")]
    yield _pair("odd-rows: a user with unreadable rows, first of all", others, [*odd, *good])


def _accounts(users: ClickRows) -> Pairs:
    """Two accounts of one person with the same keys."""
    keys = _keys("own", min(users.bound, _MARGIN))
    added = [row for account in range(2) for row in users.rows(f"{NEW} {account}", keys)]
    yield _pair("accounts: two that do the same", _base(users), added, accounts=2)


def _nobody(users: ClickRows) -> Pairs:
    """A log without users and one with a single user: refusing only one of them tells the two apart for certain."""
    yield _pair("nobody: no user, and one", [], users.rows(NEW, ["own 0"]))


def _replaced(method: Semantic) -> Pairs:
    """A user whose searches are about one concept or another of the same domain (methods/semantic/semantic.md)."""
    if isinstance(method, LogSemantic):
        yield from _of_selected_queries(method)
        return
    one, other, third, unknown = _texts(method)
    searches = 1 if method.budget_per == "query" else min(_SEARCHES, method.max_queries or _SEARCHES)
    for number in sorted({1, searches}):
        yield _replaced_pair(f"replaced: {number} searched for one thing or another", [one] * number, [other] * number)
    yield _replaced_pair("replaced: a text without a concept", [unknown[0]] * searches, [unknown[1]] * searches)
    mixed = [one, other, one][:searches]
    if method.repeats == "reuse":
        # Which searches are about one concept is not protected: those about one are about another one, all of them.
        moved = [third if text == one else text for text in [*mixed, one]]
        yield _replaced_pair("replaced: all searches for one thing among others", [*mixed, one], moved)
    else:
        yield _replaced_pair("replaced: one search of several", [*mixed, one], [*mixed, other])


def _of_selected_queries(method: LogSemantic) -> Pairs:
    """Two queries are nearly always candidates; the user asks one of them, or a text that no other user has."""
    routes = next(iter(method.selection.routes().values()))
    enough = max(route.users(LIKELY).high for route in routes)
    shared = [f"{text} {user}\t{text}\t2006-03-01 00:00:00\t\t" for text in ("one", "two") for user in range(enough)]

    def log(text: str) -> str:
        return log_text([*shared, f"target\t{text}\t2006-03-01 00:00:00\t\t"])

    yield Pair("replaced: one candidate by another", log("one"), log("two"))
    yield Pair("replaced: a candidate by a text of nobody else", log("one"), log(_UNKNOWN))


def _replaced_pair(name: str, without: Sequence[str], having: Sequence[str]) -> Pair[str]:
    return Pair(name, _log(without), _log(having))


def _log(texts: Sequence[str]) -> str:
    return log_text(f"one\t{text}\t2006-03-01 00:0{place}:00\t\t" for place, text in enumerate(texts))


def _texts(method: Semantic) -> tuple[str, str, str, tuple[str, str]]:
    """Two texts of the first domain that lie far apart, a third; and one without a concept beside one of its domain."""
    from querycloak.methods.semantic.replacement import Replacement

    domains = Replacement.of(method, method.read_taxonomy()).domains
    labels_kept: list[list[str]] = []
    for number, domain in enumerate(domains.domains):
        concepts = domain.concepts[np.unique(np.linspace(0, len(domain.concepts) - 1, _TRIED_LABELS).astype(np.int64))]
        labels = pa.array([domains.taxonomy.shown(int(concept)) for concept in concepts], pa.string())
        homes, places = domains.placed(domains.concepts(labels))
        whole = domains.whole(homes, places)
        fits = (homes == number) & (whole == concepts)
        labels_kept.append([label for label, itself in zip(labels.to_pylist(), fits, strict=True) if itself])
    first, last = labels_kept[0], labels_kept[-1]
    return first[1 % len(first)], first[-1], first[len(first) // 2], (_UNKNOWN, last[-1])
