"""The 24 hazards of NIST SP 800-226, answered for one release: guarded, open, or yours (the owner's).

After the draft of December 2023 and the final version of March 2025 (doi:10.6028/NIST.SP.800-226). The functions
choose the answer from the card; its sentence stands in `templates/hazards.html`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from querycloak.pages.layout import environment
from querycloak.releases.release import Release

Answer = Literal["guarded", "open", "yours"]
GUARDED: Answer = "guarded"
OPEN: Answer = "open"
YOURS: Answer = "yours"
MEANINGS = {
    GUARDED: "the release guards against it",
    OPEN: "the release does not guard against it, or not fully",
    YOURS: "no release can answer it, the owner must",
}
CAUTIOUS = 1.0
"""The epsilon up to which the guidelines call a guarantee cautious."""
_FAR_BELOW = 10
Answered = tuple[Answer, str]


@dataclass(frozen=True)
class Hazard:
    """One hazard, answered."""

    number: int
    name: str
    answer: Answer
    reason: str


def hazards_of(release: Release) -> list[Hazard]:
    """All of them, in the order of the publication."""
    return [Hazard(number, name, *answer(release)) for number, (name, answer) in enumerate(_ALL, 1)]


def _say(case: str, **values: Any) -> str:
    """The sentence of a case."""
    words = environment().get_template("hazards.html").module
    return Markup(getattr(words, case)(**values))


def _always(answer: Answer, case: str) -> Callable[[Release], Answered]:
    return lambda _: (answer, _say(case))


def _no_bound(release: Release) -> str | None:
    """Reason that nothing limits the knowledge about one person; None under differential privacy."""
    if release.seeded:
        return _say("seeded")
    return {"syntactic": _say("rule"), "sampling-only": _say("one_step")}.get(release.proven.kind)


def _large_epsilon(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, reason
    epsilon, _ = release.proven.numbers
    if epsilon <= CAUTIOUS:
        return GUARDED, _say("small_epsilon", epsilon=epsilon)
    return OPEN, _say("large_epsilon", epsilon=epsilon, cautious=CAUTIOUS)


def _rare_catastrophe(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, reason
    _, delta = release.proven.numbers
    if delta == 0:
        return GUARDED, _say("no_delta")
    if release.population_size is None:
        return YOURS, _say("delta_of_unknown", delta=delta)
    figures = {"delta": delta, "expected": delta * release.population_size, "people": release.population_size}
    if figures["expected"] * _FAR_BELOW <= 1:
        return GUARDED, _say("small_delta", **figures)
    return OPEN, _say("large_delta", **figures)


def _unit(release: Release) -> Answered:
    if release.proven.unit != "user":
        return OPEN, _say("unit_query")
    if release.proven.neighbours == "replace-query":
        numbers = any(text.startswith("how many queries each user has") for text in release.proven.unprotected)
        return OPEN, _say("unit_asked", numbers=numbers)
    return GUARDED, _say("unit_user")


def _repeats(release: Release) -> Answered:
    return (OPEN, _say("repeats_query")) if release.proven.unit != "user" else (GUARDED, _say("repeats_user"))


def _deltas(release: Release) -> Answered:
    return GUARDED, _say("deltas_rule" if release.proven.kind == "syntactic" else "deltas")


def _units(release: Release) -> Answered:
    return GUARDED, _say("units", unit=release.proven.unit, neighbours=release.proven.neighbours)


def _conversion(release: Release) -> Answered:
    return GUARDED, _say("converted" if release.composition else "not_converted")


def _home_made(release: Release) -> Answered:
    return (OPEN, _say("test_numbers")) if release.seeded else (YOURS, _say("home_made"))


def _small_groups(release: Release) -> Answered:
    needed = [reach.users95.high for reach in release.reach.values() if reach.users95 is not None]
    if release.counts in ("exact", "sampled") or release.rows.is_random:
        return OPEN, _say("groups_changed")
    if not needed:
        return OPEN, _say("groups_unstated")
    return OPEN, _say("groups_missing", users=max(needed))


def _rounding(release: Release) -> Answered:
    if release.counts == "synthetic":
        return OPEN, _say("fitted")
    if release.rows.is_random and release.parameters.get("criterion") != "hbdp":
        return GUARDED, _say("nothing_to_round")
    return (OPEN, _say("floored")) if release.counts == "weighed" else (GUARDED, _say("no_rounding"))


def _bias(release: Release) -> Answered:
    margins = [reach.margin95 for reach in release.reach.values() if reach.margin95 is not None]
    if release.counts == "exact":
        return GUARDED, _say("exact_counts")
    if not margins:
        return OPEN, _say("no_margin")
    widest = max(margin.high for margin in margins)
    if release.counts in ("one-draw", "public-keys"):
        return GUARDED, _say("margin_selected", widest=widest)
    return GUARDED, _say("margin_fresh", widest=widest, clamped=release.counts == "weighed")


def _bounding(release: Release) -> Answered:
    return (GUARDED, _say("unbounded")) if release.proven.kind == "syntactic" else (YOURS, _say("bounded"))


def _keys(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, _say("keys_of_the_log", reason=reason)
    if release.counts == "public-keys":
        return GUARDED, _say("keys_public")
    return GUARDED, _say("keys_taxonomy" if release.rows.is_random else "keys_threshold")


def _synthetic(release: Release) -> Answered:
    if release.counts == "sampled":
        return OPEN, _say("real_users")
    if release.counts == "synthetic":
        return GUARDED, _say("made_up")
    return GUARDED, _say("drawn_rows" if release.rows.is_random else "not_synthetic")


def _text(release: Release) -> Answered:
    if (reason := _no_bound(release)) is not None:
        return OPEN, _say("text_of_one", reason=reason)
    return (OPEN, _say("text_of_query")) if release.proven.unit != "user" else (GUARDED, _say("text_of_user"))


def _interactive(release: Release) -> Answered:
    return (YOURS, _say("not_charged")) if release.accounting.charge is None else (GUARDED, _say("charged"))


def _side_channels(release: Release) -> Answered:
    return (OPEN, _say("from_a_seed")) if release.seeded else (YOURS, _say("side_channels"))


def _collect_less(release: Release) -> Answered:
    return YOURS, _say("collect_less", keep_url=release.log.get("keep_url"))


_ALL: tuple[tuple[str, Callable[[Release], Answered]], ...] = (
    ("A large epsilon may mean little", _large_epsilon),
    ("A delta above 0 allows a rare catastrophe", _rare_catastrophe),
    ("The unit must cover the harm that is feared", _unit),
    ("Limits for each event or period do not protect what repeats", _repeats),
    ("Guarantees with different deltas", _deltas),
    ("Guarantees with different units cannot be compared", _units),
    ("Converting between kinds of guarantees can mislead", _conversion),
    ("Other releases about the same people that are not private", _always(YOURS, "other_releases")),
    ("Home-made implementations", _home_made),
    ("Noise falls hardest on small groups", _small_groups),
    ("Rounding and clamping cost accuracy", _rounding),
    ("Bias must be quantified", _bias),
    ("Bounding what one person adds costs accuracy", _bounding),
    ("Bins and keys can leak", _keys),
    ("Models memorise what they are trained on", _always(GUARDED, "no_model")),
    ("Synthetic data without differential privacy can be attacked", _synthetic),
    ("Deep synthesis can be worse than noisy counts", _always(GUARDED, "no_deep_model")),
    ("For text the unit is hard to define", _text),
    ("Interactive use adds up", _interactive),
    ("Trust assumptions", _always(YOURS, "central")),
    ("Side channels: floating point, time, back ends", _side_channels),
    ("Security of the data", _always(YOURS, "security")),
    ("Access to the data", _always(YOURS, "access")),
    ("Collect less", _collect_less),
)
