"""One more user moves no round by more than is stated, whatever the scouts found: all outcomes for a few parts.

The rounds are those of a release (`WeightedSelection`); the outcomes of preselection are made up
here, the same for both logs (privacy/calibration/selection.md, claims 2, 4 and 5). Many small logs, and copies of each
for several outcomes, go through the engine at once: texts begin with numbers of copy and log, and so do buckets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from unittest import mock

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.methods.keyed_digest import keyed_digest
from querycloak.methods.keys import weighted_selection
from querycloak.methods.keys.thresholded import KeyCounts, ReleasedKeys
from querycloak.methods.keys.weighted_selection import WeightedSelection, _long, _weighed
from querycloak.privacy.calibration.selection import plan_tables
from querycloak.privacy.calibration.weighted import FULL_INTEREST, GRID, LEAST_INTEREST, PreselectionRound, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness

KEYS = {"clicks": ("query", "url"), "sessions": ("queries",)}
BOUND = 5
ENUMERATED, RUNS = 4, 32
"""Of how many parts all outcomes are gone through, twice; what later scouts found differs from run to run."""
SECRET = "the same for all logs"
"""Which keys share a bucket follows from it: those of SOME_PAIRS and SOME_SEQUENCES do by this one."""
INTERESTS = (LEAST_INTEREST, 100, 777, FULL_INTEREST)
RUN_DIGITS, LOG_DIGITS = 2, 4
DIGITS = RUN_DIGITS + LOG_DIGITS
Users = Sequence[Sequence[str]]
"""What users hold, one after another: "a1" is the pair of query a and url 1, "aba" the sequence a, b, a."""
Logs = Sequence[tuple[Users, Sequence[str]]]
"""Others, and the user who is added."""
Cell = tuple[int, str]
"""Run and bucket, or run and key."""
Given = tuple[int, str, str, int]
"""Run, user, key, and the weight that the user gives it in the end, be it 0."""


@dataclass
class Outcomes:
    """What scouts are supposed to find in each run, and what every round weighed."""

    places: dict[str, int] = field(default_factory=dict)
    weighed: dict[tuple[int, str], dict[Cell, int]] = field(default_factory=dict)
    given: set[Given] = field(default_factory=set)

    def seen(self, what: str, table: pa.Table, names: Sequence[str]) -> None:
        """Keep what a round weighed."""
        cells = ["\t".join(cell) for cell in zip(*(table[name].to_pylist() for name in names), strict=True)]
        self.weighed[len(self.weighed), what] = {
            (run_of(cell), without_run(cell)): number or 0
            for cell, number in zip(cells, table["n"].to_pylist(), strict=True)
        }

    def known(self, loads: pa.Table, scout: PreselectionRound) -> pa.Table:
        """What the scout leaves of each bucket in each run."""
        left = [each for each in loads["bucket"].to_pylist() if self._passed(run_of(each), without_run(each), scout)]
        cells = [(run_of(each), without_run(each)) for each in left]
        interests = [INTERESTS[int(4 * chance("interest", len(self.weighed), *cell))] for cell in cells]
        return pa.table({"bucket": pa.array(left, pa.string()), "known": pa.array(interests, pa.int64())})

    def _passed(self, run: int, bucket: str, scout: PreselectionRound) -> bool:
        """Of each log's first parts every subset passes in some run."""
        if scout.parts is not None:
            before = sum(each.startswith(bucket[:LOG_DIGITS]) for each in self.places)
            place = self.places.setdefault(bucket, before)
            if place < ENUMERATED:
                return bool(run >> place & 1)
        return chance("passed", len(self.weighed), run, bucket) < 0.75


def run_of(text: str) -> int:
    """The run of a bucket, or of a key: the first digits, or those behind the first #."""
    return int((text.partition("#")[2] or text)[:RUN_DIGITS])


def without_run(text: str) -> str:
    """The same bucket or key without its run."""
    run = f"{run_of(text):0{RUN_DIGITS}}"
    return text.replace(f"#{run}", "#") if "#" in text else text.removeprefix(run)


def chance(*what: object) -> float:
    return int.from_bytes(hashlib.blake2b(repr(what).encode(), digest_size=4).digest()) / 2**32


def supposed(outcomes: Outcomes, kind: type[WeightedSelection]) -> type[WeightedSelection]:
    """WeightedSelection of this kind, but that scouts find, and that comes out, what is supposed."""

    class Supposed(kind):  # type: ignore[valid-type, misc]
        def _preselected(self, loads: pa.Table, scout: PreselectionRound, randomness: Randomness) -> pa.Table:
            known = outcomes.known(loads, scout)
            outcomes.seen("buckets", loads, ["bucket"])
            return known

        def votes(self, weighed: ir.Table) -> KeyCounts:
            counts: KeyCounts = super().votes(weighed)
            outcomes.seen("keys", self.engine.fetch(counts.table), self.key)
            rows = self.engine.fetch(weighed.select("user", *self.key, "weight")).to_pylist()
            named = [("\t".join(row[name] for name in self.key), row) for row in rows]
            outcomes.given = {
                (run_of(key), row["user"].partition(" ")[2], without_run(key), row["weight"]) for key, row in named
            }
            return counts

        def _counted(self, chosen: ReleasedKeys, counting: Gaussian, randomness: Randomness) -> pa.Table:
            keys = self.engine.fetch(self.keys.select(*self.key).distinct()).to_pylist()
            rows = [key for key in keys if chance(*key.values()) < 0.9]
            schema = pa.schema([(name, pa.string()) for name in self.key])
            counts: pa.Table = self.counted(pa.Table.from_pylist(rows, schema))
            outcomes.seen("counts", counts, self.key)
            return counts

    return Supposed


def contributions(table: str, logs: Logs, *, added: bool) -> pa.Table:
    """The users of all logs; a key that is there twice is held once, as the first time."""
    rows = []
    for run, (number, (others, new)) in product(range(RUNS), enumerate(logs)):
        for user, keys in enumerate([*others, new] if added else others):
            for place, key in enumerate(dict.fromkeys(keys)):
                tag = f"#{run:0{RUN_DIGITS}}{number:0{LOG_DIGITS}}"
                parts = [f"{tag}{query}" for query in (key[0] if table == "clicks" else key)]
                texts = (*parts, key[1:]) if table == "clicks" else (f"{len(key)}" + "\x1f".join(parts),)
                rows.append((f"{run} {number} {user}", *texts, place))
    names = ("user", *KEYS[table], "earliest")
    types = [pa.string()] * (len(names) - 1) + [pa.int64()]
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, types, strict=True)], list(names))


def bucket_of_log(text: ir.StringValue, secret: str, digits: int | None = None) -> ir.StringValue:
    """The numbers of run and log and one or two digits: if the log's is odd, keys and parts often share a bucket."""
    numbers = text.re_extract(f"#([0-9]{{{DIGITS}}})", 1)
    plain = text.re_replace(f"#[0-9]{{{RUN_DIGITS}}}", "#")
    odd = numbers.substr(RUN_DIGITS).cast("int64") % 2 == 1
    return numbers + keyed_digest(plain, secret, 1) + ibis.ifelse(odd, "0", keyed_digest(plain, secret).substr(1, 1))


@contextmanager
def buckets_of_logs() -> Iterator[None]:
    with mock.patch.object(weighted_selection, "keyed_digest", bucket_of_log):
        yield


def plan_of(table: str) -> WeightedPlan:
    plan = plan_tables(3.0, 0.01, {table: BOUND}, selection="multi-round").plans[table]
    assert isinstance(plan, WeightedPlan)
    assert [scout.parts for scout in plan.scouts] == [{"clicks": "query", "sessions": "queries"}[table], None, None]
    return plan


def with_and_without(
    engine: Engine, table: str, logs: Logs, kind: type[WeightedSelection] = WeightedSelection
) -> tuple[Outcomes, Outcomes]:
    """What every round weighed with the added users and without them, where scouts found the same."""
    having = Outcomes()
    without = Outcomes(having.places)  # the larger logs first: their buckets are those of both
    for outcomes in (having, without):
        rows = engine.upload(contributions(table, logs, added=outcomes is having))
        with buckets_of_logs():
            selection = supposed(outcomes, kind).of(engine, rows, KEYS[table], plan_of(table))
            selection.bucketed(SECRET)._drawn(Randomness(seed=1))
    return having, without


def lengths(having: Outcomes, without: Outcomes) -> dict[tuple[int, str], Counter[tuple[str, int]]]:
    """The squared length by which the added users move each round, by log and run."""
    found = {}
    for each, numbers in having.weighed.items():
        others = without.weighed[each]
        moved = found[each] = Counter[tuple[str, int]]()
        for cell in {*numbers, *others}:
            log = (cell[1].partition("#")[2] or cell[1])[:LOG_DIGITS]
            moved[log, cell[0]] += (numbers.get(cell, 0) - others.get(cell, 0)) ** 2
    return found


def others_moved(logs: Logs, having: Outcomes, without: Outcomes) -> set[int]:
    """The logs in which somebody gives another weight to a key because of the added user."""
    added = {f"{number} {len(others)}" for number, (others, _) in enumerate(logs)}
    assert without.given
    assert not any(user in added for _, user, _, _ in without.given)
    differing = {each for each in having.given if each[1] not in added} ^ without.given
    return {int(user.split()[0]) for _, user, _, _ in differing}


PAIRS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("123")).map("".join), min_size=1, max_size=8)
SEQUENCES = st.lists(st.text("abcd", min_size=2, max_size=3), min_size=1, max_size=8)
# Those at odd places have few buckets. Which keys share one follows from their texts and so from the place.
SOME_PAIRS: Logs = [
    ([["a1", "b1"], ["a2"]], ["a1", "a2", "a3"]),  # all of one query
    ([["a2", "b1"], ["c5"]], ["a2", "a5", "b1", "c5", "d4"]),  # all in one bucket
    ([["a1"], ["b1"]], ["d1", "d2", "c1", "c2", "b1", "b2", "a1", "a2"]),  # over the bound
    ([["b1", "b2"]], ["b2"]),  # of another user's two in one bucket the second
    ([["a1", "b1"], ["a2", "c1"]], ["a1", "b1", "c1", "d1"]),  # all of different queries
    ([["a1"], ["b1"]], ["a1", "a1"]),  # one key
]
SOME_SEQUENCES: Logs = [
    ([["ab", "bc"], ["ad"]], ["ab", "ba", "aba", "bab", "aa"]),  # two queries, again and again
    ([["bc", "bd"], ["aca"]], ["bc", "bd", "aca", "bcd"]),  # all in one bucket
    ([["ab"]], ["ab", "ac", "ad", "bc", "bd", "cd", "abc", "abd"]),  # over the bound
    ([["ba", "bab"]], ["bab"]),  # of another user's two in one bucket the second
    ([["ab"], ["cd", "ac"]], ["ab", "cd"]),  # all of different queries
    ([["ab"], ["bc"]], ["aa"]),  # one query
]
ONE_OF_TWO = 3
"""The place of the logs in which the added user has one of another user's two keys in a bucket."""
ROUNDS = [(0, "buckets"), (1, "buckets"), (2, "buckets"), (3, "keys"), (4, "counts")]


def check(engine: Engine, table: str, logs: Logs) -> None:
    plan, outcomes = plan_of(table), with_and_without(engine, table, logs)
    found = lengths(*outcomes)
    assert list(found) == ROUNDS
    for each, moved in found.items():
        most = plan.counted_per_user if each[1] == "counts" else GRID**2
        assert max(moved.values()) <= most, each
        assert max(moved.values()) > 0.75 * most, each  # somebody does move it about as far
    assert len(found[0, "buckets"]) == len(logs) * RUNS
    assert min(found[0, "buckets"].values()) > 0
    assert not others_moved(logs, *outcomes)


@given(logs=st.lists(st.tuples(st.lists(PAIRS, min_size=1, max_size=2), PAIRS), min_size=12, max_size=12))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_no_user_moves_a_round_of_pairs_further(duckdb_engine: Engine, logs: Logs) -> None:
    check(duckdb_engine, "clicks", [*SOME_PAIRS, *logs])


@given(logs=st.lists(st.tuples(st.lists(SEQUENCES, min_size=1, max_size=2), SEQUENCES), min_size=12, max_size=12))
@settings(max_examples=2, deadline=None, derandomize=True)
def test_no_user_moves_a_round_of_sequences_further(duckdb_engine: Engine, logs: Logs) -> None:
    check(duckdb_engine, "sessions", [*SOME_SEQUENCES, *logs])


class OncePerKey(WeightedSelection):
    """A part counts for every key that has it."""

    def looked_at(self, scout: PreselectionRound, weighed: ir.Table) -> ir.Table:
        if scout.parts is None:
            return weighed
        return _weighed(self._pieces.mutate(known=_long(FULL_INTEREST)))


@pytest.mark.parametrize(
    ("table", "logs", "moved"),
    [
        ("clicks", SOME_PAIRS, (3 * 147) ** 2),  # three pairs of one query, of 256/sqrt(3) each
        ("sessions", SOME_SEQUENCES, (7 * 73) ** 2 + (5 * 73) ** 2),  # twelve queries, of 256/sqrt(12) each
    ],
)
def test_parts_that_count_for_every_key_would_be_seen(
    duckdb_engine: Engine, table: str, logs: Logs, moved: int
) -> None:
    found = lengths(*with_and_without(duckdb_engine, table, logs, OncePerKey))
    assert max(found[0, "buckets"].values()) == moved > GRID**2


def all_of_a_bucket(engine: Engine, held: ir.Table, key: Sequence[str], secret: str) -> ir.Table:
    """In place of `_once_per_bucket`: keys that share a bucket all stay."""
    joined = ibis.literal("\t").join([held[name] for name in key])
    return engine.stage(held.mutate(bucket=weighted_selection._bucket(joined, secret)))


def most_held_of_a_bucket(engine: Engine, held: ir.Table, key: Sequence[str], secret: str) -> ir.Table:
    """In place of `_once_per_bucket`: of keys that share a bucket the one stays that most users hold."""
    rows = all_of_a_bucket(engine, held, key, secret)
    rows = rows.mutate(users=rows.count().over(ibis.window(group_by=list(key))))
    bucket = ibis.window(group_by=["user", "bucket"], order_by=[rows.users.desc(), *(rows[name] for name in key)])
    rows = rows.mutate(place=ibis.row_number().over(bucket))
    return engine.stage(rows.filter(rows.place == 0).drop("users", "place"))


@pytest.mark.parametrize(
    ("table", "logs", "moved"),
    [
        ("clicks", SOME_PAIRS, (5 * 114) ** 2),  # five pairs of one bucket, of 256/sqrt(5) each
        ("sessions", SOME_SEQUENCES, (4 * 128) ** 2),  # four sequences of one bucket, of 256/sqrt(4) each
    ],
)
def test_keys_that_all_count_in_a_bucket_would_be_seen(
    duckdb_engine: Engine, table: str, logs: Logs, moved: int
) -> None:
    with mock.patch.object(weighted_selection, "_once_per_bucket", all_of_a_bucket):
        found = lengths(*with_and_without(duckdb_engine, table, logs))
    for each in ROUNDS[1:3]:
        assert max(found[each].values()) == moved > GRID**2


@pytest.mark.parametrize(("table", "logs"), [("clicks", SOME_PAIRS), ("sessions", SOME_SEQUENCES)])
def test_a_choice_by_how_many_hold_a_key_would_be_seen(duckdb_engine: Engine, table: str, logs: Logs) -> None:
    """One more user who holds the second key of two makes it the one that counts for another user."""
    with mock.patch.object(weighted_selection, "_once_per_bucket", most_held_of_a_bucket):
        moved = others_moved(logs, *with_and_without(duckdb_engine, table, logs))
    assert ONE_OF_TWO in moved
