"""Meaning of each table's counts, effects of bounds, and accuracy of plans, in the words of cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from querycloak.methods.keys.cell_plan import CellPlan
from querycloak.privacy.calibration.accuracy import LIKELY, Range, TableAccuracy, margin
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.exact import four_digits_up


class Words(NamedTuple):
    """Words for a table's rows: the counted unit, the key, and the record of papers' variants."""

    holders: str
    keys: str
    records: str


TABLES: Mapping[str, Words] = {
    "queries": Words("users who asked the query", "queries", "searches for the query"),
    "clicks": Words("users who clicked the result for the query", "pairs of query and url", "clicks on the result"),
    "transitions": Words("users who asked the one right after the other", "transitions", "occurrences of the pair"),
    "phrases": Words("users who asked something with the phrase", "phrases", "searches with the phrase"),
    "sessions": Words(
        "users who asked these queries in this order within one session", "sequences", "occurrences of the sequence"
    ),
    "reformulations": Words("users who changed a query in this way", "reformulations", "occurrences of the change"),
}
NO_COUNT = "there is no count: each row stands for one search or click"
_ALONE = "Rows that only one person has"
_PUT_TOGETHER = (
    "Released words can be put together to queries that nobody asked: such a query is no evidence that anybody asked "
    "it."
)
_NULL = ", and null if that is below 1"
_CUT = "No margin includes that; it makes counts too low, by how much depends on the log, which this text does not know"


def words_for(table: str) -> Words:
    """Words for the rows of a table; levels of phrases are phrases."""
    return TABLES["phrases" if table.startswith("level-") else table]


def over_levels(levels: Sequence[TableAccuracy], rows_of_one_user: float | None) -> TableAccuracy:
    """Accuracy of a table whose rows come from several levels, each with noise of its own (phrases.md).

    rows_of_one_user: of all levels together; None if it is not known before the log is read.
    """
    note = (
        "Levels have noise and thresholds of their own, so ranges cover all of them. A longer phrase comes out only if "
        f"the phrases within it did; its count is lowered to theirs where noise put it above. {_PUT_TOGETHER}"
    )
    notes = dict.fromkeys(note for level in levels for note in level.notes if not note.startswith(_ALONE))
    own = [] if rows_of_one_user is None else [alone(rows_of_one_user)]
    return TableAccuracy.over(levels, levels[0].counts, notes=[note, *notes, *own])


def counted(table: str, bound: int, noise: str = "") -> str:
    """Meaning of a count of users: each counts once per key, and only for the first keys."""
    words = words_for(table)
    first = "one" if bound == 1 else f"{bound} {words.keys}"
    return f"{words.holders}; each user counts for the first {first} only{noise and f'; plus {noise}'}"


def counted_records(table: str, bound: int, noise: str) -> str:
    """Meaning of a count where papers bound records: one user may count several times."""
    return f"{words_for(table).records}; of each user the first {bound} count, perhaps all for one row; plus {noise}"


def cut_off(table: str, bound: int, released: int | None = None) -> str:
    """Effect of bounds on counts, which no margin includes; `released`: bound on released keys; None for none."""
    words = words_for(table)
    who = f"A user with more than {bound:,} {words.keys}" if bound > 1 else f"A user with several {words.keys}"
    who += "" if released is None else f", or with more than {released:,} that came out,"
    return f"{who} is not counted for the later ones. {_CUT}."


def of_plan(table: str, plan: TablePlan) -> TableAccuracy:
    """Accuracy of a table with this plan."""
    if plan.counts == "none":
        return _without_counts(table, plan)
    if isinstance(plan, HistogramPlan | WeightedPlan) and plan.times is not None:
        return _of_clicks(plan, plan.times)
    if isinstance(plan, WeightedPlan) and plan.counting is not None:
        cut = cut_off(table, plan.per_user, plan.counted_per_user)
        return _of_weights(table, plan, plan.counting.words, [cut, alone(plan.rows_of_one_user)])
    noted = [cut_off(table, plan.per_user), alone(plan.rows_of_one_user)]
    published = plan.route().published_noise or plan.noise
    return TableAccuracy.of_route(plan.route(), counted(table, plan.per_user, published.words), notes=noted)


def of_cells(table: str, plan: CellPlan, *, viewed: bool, keyed: bool) -> dict[str, TableAccuracy]:
    """Accuracy of tables of cells: the margin of noise; users who bring a row out depend on the number of keys."""
    wide, events = Range(margin(plan.noise), margin(plan.noise)), None
    if plan.event_noise is not None:
        events = Range(margin(plan.event_noise), margin(plan.event_noise))
    if not keyed:
        counts = (
            f"users of the cell, each in the first {plan.per_user} cells, and searches, the first {plan.events} of "
            "each user; plus noise"
        )
        listed = "All cells are listed, whether anybody is in them or not; a number below 0 is null."
        return {"cells": TableAccuracy(counts, wide, notes=(f"95 % margin of searches: {events}.", listed))}
    holders = "users to whom the result was shown, and who clicked it" if viewed else TABLES[table].holders
    counts = (
        f"{holders}; the first {plan.per_user} cells of a user count, of keys that came out; plus {plan.noise.words}"
    )
    note = "Every cell of a key that came out has noise, with users or not; at most one spurious row is expected."
    bounded = f"A user with more than {plan.per_user} cells is not counted in the later ones. {_CUT}."
    sums = ["`viewers` is the sum of two noisy numbers: its margin is 1.42 times that of `clickers`."] if viewed else []
    reached = {table: TableAccuracy(counts, wide, spurious=1.0, notes=(note, bounded, *sums))}
    if viewed:
        counts = f"views and clicks at the rank; of each user the first {plan.events} views count; plus noise"
        listed = "Ranks 1 to 20 are listed, whether anything was shown there or not; a number below 0 is null."
        summed = "`views` is the sum of two noisy numbers: its margin is 1.42 times that of `clicks`."
        reached["positions"] = TableAccuracy(counts, events, notes=(listed, summed))
    return reached


def of_phrase_cells(tables: Sequence[str], plan: CellPlan) -> dict[str, TableAccuracy]:
    """Accuracy of tables of phrases and queries by cell: a user's cells are bounded over all of them together."""
    reached = {name: each for table in tables for name, each in of_cells(table, plan, viewed=False, keyed=True).items()}
    note = (
        "A phrase comes out only if the phrases within it did; each of its cells is lowered to the same cell of these, "
        f"if that is printed, where noise put it above. {_PUT_TOGETHER}"
    )
    together = "A user's cells are bounded over phrases and queries together."
    reached["phrases"] = reached["phrases"].with_notes(note)
    return {name: each.with_notes(together) if len(tables) > 1 else each for name, each in reached.items()}


def _of_clicks(plan: TablePlan, times: Times) -> TableAccuracy:
    route = plan.route()
    noise = (route.published_noise or plan.noise).words
    meaning = (
        f"clicks on the result for the query; of each user at most {times.per_key} for one pair and {times.per_user} "
        f"in all; plus {noise}{_NULL}"
    )
    cut = (
        f"Clicks of a user beyond {times.per_key} on one pair, and beyond {times.per_user} on all that came out, are "
        f"not counted. {_CUT}."
    )
    users = "How many users bring a pair out does not depend on how often they clicked."
    return TableAccuracy.of_route(route, meaning, notes=[users, cut, alone(plan.rows_of_one_user)])


def _without_counts(table: str, plan: TablePlan) -> TableAccuracy:
    words, route = words_for(table), plan.route()
    first = "one" if plan.per_user == 1 else f"{plan.per_user:,} {words.keys}"
    meaning = f"there is no count; a row comes out if enough users have it; each user counts for the first {first} only"
    users = route.users(Fraction(1, 2)), route.users(LIKELY)
    return TableAccuracy(meaning, None, *users, 0.0, (alone(plan.rows_of_one_user),))


def _of_weights(table: str, plan: WeightedPlan, noise: str, noted: Iterable[str]) -> TableAccuracy:
    words = words_for(table)
    meaning = (
        f"{words.holders}; each user counts for the first {plan.counted_per_user} only of the {words.keys} that came "
        f"out, among the user's first {plan.per_user}; plus {noise}{_NULL}"
    )
    helped = ", if others ask its queries, too," if any(scout.parts for scout in plan.scouts) else ""
    range_of = (
        f"The range of users runs from users of this key alone{helped} to users of {plan.per_user} {words.keys} each"
    )
    supposed = "whose weights are equal"
    if plan.scouts:
        supposed = "if the preselection rounds treat all keys of a user alike; they mostly do better (accuracy.md)"
    if plan.priors:
        supposed += "; public priors are assumed to be the same for all of them"
    return TableAccuracy.of_route(plan.route(), meaning, notes=[f"{range_of}, {supposed}.", *noted])


def at_some_bound(table: str, candidates: Sequence[TablePlan]) -> TableAccuracy:
    """Accuracy of a table with a plan that is chosen on the log."""
    note = "The bound is chosen when the log is released, so all ranges cover every bound that may be chosen."
    reached = [of_plan(table, plan) for plan in candidates]
    cut = f"A user with more {words_for(table).keys} than that is not counted for the later ones. {_CUT}."
    has_counts = any(plan.counts != "none" for plan in candidates)
    return TableAccuracy.over(
        reached, _counted_at_some_bound(table, candidates), notes=[note, cut] if has_counts else [note]
    )


def _counted_at_some_bound(table: str, candidates: Sequence[TablePlan]) -> str:
    """Meaning of a count, as far as it is the same under every plan."""
    words = words_for(table)
    chosen = f"the number of {words.keys} that count for one user is chosen on the log"
    if all(plan.counts == "none" for plan in candidates):
        return f"there is no count; a row comes out if enough users have it; {chosen}"
    bounds = [plan.times for plan in candidates if isinstance(plan, HistogramPlan | WeightedPlan) and plan.times]
    if bounds:
        most = Times(*(max(numbers) for numbers in zip(*bounds, strict=True)))
        return (
            f"clicks on the result for the query; of each user at most {most.per_key} for one pair and "
            f"{most.per_user} in all; {chosen}; plus noise{_NULL}"
        )
    return f"{words.holders}; {chosen}; plus noise"


def alone(rows_of_one_user: float) -> str:
    """Sentence on the expected number of rows that only one person has."""
    rows = four_digits_up(rows_of_one_user * 1e6)
    return f"{_ALONE}: at most {rows:.3g} expected in a million users."
