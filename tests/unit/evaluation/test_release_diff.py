"""Changes between releases: noise alone is not reported, real changes are, p-values hold for every true count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.errors import ParameterError
from querycloak.evaluation.release_diff import ComparedCounts, CountLaw, benjamini_hochberg, count_law, diff
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from tests.commands import in_process
from tests.unit.releases.making import LOG, a_release

OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "selection": "laplace"}


def published(counts: dict[str, int], options: dict[str, object] = OPTIONS) -> qc.Release:
    """A release of `queries` with these published counts, as its card would describe it."""
    method = qc.Queries(**options)  # type: ignore[arg-type]
    table = pa.table({"query": list(counts), "count": pa.array(counts.values(), pa.int64())})
    return a_release(
        method="queries", tables={"queries": table}, options=method.options(), parameters=method.parameters(),
        claimed=method.claimed(), proven=method.proven(), reach=method.reach(),
    )  # fmt: skip


@pytest.mark.slow
def test_noise_alone_is_rarely_reported() -> None:
    """2,000 keys with the same true count in both releases, near the threshold and far above: at most 5 % alarms."""
    random = np.random.Generator(np.random.PCG64(7))
    law = count_law(published({"a": 20}), "queries")
    assert isinstance(law.noise, Laplace)
    assert law.threshold == 14
    alarms = 0
    for _ in range(40):
        true = random.integers(8, 60, 50)
        sides = []
        for _ in range(2):
            noisy = true + _laplace(random, law.noise.scale, true.size)
            sides.append({f"q{at}": int(count) for at, count in enumerate(noisy) if count > law.threshold})
        result = diff(published(sides[0]), published(sides[1]))
        alarms += bool(result.changed or result.appeared or result.vanished)
    assert alarms <= 5


def _laplace(random: np.random.Generator, scale: float, size: int) -> np.ndarray:
    p = 1 - np.exp(-1 / scale)
    return random.geometric(p, size) - random.geometric(p, size)


def test_real_changes_are_reported() -> None:
    before = {"same": 50, "grows": 40, "gone": 90} | {f"q{at}": 30 for at in range(20)}
    after = {"same": 51, "grows": 80, "new": 120} | {f"q{at}": 31 for at in range(20)}
    result = diff(published(before), published(after))
    assert [each.key["query"] for each in result.changed] == ["grows"]
    assert [each.key["query"] for each in result.appeared] == ["new"]
    assert [each.key["query"] for each in result.vanished] == ["gone"]
    assert result.tested == 24


def test_a_key_at_the_threshold_may_come_and_go() -> None:
    """A key published once, just above the threshold, is no finding: noise hides it half of the time."""
    result = diff(published({"a": 15, "b": 40}), published({"b": 41, "c": 16}))
    assert result.appeared + result.vanished + result.changed == ()


@pytest.mark.parametrize("noise", [Laplace(1.0), Laplace(4.0), Gaussian(3.9)])
@pytest.mark.parametrize("thresholds", [(14, 14), (9, 23)])
def test_p_values_hold_for_every_true_count(noise: Noise, thresholds: tuple[int, int]) -> None:
    """Pr[p <= alpha | both published] <= alpha, by enumeration, also where releases differ in threshold."""
    laws = [
        CountLaw(noise, threshold, route=ReleaseProbability((Stage(noise, threshold),))) for threshold in thresholds
    ]
    compared = ComparedCounts(*laws)
    for true in (0, 5, 14, 20, 40):
        (start, first), (other_start, other) = (law.published(true) for law in laws)
        wide = (
            [at for at in range(first.size) if first[at] > 1e-6],
            [at for at in range(other.size) if other[at] > 1e-6],
        )
        reported = dict.fromkeys((0.05, 0.001), 0.0)
        for one in wide[0]:
            for two in wide[1]:
                p_value = compared.p_value(True, True, start + one, other_start + two)
                assert p_value is not None
                for alpha in reported:
                    reported[alpha] += first[one] * other[two] * (p_value <= alpha)
        assert all(share <= alpha for alpha, share in reported.items()), (true, reported)


def test_benjamini_hochberg_by_hand() -> None:
    """Benjamini and Hochberg 1995, section 3: 15 p-values, four below the line at .05."""
    p_values = np.array(
        [
            0.0001,
            0.0004,
            0.0019,
            0.0095,
            0.0201,
            0.0278,
            0.0298,
            0.0344,
            0.0459,
            0.3240,
            0.4262,
            0.5719,
            0.6528,
            0.7590,
            1,
        ]
    )
    assert (benjamini_hochberg(p_values) <= 0.05).sum() == 4
    shuffled = np.array([3, 1, 0, 2])
    assert benjamini_hochberg(p_values[shuffled])[2] == benjamini_hochberg(p_values[:4])[0]
    assert benjamini_hochberg(np.array([])).size == 0


def test_exact_counts_differ_or_do_not() -> None:
    method = qc.KAnonymity(min_users=5, keys="queries")

    def rule(counts: dict[str, int]) -> qc.Release:
        table = pa.table({"query": list(counts), "count": pa.array(counts.values(), pa.int64())})
        return a_release(
            method="k-anonymity", tables={"queries": table}, counts="exact", options=method.options(),
            parameters=method.parameters(), proven=method.proven(), claimed=None, reach=method.reach(),
        )  # fmt: skip

    result = diff(rule({"a": 5, "b": 7}), rule({"a": 6, "b": 7, "c": 9}))
    assert [each.key["query"] for each in result.changed] == ["a"]
    assert [each.key["query"] for each in result.appeared] == ["c"]


def test_releases_that_cannot_be_compared() -> None:
    with pytest.raises(ParameterError, match="share no table"):
        diff(published({"a": 20}), a_release(tables={"log": LOG}))
    with pytest.raises(ParameterError, match="publishes no counts with known noise"):
        diff(*(a_release(tables={"log": LOG}, counts="synthetic"),) * 2)
    with pytest.raises(ParameterError, match="fdr"):
        diff(published({"a": 20}), published({"a": 20}), fdr=2)


def test_the_command(tmp_path: Path) -> None:
    published({"same": 50, "grows": 40}).save(tmp_path / "a")
    published({"same": 50, "grows": 90, "new": 100}).save(tmp_path / "b")
    done = in_process("diff", tmp_path / "a", tmp_path / "b", "--json")
    document = json.loads(done.stdout)
    assert (document["appeared"], document["vanished"]) == (1, 0)
    (changed,) = document["changed"]
    assert changed == {
        "table": "queries", "key": {"query": "grows"}, "before": 40, "after": 90, "q_value": pytest.approx(0, abs=1e-6),
    }  # fmt: skip
    shown = in_process("diff", tmp_path / "a", tmp_path / "b").stdout
    assert "grows" in shown
    assert "1 appeared, 0 vanished, 1 changed beyond noise" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_picture(tmp_path: Path) -> None:
    published({"stays": 900, "grows <b>": 500, "goes": 700}).save(tmp_path / "a")
    published({"stays": 903, "grows <b>": 2500, "comes": 800}).save(tmp_path / "b")
    done = in_process("diff", tmp_path / "a", tmp_path / "b", "--picture", tmp_path / "changes.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "changes.html").read_text()
    assert "1 appeared, 1 vanished, 1 changed beyond noise" in page
    assert "Counts before and after" in page
    assert "grows &lt;b&gt;" in page
    assert "PRIVATE" not in page
    in_process("diff", tmp_path / "a", tmp_path / "a", "--picture", tmp_path / "same.html")
    assert "0 appeared, 0 vanished, 0 changed beyond noise" in (tmp_path / "same.html").read_text()
