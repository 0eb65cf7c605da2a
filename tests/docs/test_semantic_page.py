"""docs/semantic.md is what the command makes of the shipped figures."""

from __future__ import annotations

from scripts.make_semantic_page import PAGE, page_with_similarities


def test_the_table_is_that_of_the_shipped_figures() -> None:
    page = PAGE.read_text()
    assert "| `usual=300` |" in page
    assert page_with_similarities(page) == page
