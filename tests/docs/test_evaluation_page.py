"""docs/evaluation.md is what the command makes of the stored results."""

from __future__ import annotations

from scripts import make_evaluation_page as maker

CASES = {"task": "ranking", "measure": "tau-b", "low": "0.1", "high": "0.3", "cases": "50", "answered": "20", "why": ""}


def row(release: str, reading: str, value: str, part: str = "", **more: str) -> maker.Row:
    return {**CASES, "release": release, "slice": part, "reading": reading, "value": value, "p_value": "", **more}


def test_the_page_is_what_the_stored_results_render_to() -> None:
    page, rows = maker.PAGE.read_text(), maker.read_values()
    assert maker.page_with_tables(page, rows, maker.read_values(maker.ADDED)) == page
    assert {found[1] for found in maker.BLOCK.findall(page)} >= {each["task"] for each in rows}


def test_a_line_says_what_the_rows_say() -> None:
    rows = [
        row("mine, w k", "answered", "0.2"),
        row("mine, w k", "all", "0.08", low="0.05", high="0.11"),
        row("mine, w k", "common", "0.25"),
        row("mine, w k", "common", "-0.05", "difference", low="-0.09", high="-0.01", p_value="0.01"),
        row("other", "answered", "", why="it has no clicks; clicks has some"),
    ]
    table = maker._cases(rows, "").splitlines()
    assert table[2] == "| `mine` | 0.08 [0.05, 0.11] | 20 (40.0%) | 0.2 [0.1, 0.3] | 0.25 | -0.05* [-0.09, -0.01] |"
    assert table[-1] == "Not there: `other`: it has no clicks."


def test_releases_stand_beside_no_data() -> None:
    """0.25 is 0.15 more than a rule without data; a release that cannot do the task has a dash."""
    values = {"no-data": "0.1", "original": "0.5", "k-anonymity": "0.3", "clicks, 8": "0.25", "queries, 8": ""}
    rows = [row(name, "all", value) for name, value in {**values, "clicks, 1": "0.2"}.items()]
    table = maker.added_table(rows, "8").splitlines()
    assert table[0] == "| task, measure | no data | `original` | `k-anonymity` | `clicks` | `queries` |"
    assert table[2] == "| ranking, tau-b | 0.1 | +0.4 | +0.2 | +0.15 | - |"


def test_an_order_that_does_not_hold_is_called_so() -> None:
    def suggested(dp: str) -> list[maker.Row]:
        values = {"original": "0.1", "k-anonymity": "0.2", "clicks": dp, "sessions": "0.4"}
        return [
            {**row(name, reading, value, part), "task": "suggestion", "measure": measure}
            for name, value in values.items()
            for measure in ("P@5", "R@5")
            for reading, part in (("answered", ""), ("all", ""), ("common", "difference"))
        ]

    assert next(maker.suggestion_findings(suggested("0.3"))).endswith("k-anonymity below both others holds.")
    assert next(maker.suggestion_findings(suggested("0.15"))).endswith(
        "k-anonymity below both others does **not** hold."
    )


def test_the_circular_reading_is_explained_by_what_adds_more() -> None:
    """On the standard log the order adds more than the click that judges it, whatever the paper's reading is called."""
    line = list(maker.retrieval_findings(maker.read_values()))[-1]
    assert line.endswith("the order of the log adds 0.161, the click by which it is judged 0.0038.")
    page = maker.PAGE.read_text()
    assert "most of it is the click" not in page
    assert "how little the release matters" not in page
