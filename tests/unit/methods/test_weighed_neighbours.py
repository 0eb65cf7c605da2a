"""One more user moves no round by more than is stated, whatever the scouts found: all outcomes for a few parts.

The rounds are those of a release (`WeightedSelection`); the outcomes of preselection are made up
here, the same for both logs (privacy/calibration/selection.md, claims 2, 4 and 5). Many small logs, and copies of each
for several outcomes, go through the engine at once: texts begin with numbers of copy and log, and so do digests.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from querycloak.methods.keys.weighted_selection import Loads, WeightedSelection, _equally_weighed, _weighed
from querycloak.privacy.calibration.selection import plan_tables
from querycloak.privacy.calibration.weighted import FULL_INTEREST, GRID, LEAST_INTEREST, PreselectionRound, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness

KEYS = {"clicks": ("query", "url"), "sessions": ("queries",)}
BOUND = 5
ENUMERATED, RUNS = 4, 32
"""Of how many parts all outcomes are gone through, twice; what later scouts found differs from run to run."""
SECRET = "the same for all logs"
"""Which keys share a digest follows from it: those of SOME_PAIRS and SOME_SEQUENCES do by this one."""
INTERESTS = (LEAST_INTEREST, 100, 777, FULL_INTEREST)
RUN_DIGITS, LOG_DIGITS = 2, 4
DIGITS = RUN_DIGITS + LOG_DIGITS
Users = Sequence[Sequence[str]]
"""What users hold, one after another: "a1" is the pair of query a and url 1, "aba" the sequence a, b, a."""
Logs = Sequence[tuple[Users, Sequence[str]]]
"""Others, and the user who is added."""
Cell = tuple[int, str]
"""Run and digest, or run and key or part."""
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
        """What the scout leaves in each run, by digest: what shares one is left, or given up, together."""
        digests = dict.fromkeys(loads["digest"].to_pylist())
        left = [each for each in digests if self._passed(run_of(each), without_run(each), scout)]
        cells = [(run_of(each), without_run(each)) for each in left]
        interests = [INTERESTS[int(4 * chance("interest", len(self.weighed), *cell))] for cell in cells]
        return pa.table({"digest": pa.array(left, pa.string()), "known": pa.array(interests, pa.int64())})

    def _passed(self, run: int, digest: str, scout: PreselectionRound) -> bool:
        """Of each log's first parts every subset passes in some run."""
        if scout.parts is not None:
            before = sum(each.startswith(digest[:LOG_DIGITS]) for each in self.places)
            place = self.places.setdefault(digest, before)
            if place < ENUMERATED:
                return bool(run >> place & 1)
        return chance("passed", len(self.weighed), run, digest) < 0.75


def run_of(text: str) -> int:
    """The run of a digest, or of a key or part: the first digits, or those behind the first #."""
    return int((text.partition("#")[2] or text)[:RUN_DIGITS])


def without_run(text: str) -> str:
    """The same digest, key or part without its run."""
    run = f"{run_of(text):0{RUN_DIGITS}}"
    return text.replace(f"#{run}", "#") if "#" in text else text.removeprefix(run)


def chance(*what: object) -> float:
    return int.from_bytes(hashlib.blake2b(repr(what).encode(), digest_size=4).digest()) / 2**32


def supposed(outcomes: Outcomes, kind: type[WeightedSelection]) -> type[WeightedSelection]:
    """WeightedSelection of this kind, but that scouts find, and that comes out, what is supposed."""

    class Supposed(kind):  # type: ignore[valid-type, misc]
        def _preselected(self, loads: pa.Table, scout: PreselectionRound, randomness: Randomness) -> pa.Table:
            return outcomes.known(loads, scout)

        def loads(self, scout: PreselectionRound, weighed: ir.Table) -> Loads:
            found: Loads = super().loads(scout, weighed)
            outcomes.seen("scout", self.engine.fetch(found.table), found.names)
            return found

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


def digest_of_log(text: ir.StringValue, secret: str, digits: int) -> ir.StringValue:
    """The numbers of run and log and one or two digits: if the log's is odd, keys and parts often share a digest."""
    numbers = text.re_extract(f"#([0-9]{{{DIGITS}}})", 1)
    plain = text.re_replace(f"#[0-9]{{{RUN_DIGITS}}}", "#")
    odd = numbers.substr(RUN_DIGITS).cast("int64") % 2 == 1
    last = ibis.ifelse(odd, "0", keyed_digest(plain, secret).substr(1, 1))
    return numbers + keyed_digest(plain, secret, 1) + last + "0" * (digits - DIGITS - 2)


@contextmanager
def digests_of_logs() -> Iterator[None]:
    with mock.patch.object(weighted_selection, "keyed_digest", digest_of_log):
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
    without = Outcomes(having.places)  # the larger logs first: their digests are those of both
    for outcomes in (having, without):
        rows = engine.upload(contributions(table, logs, added=outcomes is having))
        with digests_of_logs():
            selection = supposed(outcomes, kind).of(engine, rows, KEYS[table], plan_of(table))
            replace(selection, secret=SECRET).drawn(Randomness(seed=1))
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
# Those at odd places have few digests. Which keys share one follows from their texts and so from the place.
SOME_PAIRS: Logs = [
    ([["a1", "b1"], ["a2"]], ["a1", "a2", "a3"]),  # all of one query
    ([["a2", "b1"], ["c5"]], ["a2", "a5", "b1", "c5", "d4"]),  # all of one digest
    ([["a1"], ["b1"]], ["d1", "d2", "c1", "c2", "b1", "b2", "a1", "a2"]),  # over the bound
    ([["b1", "b2"]], ["b2"]),  # of another user's two of one digest the second
    ([["a1", "b1"], ["a2", "c1"]], ["a1", "b1", "c1", "d1"]),  # all of different queries
    ([["a1"], ["b1"]], ["a1", "a1"]),  # one key
]
SOME_SEQUENCES: Logs = [
    ([["ab", "bc"], ["ad"]], ["ab", "ba", "aba", "bab", "aa"]),  # two queries, again and again
    ([["bc", "bd"], ["aca"]], ["bc", "bd", "aca", "bcd"]),  # all of one digest
    ([["ab"]], ["ab", "ac", "ad", "bc", "bd", "cd", "abc", "abd"]),  # over the bound
    ([["ba", "bab"]], ["bab"]),  # of another user's two of one digest the second
    ([["ab"], ["cd", "ac"]], ["ab", "cd"]),  # all of different queries
    ([["ab"], ["bc"]], ["aa"]),  # one query
]
ROUNDS = [(0, "scout"), (1, "scout"), (2, "scout"), (3, "keys"), (4, "counts")]


def check(engine: Engine, table: str, logs: Logs) -> None:
    plan, outcomes = plan_of(table), with_and_without(engine, table, logs)
    found = lengths(*outcomes)
    assert list(found) == ROUNDS
    for each, moved in found.items():
        most = plan.counted_per_user if each[1] == "counts" else GRID**2
        assert max(moved.values()) <= most, each
        assert max(moved.values()) > 0.75 * most, each  # somebody does move it about as far
    assert len(found[0, "scout"]) == len(logs) * RUNS
    assert min(found[0, "scout"].values()) > 0
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
        return _equally_weighed(self.parts(scout.parts))


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
    assert max(found[0, "scout"].values()) == moved > GRID**2


def interest_by_users(weighed: ir.Table) -> ir.Table:
    """In place of `_equally_weighed`: keys have the less interest, the more users hold them."""
    names = [name for name in weighed.columns if name in {"query", "url", "queries", "part"}]
    users = weighed.group_by(names).agg(known=(FULL_INTEREST // weighed.count()).cast("int64"))
    return _weighed(weighed.inner_join(users, names))


@pytest.mark.parametrize(("table", "logs"), [("clicks", SOME_PAIRS), ("sessions", SOME_SEQUENCES)])
def test_weights_by_how_many_hold_a_key_would_be_seen(duckdb_engine: Engine, table: str, logs: Logs) -> None:
    """One more user who holds a key takes others' weight away from it, and moves the first round of keys too far."""
    with mock.patch.object(weighted_selection, "_equally_weighed", interest_by_users):
        found = lengths(*with_and_without(duckdb_engine, table, logs))
    assert max(found[0, "scout"].values()) > GRID**2


@pytest.mark.parametrize(("table", "logs"), [("clicks", SOME_PAIRS), ("sessions", SOME_SEQUENCES)])
def test_a_digest_that_is_handed_back_twice_would_be_seen(duckdb_engine: Engine, table: str, logs: Logs) -> None:
    """Rows of a user that a join doubles add up on one key."""
    once = Outcomes.known

    def twice(self: Outcomes, loads: pa.Table, scout: PreselectionRound) -> pa.Table:
        known = once(self, loads, scout)
        return known if scout.parts is not None else pa.concat_tables([known, known])

    with mock.patch.object(Outcomes, "known", twice):
        found = lengths(*with_and_without(duckdb_engine, table, logs))
    assert max(found[2, "scout"].values()) > GRID**2
