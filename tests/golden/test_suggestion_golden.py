"""Suggestion on the standard log, as an independent program saw it: original .0045, .0114; .0037; 31,850 of 55,892.

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
from querycloak.synthetic.presets import PRESETS
from querycloak.utility.suggestion import Suggestion

PRINTED = {("P@5", "answered"): 0.0045, ("R@5", "answered"): 0.0114, ("R@5", "all"): 0.0037}


@pytest.mark.slow
def test_the_original_on_the_standard_log(tmp_path: Path) -> None:
    preset = PRESETS["standard"]
    log = qc.synthesize(tmp_path / "log.parquet", preset.users, seed=preset.seed, truth=False).log
    rows = pq.read_table(log)
    tested = pc.ends_with(rows["user"], "7")
    for name, kept in (("train", pc.invert(tested)), ("test", tested)):
        pq.write_table(rows.filter(kept), tmp_path / f"{name}.parquet")
    task = Suggestion(most_queries_of_a_url=3000)
    found = qc.evaluate(tmp_path / "train.parquet", tmp_path / "test.parquet", [], [task])
    values = {(row.measure, row.reading): row for row in found.rows if row.release == "original" and row.slice is None}
    for key, printed in PRINTED.items():
        assert values[key].value == pytest.approx(printed, abs=0.03 * printed + 0.00005), key
    row = values["P@5", "answered"]
    assert row.cases == 55_892
    assert row.answered == pytest.approx(31_850, rel=0.03)
