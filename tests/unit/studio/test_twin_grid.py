"""The grid of twins: exact where it was counted, monotone in between, and what the method releases today."""

from __future__ import annotations

import json

import pytest

from querycloak.studio.tradeoff_picture import pictures, shown_rows
from querycloak.studio.twin_grid import EPSILONS, GRID, NEEDS, SEARCHES, USERS, curve_of, measured_rows


@pytest.mark.parametrize("need", [need for need in NEEDS if need.measured], ids=lambda need: need.name)
def test_the_grid_has_every_cell_and_a_curve_goes_through_it(need: object) -> None:
    name = getattr(need, "name")  # noqa: B009
    twins = json.loads(GRID.read_text())["twins"]
    for users in USERS:
        for searches in SEARCHES:
            cell = twins[str(users)][str(searches)][name]
            curve = curve_of(name, users, searches)
            assert [round(curve.at(each)) for each in EPSILONS] == cell["rows"]
            assert not curve.beyond


def test_between_its_places_a_curve_lies_between_its_neighbours() -> None:
    for users, searches in ((3_000, 2), (12_000, 7.5)):
        middle = curve_of("completion", users, searches)
        corners = [curve_of("completion", u, s) for u in USERS for s in SEARCHES]
        for place in range(len(EPSILONS)):
            assert (
                min(each.rows[place] for each in corners)
                <= middle.rows[place]
                <= max(each.rows[place] for each in corners)
            )
    beyond = curve_of("completion", 10**9, 500)
    assert (beyond.users, beyond.searches_per_user, beyond.beyond) == (USERS[-1], SEARCHES[-1], True)
    assert beyond.at(1e-9) == pytest.approx(beyond.rows[0])
    assert beyond.at(1e9) == pytest.approx(beyond.rows[-1])


def test_the_picture_keeps_within_its_frame() -> None:
    for epsilon in (1e-6, 0.1, 4.0, 30.0, 999.0):
        for picture in pictures(curve_of("ranking", 20_000, 10), epsilon):
            assert picture.left <= picture.point.x <= picture.right
            assert picture.panels[0][0] <= picture.point.y <= picture.panels[0][1]
            assert picture.panels[1][0] <= picture.belief_point.y <= picture.panels[1][1]


def test_estimates_have_two_digits() -> None:
    assert [shown_rows(each) for each in (0, 0.4, 7, 61.4, 1234.0)] == ["0", "0", "7", "61", "1,200"]


@pytest.mark.slow
def test_the_smallest_twin_gives_the_same_rows_today() -> None:
    """If this fails, a method or the generator has changed: `python -m scripts.make_twin_grid`."""
    kept = json.loads(GRID.read_text())["twins"][str(USERS[0])][str(SEARCHES[0])]
    assert measured_rows(USERS[0], SEARCHES[0]) == kept
