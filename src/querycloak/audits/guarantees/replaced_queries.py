"""Neighbouring logs of the same users: one user's queries are replaced by others (methods/semantic/semantic.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from querycloak.audits.guarantees.mechanism import Pair
from querycloak.audits.guarantees.user_rows import log_text
from querycloak.methods.semantic.log_domain import LogSemantic
from querycloak.privacy.calibration.accuracy import LIKELY

if TYPE_CHECKING:
    from querycloak.methods.semantic.method import Semantic

_TRIED = 60
_SEARCHES = 3
_UNKNOWN = "zzyxqwv"


def replaced_queries(method: Semantic) -> Iterator[Pair[str]]:
    """A user whose searches are for one thing or for another; the domains of both are the same."""
    if isinstance(method, LogSemantic):
        yield from _of_selected_queries(method)
        return
    one, other, third, unknown = _texts(method)
    searches = 1 if method.budget_per == "query" else min(_SEARCHES, method.max_queries or _SEARCHES)
    for number in sorted({1, searches}):
        yield _pair(f"replaced: {number} searched for one thing or another", [one] * number, [other] * number)
    yield _pair("replaced: a text without a concept", [unknown[0]] * searches, [unknown[1]] * searches)
    mixed = [one, other, one][:searches]
    if method.repeats == "reuse":
        # Which searches are about one concept is not protected: those about one are about another one, all of them.
        moved = [third if text == one else text for text in [*mixed, one]]
        yield _pair("replaced: all searches for one thing among others", [*mixed, one], moved)
    else:
        yield _pair("replaced: one search of several", [*mixed, one], [*mixed, other])


def _of_selected_queries(method: LogSemantic) -> Iterator[Pair[str]]:
    """Others hold two queries that are nearly always candidates; the user asks one of them, or a text of nobody."""
    routes = next(iter(method.selection.routes().values()))
    enough = max(route.users(LIKELY).high for route in routes)
    shared = [f"{text} {user}\t{text}\t2006-03-01 00:00:00\t\t" for text in ("one", "two") for user in range(enough)]

    def log(text: str) -> str:
        return log_text([*shared, f"target\t{text}\t2006-03-01 00:00:00\t\t"])

    yield Pair("replaced: one candidate by another", log("one"), log("two"))
    yield Pair("replaced: a candidate by a text of nobody else", log("one"), log(_UNKNOWN))


def _pair(name: str, without: Sequence[str], having: Sequence[str]) -> Pair[str]:
    return Pair(name, _log(without), _log(having))


def _log(texts: Sequence[str]) -> str:
    return log_text(f"one\t{text}\t2006-03-01 00:0{place}:00\t\t" for place, text in enumerate(texts))


def _texts(method: Semantic) -> tuple[str, str, str, tuple[str, str]]:
    """Two texts of the first domain that lie far apart, a third; and one without a concept beside one of its domain."""
    from querycloak.methods.semantic.replacement import Replacement

    domains = Replacement.of(method, method.read_taxonomy()).domains
    labels_kept: list[list[str]] = []
    for number, domain in enumerate(domains.domains):
        concepts = domain.concepts[np.unique(np.linspace(0, len(domain.concepts) - 1, _TRIED).astype(np.int64))]
        labels = pa.array([domains.taxonomy.shown(int(concept)) for concept in concepts], pa.string())
        homes, places = domains.placed(domains.concepts(labels))
        whole = domains.whole(homes, places)
        fits = (homes == number) & (whole == concepts)
        labels_kept.append([label for label, itself in zip(labels.to_pylist(), fits, strict=True) if itself])
    first, last = labels_kept[0], labels_kept[-1]
    return first[1 % len(first)], first[-1], first[len(first) // 2], (_UNKNOWN, last[-1])
