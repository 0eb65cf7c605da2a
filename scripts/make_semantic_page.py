"""Write the table of docs/semantic.md from figures that are shipped: `python scripts/make_semantic_page.py`."""

from __future__ import annotations

import re
from pathlib import Path

from querycloak.methods.semantic.choice import best_choice, blind_similarity, figures, similarity_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "semantic.md"
BLOCK = re.compile(r"(<!-- similarities -->\n).*?(<!-- end -->)", re.DOTALL)
LOSSES = (0.1, 1.0, 2.0, 4.0, 8.0, 10.0, 20.0)


def page_with_similarities(page: str) -> str:
    """The page, with the table between its markers made anew."""
    return BLOCK.sub(lambda found: found[1] + _table() + found[2], page)


def _table() -> str:
    head = ["candidates", "blind", *(f"{loss:g}" for loss in LOSSES)]
    lines = [head, ["---"] * len(head)]
    for name in figures()["similarity"]:
        sims = [similarity_of(name, "sqc1", loss) for loss in LOSSES]
        lines.append([f"`{name}`", f"{blind_similarity(name):.2f}", *(f"{each:.2f}" for each in sims)])
    lines.append(["`--domain auto`", "", *(_chosen(loss) for loss in LOSSES)])
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    return text.replace("| --- |", "|---|").replace(" --- |", "---|")


def _chosen(loss: float) -> str:
    candidates, criterion = best_choice(loss)
    return f"{similarity_of(candidates, criterion, loss):.2f} ({candidates or 'all'}, {criterion})"


if __name__ == "__main__":
    PAGE.write_text(page_with_similarities(PAGE.read_text()))
