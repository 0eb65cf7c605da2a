"""Exports: grades that noise cannot explain, files that other tools read back, refusals that name a way out."""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import InputError, ParameterError
from querycloak.exports.click_sessions import click_sessions
from querycloak.exports.export import EXPORTS, export
from querycloak.exports.grades import (
    Attention,
    ShownCell,
    UrlScore,
    _graded,
    beyond_noise,
    graded_scores,
    judgements,
    score,
)
from querycloak.exports.ir_dataset import LoggedSearch, LogItem, logged_searches, register
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy
from querycloak.releases.release import Release
from querycloak.releases.safe_text import escaped_text, safe_text
from tests.commands import in_process
from tests.unit.releases.making import CLICKS, QUERIES, SESSIONS, a_release

ROWS = [
    ("weather", "http://weather.example/", 100),
    ("weather", "http://news.example/a b", 97),
    ("weather", "http://maps.example/", 40),
    ("maps", "http://maps.example/", 60),
]


def clicks(rows: list[tuple[str, str, int | None]] | list[tuple[str, str, int]] = ROWS, margin: int = 5) -> Release:
    queries, urls, counts = zip(*rows, strict=True)
    table = pa.table({"query": queries, "url": urls, "count": pa.array(counts, pa.int64())})
    accuracy = TableAccuracy("users", Range(margin, margin), Range(9, 9), Range(12, 12), 0.0)
    return a_release(tables={"clicks": table}, reach={"clicks": accuracy})


def test_grades_by_hand() -> None:
    """100 and 97 lie within 5 sqrt(2) and share the top grade; 40 is 41 % of their mean: grade 2 of 4."""
    graded = judgements(clicks())
    assert [(row.query, row.count, row.grade) for row in graded.rows] == [
        ("weather", 100, 4), ("weather", 97, 4), ("weather", 40, 2), ("maps", 60, 4),
    ]  # fmt: skip
    assert graded.queries == {"weather": "q1", "maps": "q2"}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.floats(0, 1000), st.integers(2, 20))
def test_grades_are_monotone_and_never_within_noise(counts: list[int], margin: float, levels: int) -> None:
    falling = sorted(counts, reverse=True)
    grades = _graded(falling, margin, levels)
    assert grades == sorted(grades, reverse=True)
    assert all(1 <= grade <= levels - 1 for grade in grades)
    assert grades[0] == levels - 1
    for count, grade in zip(falling, grades, strict=True):
        for other, its in zip(falling, grades, strict=True):
            assert grade == its or abs(count - other) > margin


def test_qrels_as_trec_eval_reads_them(tmp_path: Path) -> None:
    import pytrec_eval

    written = export(clicks(), "qrels", tmp_path / "out.qrels")
    assert [path.name for path in written] == ["out.qrels", "out.qrels.queries.tsv", "out.qrels.rule.txt"]
    qrels = pytrec_eval.parse_qrel((tmp_path / "out.qrels").open())
    assert qrels["q1"] == {
        "http://weather.example/": 4, "http://news.example/a%20b": 4, "http://maps.example/": 2,
    }  # fmt: skip
    assert (tmp_path / "out.qrels.queries.tsv").read_text() == "q1\tweather\nq2\tmaps\n"
    assert "share a grade" in (tmp_path / "out.qrels.rule.txt").read_text()


def test_quepid_and_workbench(tmp_path: Path) -> None:
    export(clicks(), "quepid", tmp_path / "quepid.csv")
    rows = list(csv.DictReader((tmp_path / "quepid.csv").open()))
    assert rows[0] == {"query": "weather", "docid": "http://weather.example/", "rating": "4"}
    export(clicks(), "workbench", tmp_path / "judgements.json")
    document = json.loads((tmp_path / "judgements.json").read_text())
    assert document["type"] == "IMPORT_JUDGMENT"
    assert document["judgmentRatings"][0]["query"] == "weather"
    assert document["judgmentRatings"][0]["ratings"][2] == {"docId": "http://maps.example/", "rating": "2.0"}


def test_csv_of_every_table(tmp_path: Path) -> None:
    nasty = pa.table({"query": ['=cmd|"x"', '"=1+1', "plain"], "count": pa.array([9, 8, None], pa.int64())})
    release = a_release(tables={"queries": QUERIES, "sessions": SESSIONS})
    export(release, "csv", tmp_path / "tables")
    assert (tmp_path / "tables" / "queries.csv").read_text().splitlines()[1] == "weather,30"
    rows = list(csv.DictReader((tmp_path / "tables" / "sessions.csv").open()))
    assert json.loads(rows[0]["queries"]) == ["weather", "maps"]
    assert safe_text(nasty["query"][0].as_py()).startswith("'=")
    assert safe_text(nasty["query"][1].as_py()) == "'\"=1+1"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", '"=1', "\"'=1", " =1", "\uff1d1"])
def test_no_text_is_computed(text: str) -> None:
    assert safe_text(text) == f"'{text}"


def test_an_export_of_ir_datasets(tmp_path: Path) -> None:
    export(clicks(), "ir-datasets", tmp_path / "set")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "docs.tsv",
        "qrels",
        "queries.tsv",
        "rule.txt",
    ]
    assert (tmp_path / "set" / "docs.tsv").read_text().splitlines()[
        1
    ] == "http://news.example/a%20b\thttp://news.example/a b"


SEARCHES = pa.table(
    {
        "session": ["s1", "s1", "s1", "s2"],
        "day": ["2026-01-02"] * 3 + ["2026-01-03"],
        "query": ["q", "q", "p", "q"],
        "rank": pa.array([2, 1, None, 1], pa.int32()),
        "url": ["b c", "a", None, "a"],
        "clicked": [True, False, False, False],
    }
)


def test_a_query_log_of_ir_datasets(tmp_path: Path) -> None:
    """A release with rows has searches in place of judgements; a search without results has no items."""
    export(a_release(tables={"log": SEARCHES}), "ir-datasets", tmp_path / "set")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["docs.tsv", "qlogs.jsonl", "queries.tsv"]
    assert (tmp_path / "set" / "queries.tsv").read_text() == "q1\tq\nq2\tp\n"
    logged = sorted(logged_searches(tmp_path / "set"), key=lambda each: (each.session_id, each.query))
    day = datetime(2026, 1, 2)
    assert logged == [
        LoggedSearch("s1", "q2", "p", day, ()),
        LoggedSearch("s1", "q1", "q", day, (LogItem("a", 1, False), LogItem("b%20c", 2, True))),
        LoggedSearch("s2", "q1", "q", datetime(2026, 1, 3), (LogItem("a", 1, False),)),
    ]


def test_ir_datasets_needs_clicks_or_searches(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"this release has queries; clicks, .* eu-records and synthetic a log"):
        export(a_release(), "ir-datasets", tmp_path / "set")
    with pytest.raises(InputError, match=r"it has no queries.tsv, docs.tsv, qrels or qlogs.jsonl"):
        register("june", tmp_path)


def test_a_name_is_registered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of a notebook that runs twice says where the data set is."""
    export(clicks(), "ir-datasets", tmp_path / "set")
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(registry=["june"]))
    with pytest.raises(InputError, match=r"already: ir_datasets.load\('june'\) gives it; .* choose another name"):
        register("june", tmp_path / "set")


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        (a_release(), {}, "judgements need a table of clicks, and this release has queries; clicks, sessions"),
        (clicks(), {"grades": "coec"}, "need views of results"),
        (clicks(), {"levels": 1}, "levels"),
        (clicks(), {"grades": "stars"}, "grades"),
    ],
)
def test_what_cannot_be_exported(tmp_path: Path, release: Release, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        export(release, "qrels", tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path: Path) -> None:
    clicks().save(tmp_path / "release")
    done = in_process("export", tmp_path / "release", "--as", "qrels", "--out", tmp_path / "q")
    assert done.stdout.splitlines()[0] == f"written: {tmp_path / 'q'}"
    refused = in_process("export", tmp_path / "release", "--as", "qrels", "--out", tmp_path / "q")
    assert refused.returncode == 2
    assert "must not exist yet" in refused.stderr
    unknown = in_process("export", tmp_path / "release", "--as", "xml", "--out", tmp_path / "x")
    assert all(name in unknown.stderr for name in EXPORTS)


def shown(
    positions: list[tuple[int, int, int]], rows: list[tuple[str, str, str, int, int]], margin: int = 5
) -> Release:
    """A release of clicks with views: (rank, views, clicks), (query, url, ranks, viewers, clickers)."""
    columns = ("query", "url", "ranks", "viewers", "clickers")
    clicks = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    ranks, views, clicked = zip(*positions, strict=True)
    by_rank = pa.table({"rank": pa.array(ranks, pa.int32()), "views": list(views), "clicks": list(clicked)})
    accuracy = TableAccuracy("users", Range(margin, margin), Range(9, 9), Range(12, 12), 0.0)
    reach = {"clicks": accuracy, "positions": accuracy}
    return a_release(tables={"clicks": clicks, "positions": by_rank}, counts="cells", reach=reach)


VIEWED = shown(
    [(1, 1000, 400), (2, 1000, 100), (4, 100, 10), (5, 100, 0)],
    [
        ("weather", "a", "1", 1000, 400),  # as expected: 1
        ("weather", "b", "2", 1000, 400),  # four times as often as expected
        ("weather", "c", "4-5", 4, 4),  # views within noise
        ("weather", "d", "2", 1000, 102),  # about as expected, as a
    ],
)


VIEWED_IN_NOISE = shown([(1, 1000, 400), (2, 6, 4)], [("q", "a", "1", 4, 4), ("q", "b", "2", 1000, 400)])


def test_grades_by_views_correct_for_rank(tmp_path: Path) -> None:
    """b is clicked as often as a one rank below: it is better by both rules, and worse by none; d equals a."""
    for grades in ("coec", "rate"):
        judged = judgements(VIEWED, grades)
        assert {row.url: row.grade for row in judged.rows} == {"b": 4, "a": 2, "d": 2}
        assert "not graded" in judged.rule
    assert [row.url for row in judgements(VIEWED, "users").rows][:2] == ["a", "b"]
    export(VIEWED, "quepid", tmp_path / "coec.csv", grades="coec")
    assert "clicks over expected clicks" in (tmp_path / "coec.csv.rule.txt").read_text()


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=12),
    st.integers(0, 40),
    st.sampled_from(["coec", "rate"]),
)
def test_grades_by_views_are_monotone_and_never_within_noise(
    pairs: list[tuple[int, int]], margin: int, grades: str
) -> None:
    scores = [
        scored(str(number), 0.3, clicked + missed, clicked, margin, grades)
        for number, (clicked, missed) in enumerate(pairs)
    ]
    falling = sorted((each for each in scores if each is not None), key=lambda each: -each.value)
    graded = graded_scores(falling, margin, grades, 5)
    assert graded == sorted(graded, reverse=True)
    for one, grade in zip(falling, graded, strict=True):
        more = scored("x", 0.3, one.clickers + 1000, one.clickers + 1, margin, grades)
        less = scored("x", 0.3, one.clickers + 1000, one.clickers, margin, grades)
        assert more is None or less is None or more.value > less.value
        for other, its in zip(falling, graded, strict=True):
            assert grade <= its or beyond_noise(one, other, margin, grades)


def scored(url: str, rate: float, viewers: int, clickers: int, margin: float, grades: str) -> UrlScore | None:
    return score(url, {"1": ShownCell(Attention(rate, rate, rate), viewers, clickers)}, margin, grades)


NUMBERS = st.integers(0, 300)
CELLS = st.dictionaries(st.sampled_from(["1", "2", "3"]), st.tuples(NUMBERS, NUMBERS), min_size=1)
RATES = {"1": Attention(0.4, 0.3, 0.5), "2": Attention(0.2, 0.05, 0.3), "3": Attention(0.1, 0.09, 0.11)}


@given(CELLS, CELLS, st.integers(0, 20), st.sampled_from(["coec", "rate"]))
def test_a_score_is_beyond_another_at_every_corner_of_the_margins(
    one: dict[str, tuple[int, int]], other: dict[str, tuple[int, int]], margin: int, grades: str
) -> None:
    """The oracle: least score of one against greatest of the other, for each end of each rate."""
    urls = [
        UrlScore(
            "",
            0.0,
            {ranks: ShownCell(RATES[ranks], missed + clicked, clicked) for ranks, (missed, clicked) in cells.items()},
        )
        for cells in (one, other)
    ]
    differences = []
    for rates in itertools.product(*((each.low, each.high) for each in RATES.values())):
        by_ranks = dict(zip(RATES, rates, strict=True))
        above, below = (ratio(url, by_ranks, sign * margin, grades) for url, sign in zip(urls, (-1, 1), strict=True))
        differences.append(above[0] * below[1] - below[0] * above[1])
    least = min(differences)
    assert abs(least) < 1e-6 or beyond_noise(urls[0], urls[1], margin, grades) == (least > 0)


def ratio(url: UrlScore, rates: dict[str, float], margin: float, grades: str) -> tuple[float, float]:
    """Clicks and views of a url with clicks moved by the margin, views against it."""
    clicks = {ranks: max(each.clickers + margin, 0.0) for ranks, each in url.shown.items()}
    views = {ranks: max(each.viewers - margin * math.sqrt(2), 0.0) for ranks, each in url.shown.items()}
    if grades == "coec":
        return sum(clicks.values()), sum(rates[ranks] * each for ranks, each in views.items())
    return sum(each / rates[ranks] for ranks, each in clicks.items()), sum(views.values())


def test_noise_of_attention_counts_between_ranks_alone() -> None:
    """At one rank it cancels; between ranks whose rates are unsure, four times the clicks are no difference."""
    unsure = Attention(0.2, 0.02, 0.9)
    much, little = ({"2": ShownCell(unsure, 1000, clickers)} for clickers in (400, 100))
    elsewhere = {"1": ShownCell(Attention(0.2, 0.2, 0.2), 1000, 100)}
    for grades in ("coec", "rate"):
        high, low, other = (
            score(each, cells, 5, grades) for each, cells in (("h", much), ("l", little), ("o", elsewhere))
        )
        assert high is not None
        assert low is not None
        assert other is not None
        assert beyond_noise(high, low, 5, grades)
        assert not beyond_noise(high, other, 5, grades)


@pytest.mark.parametrize(
    ("release", "grades", "message"),
    [
        (VIEWED_IN_NOISE, "coec", "noise hides the views of every url or the click rate of its ranks .* 5 in clicks"),
        (VIEWED_IN_NOISE, "rate", "take grades='users'"),
        (a_release(tables={"clicks": CLICKS.slice(0, 0)}), "users", "has no rows"),
    ],
)
def test_no_file_without_judgements(tmp_path: Path, release: Release, grades: str, message: str) -> None:
    for name in ("qrels", "quepid", "workbench", "ir-datasets"):
        with pytest.raises(ParameterError, match=message):
            export(release, name, tmp_path / "out", grades=grades)
    assert list(tmp_path.iterdir()) == []


def test_attributes_are_summed() -> None:
    table = pa.table({"query": ["q"] * 3, "url": ["a", "a", "b"], "country": ["de", "fr", "de"], "count": [60, 50, 30]})
    accuracy = TableAccuracy("users", Range(5, 5), Range(9, 9), Range(12, 12), 0.0)
    release = a_release(tables={"clicks": table}, reach={"clicks": accuracy}, counts="cells")
    assert [(row.url, row.count) for row in judgements(release).rows] == [("a", 110), ("b", 30)]


def test_sessions_for_click_models(tmp_path: Path) -> None:
    shown = pa.table(
        {
            "session": ["s1", "s1", "s1", "s2", "s2"],
            "day": ["2026-01-01"] * 5,
            "query": ["q", "q", "p", "q", "q"],
            "rank": pa.array([2, 1, 1, 1, 2], pa.int32()),
            "url": ["b", "a", "c", "a", "b"],
            "clicked": [True, False, True, False, False],
        }
    )
    sessions, queries, urls, rule = click_sessions(shown)
    named = [
        (
            queries[row["query_id"] - 1].as_py(),
            [urls[number - 1].as_py() for number in row["doc_ids"]],
            row["positions"],
            row["clicks"],
        )
        for row in sessions.to_pylist()
    ]
    assert sorted(named) == [
        ("p", ["c"], [1], [True]),
        ("q", ["a", "b"], [1, 2], [False, False]),
        ("q", ["a", "b"], [1, 2], [False, True]),
    ]
    pairs = {number for row in sessions.to_pylist() for number in row["query_doc_ids"]}
    assert pairs == {1, 2, 3}
    assert "Every result shown" in rule


def test_sessions_of_clicks_alone_end_at_the_last_click() -> None:
    clicked = pa.table(
        {
            "user": ["made-up-1"] * 3,
            "time": pa.array([1, 1, 2], pa.timestamp("us")),
            "query": ["q", "q", "p"],
            "rank": pa.array([3, 1, None], pa.int32()),
            "url": ["c", "a", None],
        }
    )
    sessions, _, urls, rule = click_sessions(clicked)
    (row,) = sessions.to_pylist()
    assert [urls[number - 1].as_py() if number else None for number in row["doc_ids"]] == ["a", None, "c"]
    assert (row["positions"], row["clicks"]) == ([1, 2, 3], [True, False, True])
    assert row["query_doc_ids"][1] == 0
    assert "clicks alone" in rule
    assert click_sessions(clicked.slice(0, 0))[0].num_rows == 0


def test_a_release_without_rows_names_the_methods_that_have_them(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="this release has queries; eu-records and synthetic release one"):
        export(a_release(), "clax", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "file"), [("workbench", ""), ("ir-datasets", "qlogs.jsonl")])
def test_json_holds_no_mark_that_a_terminal_obeys(kind: str, file: str, tmp_path: Path) -> None:
    odd = "a\u202eb\x9b2Jc\u2028d"
    log = SEARCHES.set_column(SEARCHES.column_names.index("query"), "query", pa.array([odd] * SEARCHES.num_rows))
    release = clicks([(odd, "http://a.example/", 9)]) if kind == "workbench" else a_release(tables={"log": log})
    export(release, kind, tmp_path / "out")
    text = (tmp_path / "out" / file).read_text()
    assert escaped_text(text.replace("\n", "").replace("\\u", "")) == text.replace("\n", "").replace("\\u", "")
    document = json.loads(text if kind == "workbench" else text.split("\n")[0])
    assert (document["judgmentRatings"][0] if kind == "workbench" else document)["query"] == odd


def test_two_exports_at_the_same_time_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other export is made when this one has looked and not yet written."""
    out = tmp_path / "set"
    monkeypatch.setattr("querycloak.exports.export.check_new", lambda *_: out.mkdir())
    with pytest.raises(ParameterError, match="appeared while it was written"):
        export(clicks(), "ir-datasets", out)
    assert list(out.iterdir()) == []
