"""The study of the European rules: its releases, its thresholds, and the page that is made of its figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from bench.european_rules import KEPT, SENSITIVE, Study, scaled_numbers, study_releases
from bench.figure_file import FigureFile
from bench.query_bands import BANDS, RESAMPLES, PreparedBands, band_of, perplexity
from bench.study_logs import Sides
from scripts.make_european_page import CLICKED_TABLE, FIELD, PAGE, SIZES, TABLE, TEMPLATE, page_of, read

import querycloak as qc
from bench import european_rules
from querycloak.comparison.comparison_plan import usual_releases
from querycloak.comparison.comparison_summary import promise_of
from querycloak.errors import InputError
from querycloak.evaluation.task import CaseScores
from querycloak.evaluation.tasks.click_model import PERPLEXITY
from querycloak.methods.eu_records.european_rules import NUMBERS, RULES


def test_thresholds_are_scaled_to_the_log_and_stay_thresholds() -> None:
    assert scaled_numbers(3_000, 3_000_000) == {"min_term_users": 2, "min_group_users": 2}
    assert scaled_numbers(300_000, 3_000_000) == {"min_term_users": 5, "min_group_users": 100}


@pytest.mark.parametrize("attributes", [(), ("country", "device")])
def test_rules_and_guarantees_stand_in_one_study(attributes: tuple[str, ...]) -> None:
    releases = dict(study_releases(attributes, scaled_numbers(1_000, 1_000_000)))
    kinds = {name: method.proven().kind for name, method in releases.items()}
    assert {name for name, kind in kinds.items() if kind == "syntactic"} == {
        "dma-2024", "dma-2026", "dma-2026, scaled", "ddg-2026", "bare records",
    }  # fmt: skip
    assert sum(kind == "approximate-dp" for kind in kinds.values()) == 12
    assert qc.EuRecords(preset="dma-2026").numbers["min_group_users"] == 1_000


def test_owners_are_warned_of_what_is_assumed() -> None:
    for method in (qc.KAnonymity(preset="dma-2024"), qc.EuRecords(preset="dma-2026"), qc.EuRecords(preset="ddg-2026")):
        assert any("assumed by us" in str(each) for each in method.cautions())
    assert not qc.KAnonymity(preset="dma").cautions()


def test_every_assumed_number_of_the_decision_is_varied() -> None:
    varied = {option for preset, option, _ in SENSITIVE if preset == "dma-2026"}
    assert set(RULES["dma-2026"].assumed) <= varied
    assert varied <= set(NUMBERS)


def test_the_page_is_its_template_with_the_figures_of_the_tables() -> None:
    tables = {users: read(path) for users, path in SIZES.items()}
    assert page_of(TEMPLATE.read_text(), read(TABLE), tables, read(CLICKED_TABLE)) == PAGE.read_text()


def test_findings_take_every_figure_from_a_table() -> None:
    findings = "".join(re.findall(r"^## Findings.*?(?=^## )", TEMPLATE.read_text(), re.MULTILINE | re.DOTALL))
    assert len(FIELD.findall(findings)) > 60
    typed = re.findall(r"(?<![\w.,-])\d[\d,.]*\d|(?<![\w.,-])\d", FIELD.sub("", findings))
    # years, options, thresholds, sizes of a recipient's log, a claim of others, and the scales of figures
    assert set(typed) <= {"2024", "2026", "8", "3", "0", "1", "2", "5", "50", "30", "95", "1,000", "3,000", "30,000"}


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("%", "5.7 %"),
        ("% ..", "5.7 % (4.2 to 7.6 %)"),
        ("% to", "4.2 to 7.6 %"),
        (".2", ".06"),
        (".2 to", ".04 to .08"),
    ],
)
def test_figures_in_sentences(form: str, shown: str) -> None:
    row = {"part": "leaked", "release": "a", "figure": "b", "value": "0.0565", "low": "0.0419", "high": "0.0758"}
    assert page_of(f"x {{{{b | a | {form}}}}} y", [row], {}) == f"x {shown} y"
    assert page_of("{{9: b | a | n}}", [], {9: [{**row, "value": "18029"}]}) == "18,029"


def test_a_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    figures = FigureFile(tmp_path / "figures.csv")
    figures.add([{"part": "log", "release": "train", "figure": "users", "value": 5}])
    figures.add([{"part": "leaked", "release": "a", "figure": "secrets", "value": 0.25, "low": 0.1, "high": 0.5}])
    figures.add([{"part": "leaked", "release": "a", "figure": "known visit", "value": None}])
    again = FigureFile(tmp_path / "figures.csv")
    assert again.lacking("leaked", "a", ["secrets", "known visit", "regurgitated"]) == ["regurgitated"]
    assert again.rows_of("a", ["leaked"])[0]["value"] == 0.25
    again.add([{"part": "log", "release": "train", "figure": "users", "value": 5}])
    with pytest.raises(InputError, match="a log with 5 users in train, and this one has 6; name another file"):
        again.add([{"part": "log", "release": "train", "figure": "users", "value": 6}])


def test_a_varied_number_is_measured_once_and_the_rule_itself_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def fake(name: str, method: Any, log: Any) -> str:
        made.append(name)
        return name

    def rows(part: str, release: str, figures: Sequence[str]) -> list[dict[str, Any]]:
        return [{"part": part, "release": release, "figure": figure, "value": 0.5} for figure in figures]

    monkeypatch.setattr(european_rules, "made", fake)
    monkeypatch.setattr(european_rules, "kept", lambda _, release: rows("kept", release, KEPT))
    monkeypatch.setattr(european_rules, "leaked", lambda release, _, figures: rows("leaked", release, figures))
    sides: Any = SimpleNamespace(
        train=SimpleNamespace(stage=lambda: None, engine=None),
        sizes=lambda: [{"part": "log", "release": "train", "figure": "users", "value": 9}],
    )
    for _ in range(2):
        figures = FigureFile(tmp_path / "figures.csv")
        study = Study(sides, (), figures, ["sensitivity"], ["dma-2026, mini_session"], ["secrets"])
        study.__dict__["knowledge"] = None
        study.run()
        for length in (1, 2, 5, 10):
            assert not figures.lacking("sensitivity", f"dma-2026, mini_session {length}", [*KEPT, "secrets"])
    assert made == [f"dma-2026{each}" for each in (", mini_session 1", ", mini_session 2", "", ", mini_session 10")]


def test_what_a_log_lacks_is_said() -> None:
    rows = "".join(f"u{user}\t2006-03-0{day} 10:00:00\tq\n" for user in range(3) for day in (1, 2))
    log = qc.read(pa.csv.read_csv(pa.py_buffer(("user\ttime\tquery\n" + rows).encode()),
                                  parse_options=pa.csv.ParseOptions(delimiter="\t")))  # fmt: skip
    with log:
        lacking = list(Sides(log, log, log).missing())
    assert [each.split(":")[0] for each in lacking] == [
        "The log is read without attributes",
        "The log lacks results that nobody clicked",
        "No truth of a synthetic log is known",
    ]


def test_head_torso_and_tail_are_shares_of_the_log_and_cover_all_cases() -> None:
    assert band_of(np.array([0, 1, 2, 17, 18]), 18_000).tolist() == [2, 2, 1, 1, 0]
    assert band_of(np.array([2, 3]), 100).tolist() == [1, 0]
    scores = CaseScores(PERPLEXITY, np.array([1.0, 0.0, np.nan, 1.0]), np.array([0, 0, 1, 1]))

    class Scored:
        def scores(self, subject: Any) -> list[CaseScores]:
            return [scores]

    subject: Any = None
    whole, *parts = PreparedBands(Scored(), np.array([0, 1, 2, 2])).scores(subject)
    assert whole is scores
    assert [each.slice for each in parts] == list(BANDS)
    assert [each.users.tolist() for each in parts if isinstance(each, CaseScores)] == [[0], [0], [1, 1]]


def test_perplexity_of_bands_is_the_tasks_and_lies_in_its_interval() -> None:
    random = np.random.default_rng(RESAMPLES)
    query, rank = random.integers(30, size=400), random.integers(10, size=400)
    views, chances = random.integers(1, 5, size=400).astype(float), random.uniform(0.1, 0.6, size=400)
    clicks = random.binomial(views.astype(int), chances).astype(float)
    bits = -(clicks * np.log2(chances) + (views - clicks) * np.log2(1 - chances))
    by_rank = [PERPLEXITY(clicks[rank == r], chances[rank == r], views[rank == r]) for r in range(10)]
    value, low, high = perplexity(query, rank, bits, views)
    assert value == pytest.approx(np.mean(by_rank))
    assert low < value < high


def test_the_rules_stand_in_the_demo_and_are_called_rules() -> None:
    planned = {each.name: each.made() for each in usual_releases() if each.method in ("eu-records", "k-anonymity")}
    assert {"eu-records-dma-2026", "eu-records-ddg-2026", "k-anonymity-dma"} <= set(planned)
    for method in planned.values():
        proven = method.proven()
        assert promise_of({"failed": False, "proven": {"kind": proven.kind, "neighbours": proven.neighbours}}) == "rule"
