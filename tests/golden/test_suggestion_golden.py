"""Suggestion on the standard log, as an independent program saw it.

Original .0045, .0114; .0037; 31,850 of 55,892; the run of Zhang & Yang (b = 1, K = 20) .0011, .0023; .0001; 6,486.
P@5 and R@5 over answered prefixes, R@5 over all, sessions answered. Its choices: 10,000 test users (here those whose
number ends with 7: the same 55,892 sessions), lambda .5, urls of more than 3,000 queries left out, consecutive repeats
one query, true are the later queries other than the last. It printed two digits, so a value may be off by half a one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.evaluation.tasks.suggestion import Suggestion
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.synthetic.log_writer import PRESETS

MEASURES = (("P@5", "answered"), ("R@5", "answered"), ("R@5", "all"))
PRINTED = {"original": ((0.0045, 0.0114, 0.0037), 31_850), "paper": ((0.0011, 0.0023, 0.0001), 6_486)}
PAPER = qc.Sessions(variant="paper", noise=1, threshold=20, sessions_per_user=1, queries_per_session=3)


@pytest.mark.slow
def test_suggestion_on_the_standard_log(tmp_path: Path) -> None:
    preset = PRESETS["standard"]
    log = qc.synthesize(tmp_path / "log.parquet", preset.users, seed=preset.seed, truth=False).log
    rows = pq.read_table(log)
    tested = pc.ends_with(rows["user"], "7")
    for name, kept in (("train", pc.invert(tested)), ("test", tested)):
        pq.write_table(rows.filter(kept), tmp_path / f"{name}.parquet")
    task = Suggestion(most_queries_of_a_url=3000)
    with qc.read(tmp_path / "train.parquet") as train:
        release = PAPER.release(train, randomness=Randomness(1))
        found = qc.evaluate(train, tmp_path / "test.parquet", {"paper": release}, [task])
    values = {(row.release, row.measure, row.reading): row for row in found.rows if row.slice is None}
    for name, (printed, answered) in PRINTED.items():
        for key, value in zip(MEASURES, printed, strict=True):
            assert values[name, *key].value == pytest.approx(value, abs=0.03 * value + 0.00005), (name, key)
        row = values[name, "P@5", "answered"]
        assert row.cases == 55_892
        assert row.answered == pytest.approx(answered, rel=0.03)
