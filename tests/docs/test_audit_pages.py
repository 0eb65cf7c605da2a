"""docs/audits.md and docs/attacks.md are what the command makes of the stored results; no stored result is bad news."""

from __future__ import annotations

import pytest
from bench.release_audits import write_csv
from scripts import make_audit_pages as maker


@pytest.mark.parametrize("name", maker.PAGES)
def test_the_pages_are_what_the_stored_results_render_to(name: str) -> None:
    page = (maker.DOCS / name).read_text()
    assert maker.page_with_tables(page) == page
    assert maker.BLOCK.findall(page)


def test_nothing_measured_exceeds_what_is_proven() -> None:
    for row in maker._read("method-audits.csv"):
        assert "BROKEN" not in row["verdict"]
        if not row["proven"].startswith("none"):
            assert float(row["measured"]) <= float(row["proven"].split(",")[0])
            held, all_bounds = map(int, row["exact"].split("/"))
            assert held == all_bounds


def test_numbers_are_written_as_shares() -> None:
    assert [maker._number(text) for text in ("1", "0.0446", "0", "0.9996")] == ["1.000", ".045", ".000", "1.000"]


def test_what_is_attacked_anew_replaces_what_was_stored(tmp_path) -> None:  # type: ignore[no-untyped-def]
    def rows(release: str, risk: float) -> list[dict[str, object]]:
        return [
            {"release": release, "attack": "secrets", "setting": setting, "risk": risk}
            for setting in ("all kinds", "card number")
        ]

    write_csv(tmp_path / "rows.csv", [*rows("one", 0.25), *rows("two", 0.5)])
    write_csv(tmp_path / "rows.csv", rows("one", 0.75))
    lines = (tmp_path / "rows.csv").read_text().splitlines()[1:]
    assert [line.split(",")[:3] for line in lines] == [["two", "secrets", "all kinds"], ["one", "secrets", "all kinds"]]
    assert "0.75" in lines[1]
