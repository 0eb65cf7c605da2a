"""Linkage of records: do two records without names come from one person? A pairwise model, learnt on other people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.attack import Finding
from querycloak.audits.attacked import Target
from querycloak.audits.attacks.record_pairs import Floats, Numbers, Records, alike, different_users, features, same_user
from querycloak.audits.holders import in_pieces
from querycloak.audits.knowledge import AuditData
from querycloak.audits.log_baselines import ORIGINAL
from querycloak.audits.risk import Share

NEEDS_LEARNING = "it needs scikit-learn, which is not installed; install 'querycloak[audit]'"
RECALLS = (0.85, 0.5, 0.1)
GROUP = 50
GROUPS = 40
TRAINING_USERS = 2_000
MOST_RECORDS = 20
"""Records of one person: with all of them, pairs of the few who search most would be nearly all pairs of one person."""
LEARNT_PAIRS = 30_000
JUDGED_SAME, JUDGED_DIFFERENT = 20_000, 200_000
_DAY = 86_400_000_000
_VARIANTS = (("times", 1), ("days", _DAY), ("no times", 0))
_AS_IT_IS = (("", 1),)


class RecordLinkage:
    """Precision at given recalls, among the records of 50 people and among all, at their natural prevalence."""

    name: ClassVar[str] = "linkage-records"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """It takes rows of people, whose names it hides from the attacker, and a learner."""
        if "log" not in release.tables:
            return "its tables hold counts, and no records that could be linked"
        return release.without_names() or (None if find_spec("sklearn") else NEEDS_LEARNING)

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """With times as they are; of the log itself also with days only, and without times."""
        random = knowledge.random("linkage-records")
        rows, learnt, users = _sampled(release, random)
        if users < 2 * GROUP:
            yield Finding.missing(
                f"it has fewer than {2 * GROUP} names: too few to learn from some and judge on others"
            )
            return
        training, judged = (Records.of(rows.filter(side), MOST_RECORDS, random) for side in (learnt, pc.invert(learnt)))
        for label, unit in _VARIANTS if release.name == ORIGINAL else _AS_IT_IS:
            yield from _judged(label, _coarser(training, unit), _coarser(judged, unit), users, random)


def _sampled(release: Target, random: np.random.Generator) -> tuple[pa.Table, pa.Array, int]:
    """Rows of some users, which of them are for learning, and how many users there are."""
    names = pa.chunked_array(
        [rows["user"].unique() for rows in in_pieces(release.batches("log", ["user"]))], pa.string()
    )
    everybody = names.unique().sort()
    for_judging = min(GROUPS, len(everybody) // 2 // GROUP) * GROUP  # groups are whole
    for_learning = min(TRAINING_USERS, len(everybody) - for_judging)
    sample = everybody.take(pa.array(random.permutation(len(everybody))[: for_learning + for_judging]))
    columns = [name for name in ("user", "query", "url", "time") if name in release.columns["log"]]
    pieces = [rows.filter(pc.is_in(rows["user"], sample)) for rows in in_pieces(release.batches("log", columns))]
    rows = pa.concat_tables(pieces) if pieces else pa.table({name: pa.array([], pa.string()) for name in columns})
    return rows, pc.is_in(rows["user"], sample.slice(0, for_learning)), len(everybody)


def _coarser(records: Records, unit: int) -> Records:
    """The records with times cut to this unit; 0 for no times."""
    if unit == 0:
        return replace(records, time=np.full(len(records), -1, np.int64))
    return replace(records, time=np.where(records.time >= 0, records.time // unit * unit, -1))


def _judged(
    label: str, training: Records, judged: Records, users: int, random: np.random.Generator
) -> Iterator[Finding]:
    if not len(same_user(training, 1, random)[0]) or not len(same_user(judged, 1, random)[0]):
        yield Finding.missing("no name has two records", label or None)
        return
    model = _learnt(training, random)
    ends = judged.first[GROUP::GROUP]
    same = _scores(model, judged, *same_user(judged, _enough(judged, JUDGED_SAME), random))
    different = _scores(model, judged, *different_users(judged, _enough(judged, JUDGED_DIFFERENT), random, ends))
    prevalences = {f"{GROUP} users": _prevalence(judged, ends), "all users": _overall(judged, users)}
    for among, prevalence in prevalences.items():
        for recall in RECALLS:
            setting = ", ".join(filter(None, [label, among, f"recall {recall:g}"]))
            precision = _precision(same, different, recall, prevalence)
            guess = Share.exactly(prevalence)
            yield Finding.of(setting, precision, guess, prevalence, targets=len(same) + len(different))


def _enough(records: Records, most: int) -> int:
    """Pairs to draw: of few records there are few that differ."""
    return min(most, 20 * len(records))


def _learnt(records: Records, random: np.random.Generator) -> Any:
    """A model from pairs of one user, of two, and of two that look like one."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    number = _enough(records, LEARNT_PAIRS)
    kinds = [
        same_user(records, number, random),
        different_users(records, number, random),
        alike(records, number // 2, random),
    ]
    seen = np.concatenate([features(records, *pair) for pair in kinds])
    truth = np.concatenate([np.full(len(pair[0]), place == 0) for place, pair in enumerate(kinds)])
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=31, random_state=int(random.integers(1 << 31)))
    with _one_thread():
        return model.fit(seen, truth)


def _scores(model: Any, records: Records, one: Numbers, other: Numbers) -> Floats:
    with _one_thread():
        return np.asarray(model.predict_proba(features(records, one, other))[:, 1])


def _one_thread() -> Any:
    """Where cores are busy with other work, OpenMP's threads mostly wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")


def _prevalence(records: Records, ends: Numbers) -> float:
    """The share of pairs within groups that are of one user."""
    size = np.diff(records.first).astype(np.float64)
    groups = np.diff(np.concatenate([[0], ends])).astype(np.float64)
    return float((size * (size - 1)).sum() / max((groups * (groups - 1)).sum(), 1))


def _overall(records: Records, users: int) -> float:
    """The same among all users, as many records of each as these have."""
    size = np.diff(records.first).astype(np.float64)
    whole = size.mean() * users
    return float((size * (size - 1)).mean() * users / max(whole * (whole - 1), 1))


def _precision(same: Floats, different: Floats, recall: float, prevalence: float) -> Share:
    """Precision where this share of true pairs is found; its error is that of the false-positive rate."""
    threshold = np.quantile(same, 1 - recall)
    found = float((same >= threshold).mean())
    wrong = Share.of(int((different >= threshold).sum()), len(different))

    def precision(false_positives: float) -> float:
        right = prevalence * found
        return right / (right + (1 - prevalence) * false_positives)

    low, high = precision(wrong.centre + wrong.error), precision(max(wrong.centre - wrong.error, 0.0))
    return Share(precision(wrong.value), (low + high) / 2, (high - low) / 2, len(same) + len(different))
