"""`audit method`: the library, the command, its JSON and exit codes; the page that shows how to plug in a mechanism."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from pathlib import Path
from unittest import mock

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from querycloak.audits.guarantees import fresh_processes, method_audit
from querycloak.audits.guarantees.exact_test import ExactFinding
from querycloak.audits.guarantees.mechanism import Outcomes
from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.audits.guarantees.method_mechanism import MethodMechanism
from querycloak.audits.guarantees.neighbour_logs import NeighbourLogs
from querycloak.audits.guarantees.remembering_engine import RememberingEngine
from querycloak.audits.guarantees.sampling_test import ceiling, epsilon_low, level
from querycloak.audits.guarantees.steps import Past
from querycloak.audits.guarantees.weighted_runs import UserCells, UserKeys
from querycloak.cli.audit_method_command import _progress
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Counted, Method
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.sampling.noise import Laplace
from tests.commands import in_process
from tests.conftest import FIXTURES
from tests.unit.audits.broken_mechanisms import with_another_plan

PAGE = Path(__file__).parents[3] / "docs" / "audits.md"
POOL = str(FIXTURES / "pool.txt")
ONE = ("--noise", "1", "--threshold", "5", "--max-keys-per-user", "1")


def test_the_ceiling() -> None:
    """By hand: ln(50,000 / ln(4 x 20 x 10^6)) = 7.9."""
    assert round(ceiling(50_000, 10), 1) == 8.0
    assert round(ceiling(50_000, 20), 1) == 7.9
    assert level(20) == pytest.approx(1e-6 / 80)


@given(st.integers(0, 300), st.integers(0, 300), st.floats(0, 0.2))
def test_the_bound_is_that_of_clopper_and_pearson(happened: int, other: int, delta: float) -> None:
    low = beta.ppf(1e-7, happened, 301 - happened) if happened else 0.0
    up = beta.ppf(1 - 1e-7, other + 1, 300 - other) if other < 300 else 1.0
    expected = max(0.0, math.log((low - delta) / up)) if low > delta else 0.0
    assert float(epsilon_low(happened, other, 300, delta, 1e-7)) == pytest.approx(expected, abs=1e-6)


def test_entries_of_one_name_are_added_up_and_lots_of_runs_follow_each_other() -> None:
    one = Outcomes.of_numbers(a=[1, np.nan], b=[2, 3])
    both = Outcomes.one_after_another([one, Outcomes.of_numbers(b=[5])])
    assert both.runs == 3
    np.testing.assert_array_equal(both.column("a"), [1, np.nan, np.nan])
    np.testing.assert_array_equal(both.column("b"), [2, 3, 5])


def test_the_kinds_of_neighbours() -> None:
    found = {pair.name.split(":")[0] for pair in NeighbourLogs(Clicks(noise=1, threshold=5)).pairs()}
    found |= {
        pair.name.split(":")[0] for pair in NeighbourLogs(Semantic(epsilon=2, domain="sport", max_queries=2)).pairs()
    }
    # A method of another package may add the kind `method`.
    assert found == {
        "own", "one-key", "one-query", "threshold", "shared", "lift", "repeats", "odd-rows", "accounts", "nobody",
        "replaced",
    }  # fmt: skip
    for pair in NeighbourLogs(Clicks(noise=1, threshold=5)).pairs():
        assert pair.without != pair.having


def test_neighbours_reach_the_largest_bound_that_may_be_chosen() -> None:
    """auto may count one key of a user or 256: a user of 256 and one of more than count must be among the pairs."""
    chosen = Clicks(epsilon=8, delta=1e-6)
    assert chosen.parameters()["auto_choices"] == ["laplace 1", "rounds 16", "rounds 256"]
    added = [pair.having.count("own ") for pair in NeighbourLogs(chosen, ["own"]).pairs()]
    assert 256 in added
    assert max(added) > 256


def test_neighbours_of_reuse_agree_on_which_searches_share_a_concept() -> None:
    """That is not protected (semantic.md, claim 5): a pair that differs in it would refute a sound method."""

    def pattern(log: str) -> list[int]:
        texts = [line.split("\t")[1] for line in log.splitlines()[1:]]
        return [texts.index(text) for text in texts]

    pairs = list(NeighbourLogs(Semantic(epsilon=2, domain="sport", repeats="reuse")).pairs())
    assert len(pairs) == 4
    for pair in pairs:
        assert pair.without != pair.having
        assert pattern(pair.without) == pattern(pair.having), pair.name


def test_replaced_queries_are_as_many_of_the_same_users() -> None:
    for pair in NeighbourLogs(Semantic(epsilon=2, domain="disease|sport", max_queries=2)).pairs():
        sides = [[row.split("\t") for row in text.splitlines()] for text in (pair.without, pair.having)]
        assert [(row[0], row[2]) for row in sides[0]] == [(row[0], row[2]) for row in sides[1]]


@pytest.mark.parametrize(
    ("method", "kinds"),
    [
        (Semantic(epsilon=2, domain="sport", max_queries=2), ["replaced"]),
        (QueryPool(epsilon=2, pool=POOL, queries_per_user=1), ["lift", "accounts"]),
    ],
    ids=["semantic", "query-pool"],
)
def test_a_semantic_method_and_a_pool_pass(method: Method, kinds: list[str]) -> None:
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        found = audit_method(method, runs=400, seed=1, neighbours=kinds)
    assert found.holds
    assert found.exact


def test_a_claim_is_refuted_and_nothing_fails() -> None:
    paper = QueryPool(noise=1, threshold=10, pool=POOL, queries_per_user=1, clicks_per_user=1, variant="paper")
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        found = audit_method(paper, runs=1_000, seed=1, neighbours=["lift"])
    assert found.refutes_claim
    assert found.holds


def test_a_method_that_is_broken_whatever_the_log_is_not_passed_over() -> None:
    class Broken(Clicks):
        def count(self, log: SearchLog) -> Counted:
            raise IndexError("a bug")

    with pytest.raises(IndexError, match="a bug"):
        audit_method(Broken(noise=1, threshold=5, max_keys_per_user=1), runs=10, neighbours=["own"])


def test_the_command(tmp_path: Path) -> None:
    assert f"querycloak audit method clicks {' '.join(ONE)}\n" in PAGE.read_text()  # the page's example
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        words = (
            "audit",
            "method",
            "clicks",
            *ONE,
            "--runs",
            "400",
            "--seed",
            "1",
            "--neighbours",
            "own,shared,accounts",
        )
        done = in_process(*words, "--json", tmp=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        shown = json.loads(done.stdout)
        assert list(shown) == ["method", "claimed", "proven", "measured", "pairs", "exact"]
        assert list(shown["measured"]) == [
            "epsilon", "delta", "runs", "confidence", "ceiling", "smallest_shown", "neighbours", "event",
        ]  # fmt: skip
        assert 0 <= shown["measured"]["epsilon"] <= shown["proven"]["epsilon"]
        assert shown["measured"]["delta"] == shown["proven"]["delta"]
        assert all(each["holds"] for each in shown["exact"])
        assert json.loads(in_process(*words, "--json", tmp=tmp_path).stdout) == shown
        told = in_process(*words, tmp=tmp_path)
        assert "power" in told.stdout
        assert max(map(len, told.stdout.splitlines())) <= 80


def test_more_than_is_proven_is_exit_code_4(tmp_path: Path) -> None:
    whole = Clicks.__post_init__

    def halved(method: Clicks) -> None:
        whole(method)
        with_another_plan(method, noise=Laplace(0.5))

    with (
        mock.patch.object(method_audit, "fresh_processes", return_value=[]),
        mock.patch.object(Clicks, "__post_init__", halved),
    ):
        words = ("audit", "method", "clicks", *ONE, "--runs", "2000", "--seed", "1", "--neighbours", "shared")
        done = in_process(*words, tmp=tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("querycloak: clicks does not have the guarantee that is proven for it")
    assert done.stderr.count("\n") == 1


def test_what_promises_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="neither claims nor proves differential privacy"):
        audit_method(KAnonymity(min_users=5))
    done = in_process("audit", "method", "affinity", "--min-users", "5", tmp=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "querycloak audit release" in done.stderr
    with pytest.raises(ParameterError, match="neighbours must be among own"):
        audit_method(Clicks(noise=1, threshold=5), neighbours=["mine"])
    with pytest.raises(ParameterError, match="runs must be"):
        audit_method(Clicks(noise=1, threshold=5), runs=0)


def test_a_measurement_of_opendp_plugs_in_as_the_page_says() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code) == 1
    made: dict[str, object] = {"__name__": "page"}
    exec(code[0], made)
    assert not made["sound"].refuted  # type: ignore[attr-defined]
    assert made["broken"].refuted  # type: ignore[attr-defined]


def test_users_who_hold_the_same_stand_for_one_another_in_many_runs() -> None:
    lists = [[0], [0], [1, 2], [0], [1, 2], [2, 1], [3, 0, 1]]
    user = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    cells = UserCells(user, np.concatenate(lists), 4)
    keys = UserKeys(pa.table({"query": list("abcd")}), cells, np.full(user.size, 1024), np.ones(user.size, np.int64))
    grouped = keys.grouped()
    assert (grouped.pairs.user.max() + 1, grouped.pairs.copies.tolist()) == (4, [3, 2, 1, 1])  # type: ignore[union-attr]
    known = np.random.default_rng(1).integers(0, 1025, (50, 4))
    weighed = [each.pairs.sums(each.pairs.weights(each.interest(known))) for each in (keys, grouped)]
    assert (weighed[0] == weighed[1]).all()
    counted = [each.counts(known > 300, 1, None) for each in (keys, grouped)]
    assert (counted[0] == counted[1]).all()


def test_queries_that_came_out_are_the_same_for_both_neighbours() -> None:
    """Each log's own queries were taken: a word of the user's own query then moved counts of everybody else."""
    method = Sessions(epsilon=4, delta=1e-6, max_keys_per_user=1, selection="laplace", sequences="released")
    (pair,) = [each for each in NeighbourLogs(method, ["own"]).pairs() if each.name.endswith("more than count")]
    past = Past("one in three came out", 1 / 3)
    with MethodMechanism(method) as mechanism:
        for log in (pair.having, pair.without):
            mechanism.counted(log)
        having, without = (
            next(step for step in mechanism.steps(log, past) if step.name == "reformulations: counts")
            for log in (pair.having, pair.without)
        )
    cells = {*having.centres, *without.centres}
    moved = [abs(float(having.centres.get(cell, 0)) - float(without.centres.get(cell, 0))) for cell in cells]
    assert sum(moved) <= having.l1
    assert max(moved) <= 1


def test_progress_is_told_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits take minutes: shares grow to 1, and a terminal shows the time left."""
    steps: list[tuple[str, float]] = []
    method = Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace")
    with mock.patch.object(method_audit, "fresh_processes", return_value=[]):
        audit_method(method, runs=20, neighbours=["nobody"], on_step=lambda what, share: steps.append((what, share)))
    shares = [share for _, share in steps]
    assert (shares[0], shares[-1]) == (0, 1)
    assert shares == sorted(set(shares))
    assert len(shares) >= 4

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with _progress(quiet=False) as on_step:
        assert on_step is not None
        on_step("neighbours own", 0.5)
    assert "neighbours own" in terminal.getvalue()
    assert re.search(r"(\d|-):(\d\d|--):(\d\d|--)", terminal.getvalue())
    with _progress(quiet=True) as on_step:
        assert on_step is None


def test_an_audit_computes_equal_expressions_once() -> None:
    engine = RememberingEngine()
    rows = pa.table({"user": ["a", "b", "b"], "n": [1, 2, 3]})

    def worked() -> tuple[ir.Table, ir.Table, pa.Table]:
        table = engine.upload(rows)
        staged = engine.stage(table.group_by("user").agg(n=table.n.sum()))
        return table, staged, engine.fetch(staged.order_by("user"))

    with engine.remembering():
        first = worked()
    with engine.remembering():
        again = worked()
    assert [each.get_name() for each in again[:2]] == [each.get_name() for each in first[:2]]
    assert again[2] is first[2]
    assert first[2]["n"].to_pylist() == [1, 5]
    apart = worked()
    assert {each.get_name() for each in apart[:2]}.isdisjoint(each.get_name() for each in first[:2])
    assert apart[2].equals(first[2])
    with engine.remembering():
        other = engine.upload(rows.slice(1))
        assert engine.fetch(other.aggregate(n=other.n.sum()))["n"].to_pylist() == [5]
    engine.close()


def test_many_pairs_share_the_runs_of_their_smaller_log() -> None:
    """Also where pairs with another log stand between them."""
    method = Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace")
    with (
        mock.patch.object(method_audit, "fresh_processes", return_value=[]),
        mock.patch.object(MethodMechanism, "outcomes", autospec=True, side_effect=MethodMechanism.outcomes) as drawn,
    ):
        audit = audit_method(method, runs=20, seed=1, neighbours=["one-key", "nobody", "repeats"])
    logs = [call.args[1] for call in drawn.call_args_list]
    assert len(logs) == len(set(logs)) == len(audit.sampled) + 2


def test_another_process_finds_exactly_the_same() -> None:
    method = Clicks(epsilon=1, delta=1e-6, selection="laplace", max_keys_per_user=2)
    kinds, stated = ["shared"], method.proven()
    pairs = NeighbourLogs(method, kinds).pairs()
    with MethodMechanism(method) as mechanism:
        here = [each for pair in pairs for each in method_audit.exact_findings(mechanism, pair, stated)]
    process = fresh_processes.started(
        "querycloak.audits.guarantees.method_audit", {"method": fresh_processes.spelled(method), "neighbours": kinds}
    )
    there = [ExactFinding(**each) for each in json.loads(process.communicate()[0])]
    assert process.returncode == 0
    assert there == here
    assert here


def test_a_class_within_a_function_is_audited_in_this_process() -> None:
    class Ours(Clicks):
        pass

    assert not fresh_processes.can_be_spelled(Ours(epsilon=1, delta=1e-6))
    assert fresh_processes.can_be_spelled(Clicks(epsilon=1, delta=1e-6))


def test_a_null_is_a_name_like_any_other() -> None:
    table = pa.table({"run": [0, 1, 1], "query": ["a", "a", "b"], "url": ["x", None, None], "count": [1, 2, 3]})
    outcomes = Outcomes.of_table(2, table, "log")
    assert set(outcomes.names) == {"log a x", "log a None", "log b None"}
    assert outcomes.column("log b None").tolist()[1] == 3
    assert math.isnan(outcomes.column("log b None")[0])
