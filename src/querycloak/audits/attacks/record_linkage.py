"""Record linkage: a pairwise model, learnt on other people, finds records without names of one person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import AuditData
from querycloak.evaluation.target import Target, in_pieces
from querycloak.evaluation.task import ORIGINAL

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
_HOST = r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*://)?(?P<host>[^/?#]*)"


@dataclass(frozen=True, eq=False)
class Records:
    """Records sorted by user; words are numbers, those of record i are word[starts[i]:starts[i + 1]], ascending.

    `user` is the truth that the attacker does not see; `host` and `time` are -1 where there is none.
    """

    user: Numbers
    query: Numbers
    starts: Numbers
    word: NDArray[np.int32]
    letters: Numbers
    host: Numbers
    time: Numbers
    group: Numbers
    """Group of attributes, -1 for none."""

    @classmethod
    def of(cls, rows: pa.Table, most: int, random: np.random.Generator) -> Records:
        """From rows with user and query, perhaps url, time and group; of each user at most `most`, at random.

        Clicks of one search are one record.
        """
        if "time" in rows.column_names:
            others = [(name, "min") for name in ("url", "group") if name in rows.column_names]
            rows = rows.group_by(["user", "time", "query"]).aggregate(others)
            rows = rows.rename_columns([name.removesuffix("_min") for name in rows.column_names])
        rows = _some_of_each(rows.sort_by([("user", "ascending"), ("query", "ascending")]), most, random)
        query = rows["query"].combine_chunks().dictionary_encode()
        starts, word = _words(rows["query"].combine_chunks())
        return cls(
            user=_codes(rows["user"].combine_chunks()),
            query=query.indices.to_numpy().astype(np.int64),
            starts=starts,
            word=word,
            letters=pc.utf8_length(rows["query"]).to_numpy().astype(np.int64),
            host=_hosts(rows),
            time=_times(rows),
            group=_codes(rows["group"].combine_chunks()) if "group" in rows.column_names else np.full(len(rows), -1),
        )

    def __len__(self) -> int:
        return len(self.user)

    @property
    def first(self) -> Numbers:
        """Start of each user's records, and the end of the last."""
        return np.searchsorted(self.user, np.arange(self.user.max(initial=-1) + 2)).astype(np.int64)


def _some_of_each(rows: pa.Table, most: int, random: np.random.Generator) -> pa.Table:
    """At most `most` rows of each user, where rows come sorted by user."""
    user = _codes(rows["user"].combine_chunks())
    order = np.lexsort((random.random(len(user)), user))
    place = np.arange(len(user)) - np.searchsorted(user, user)
    return rows.take(pa.array(np.sort(order[place < most])))


def _codes(values: pa.Array) -> Numbers:
    return np.asarray(values.dictionary_encode().indices.to_numpy(), np.int64)


def _words(texts: pa.Array) -> tuple[Numbers, NDArray[np.int32]]:
    """The different words of each text, ascending by number."""
    lists = pc.utf8_split_whitespace(texts)
    coded = lists.flatten().dictionary_encode().indices.to_numpy().astype(np.int64)
    record = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    many = int(coded.max(initial=0)) + 1
    record, word = np.divmod(np.unique(record * many + coded), many)
    return np.searchsorted(record, np.arange(len(texts) + 1)).astype(np.int64), word.astype(np.int32)


def _hosts(rows: pa.Table) -> Numbers:
    if "url" not in rows.column_names:
        return np.full(rows.num_rows, -1, np.int64)
    hosts = pc.struct_field(pc.extract_regex(rows["url"].combine_chunks(), _HOST), "host")
    return np.asarray(pc.fill_null(hosts.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False), np.int64)


def _times(rows: pa.Table) -> Numbers:
    if "time" not in rows.column_names:
        return np.full(rows.num_rows, -1, np.int64)
    moments = rows["time"].combine_chunks().cast(pa.timestamp("us")).cast(pa.int64())
    return np.asarray(pc.fill_null(moments, -1).to_numpy(zero_copy_only=False), np.int64)


def features(records: Records, one: Numbers, other: Numbers) -> Floats:
    """Features of each pair; -1 where the records are silent."""
    weight = _weights(records)
    shared = np.zeros((len(one), 4))
    _compare(records.starts, records.word, weight, one, other, shared)
    lengths = np.diff(records.starts)
    timed = (records.time[one] >= 0) & (records.time[other] >= 0)
    gap = np.abs(records.time[one] - records.time[other])
    clock = np.abs(records.time[one] % _DAY - records.time[other] % _DAY)
    clicked = (records.host[one] >= 0).astype(np.int64) + (records.host[other] >= 0)
    columns = [
        *shared.T,
        records.query[one] == records.query[other],
        np.minimum(lengths[one], lengths[other]),
        np.maximum(lengths[one], lengths[other]),
        np.abs(records.letters[one] - records.letters[other]),
        clicked,
        np.where(clicked == 2, records.host[one] == records.host[other], -1),
        np.where(timed, np.log1p(gap / 1e6), -1),
        np.where(timed, np.minimum(clock, _DAY - clock) / 3.6e9, -1),
    ]
    if (records.group >= 0).any():
        columns.append(records.group[one] == records.group[other])
    return np.column_stack([np.asarray(column, np.float64) for column in columns])


def _weights(records: Records) -> Floats:
    """Weight of each word: larger for words that stand in fewer records."""
    number = np.bincount(records.word) if len(records.word) else np.ones(1, np.int64)
    return np.log1p(len(records) / np.maximum(number, 1))


@njit(cache=True, nogil=True)
def _compare(starts, word, weight, one, other, out):  # type: ignore[no-untyped-def]
    """Shared words, their weight, the heaviest of them, and the cosine."""
    for pair in range(one.size):
        a, b = starts[one[pair]], starts[other[pair]]
        end_a, end_b = starts[one[pair] + 1], starts[other[pair] + 1]
        norm_a = norm_b = shared = squared = 0.0
        for i in range(a, end_a):
            norm_a += weight[word[i]] ** 2
        for i in range(b, end_b):
            norm_b += weight[word[i]] ** 2
        while a < end_a and b < end_b:
            if word[a] == word[b]:
                heavy = weight[word[a]]
                shared += 1
                squared += heavy * heavy
                out[pair, 1] += heavy
                out[pair, 2] = max(out[pair, 2], heavy)
                a += 1
                b += 1
            elif word[a] < word[b]:
                a += 1
            else:
                b += 1
        out[pair, 0] = shared
        if norm_a > 0 and norm_b > 0:
            out[pair, 3] = squared / np.sqrt(norm_a * norm_b)


def same_user(records: Records, number: int, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Pairs of records of one user, every such pair as likely as any other."""
    first = records.first
    size = np.diff(first)
    pairs = np.cumsum(size * (size - 1))
    if not len(pairs) or not pairs[-1]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    user = np.searchsorted(pairs, random.integers(0, pairs[-1], number), side="right")
    one = random.integers(0, size[user])
    other = (one + 1 + random.integers(0, size[user] - 1)) % size[user]
    return first[user] + one, first[user] + other


def different_users(
    records: Records, number: int, random: np.random.Generator, group: Numbers | None = None
) -> tuple[Numbers, Numbers]:
    """Pairs of records of two users, each as likely as any other; `group`: the ends of stretches that hold both."""
    ends = np.array([len(records)]) if group is None else group
    begins = np.concatenate([[0], ends[:-1]])
    chance = np.cumsum((ends - begins).astype(np.float64) ** 2)
    where = np.searchsorted(chance, random.random(2 * number) * chance[-1], side="right").clip(0, len(ends) - 1)
    one, other = (random.integers(begins[where], ends[where]) for _ in range(2))
    apart = records.user[one] != records.user[other]
    return one[apart][:number], other[apart][:number]


def alike(records: Records, number: int, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Hard pairs of two users: they share a word, or stand close to each other in time."""
    record = np.repeat(np.arange(len(records)), np.diff(records.starts))
    order = np.argsort(records.word, kind="stable")
    place = np.searchsorted(records.word[order], np.arange(records.word.max(initial=-1) + 2))
    entry = random.integers(0, max(len(order), 1), number) if len(order) else np.zeros(0, np.int64)
    word = records.word[order][entry] if len(order) else np.zeros(0, np.int32)
    pairs = [(record[order][entry], record[order][random.integers(place[word], place[word + 1])])] if len(order) else []
    if (records.time >= 0).any():
        in_time = np.argsort(records.time, kind="stable")
        start = random.integers(0, len(records), number)
        near = np.minimum(start + random.integers(1, 21, number), len(records) - 1)
        pairs.append((in_time[start], in_time[near]))
    one, other = (np.concatenate([np.zeros(0, np.int64), *side]) for side in zip(*pairs, strict=True))
    apart = records.user[one] != records.user[other]
    return one[apart], other[apart]


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
        """Needs rows of people, without their names, and scikit-learn."""
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
            yield from judged_pairs(label, coarser(training, unit), coarser(judged, unit), users, random)


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


def coarser(records: Records, unit: int) -> Records:
    """The records with times cut to this unit; 0 for no times."""
    if unit == 0:
        return replace(records, time=np.full(len(records), -1, np.int64))
    return replace(records, time=np.where(records.time >= 0, records.time // unit * unit, -1))


def judged_pairs(
    label: str, training: Records, judged: Records, users: int, random: np.random.Generator
) -> Iterator[Finding]:
    """Findings on pairs of records; users: how many people there are in all."""
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
    """Run OpenMP with one thread: on busy cores its threads mostly wait for each other."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")


def _prevalence(records: Records, ends: Numbers) -> float:
    """The share of pairs within groups that are of one user."""
    size = np.diff(records.first).astype(np.float64)
    groups = np.diff(np.concatenate([[0], ends])).astype(np.float64)
    return float((size * (size - 1)).sum() / max((groups * (groups - 1)).sum(), 1))


def _overall(records: Records, users: int) -> float:
    """The share of pairs among all users that are of one user, if all have as many records as these users."""
    size = np.diff(records.first).astype(np.float64)
    whole = size.mean() * users
    return float((size * (size - 1)).mean() * users / max(whole * (whole - 1), 1))


def _precision(same: Floats, different: Floats, recall: float, prevalence: float) -> Share:
    """Precision where this share of true pairs is found; its error is that of the false-positive rate."""
    threshold = np.quantile(same, 1 - recall)
    sensitivity = float((same >= threshold).mean())
    wrong = Share.of(int((different >= threshold).sum()), len(different))

    def precision(false_positives: float) -> float:
        right = prevalence * sensitivity
        return right / (right + (1 - prevalence) * false_positives)

    low, high = precision(wrong.centre + wrong.error), precision(max(wrong.centre - wrong.error, 0.0))
    return Share(precision(wrong.value), (low + high) / 2, (high - low) / 2, len(same) + len(different))
