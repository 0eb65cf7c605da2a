"""The page of a comparison, with several budgets as curves: privacy against each task, and kept volume against risk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from querycloak.comparison.comparison import Comparison
from querycloak.comparison.comparison_folder import PAGE
from querycloak.comparison.comparison_plan import published
from querycloak.comparison.comparison_summary import ReleaseSummary, Summary, summary_of
from querycloak.comparison.comparison_views import ATTACK_VIEWS, JUDGED, TASK_VIEWS
from querycloak.extras import versions
from querycloak.pages import palette
from querycloak.pages.charts import NARROW, Picture, themed
from querycloak.pages.comparison_pictures import (
    PROMISES,
    attacks_picture,
    attacks_run,
    label_places,
    missing_in_tradeoff,
    percent_axis,
    tasks_picture,
    tradeoff,
)
from querycloak.pages.layout import environment, render, write_page
from querycloak.pages.shown_text import PERCENT, shown_share
from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.row_kinds import RowKind


def write_comparison_page(comparison: Comparison) -> None:
    """Write the page into the comparison's folder."""
    write_page(comparison_page(comparison), comparison.folder / PAGE, private=True)


def comparison_page(comparison: Comparison) -> str:
    """The whole page."""
    summary = summary_of(comparison)
    about = comparison.about
    return render(
        "comparison.html",
        title="One log, released in every way",
        private=True,
        headline=headline(summary),
        summary=summary,
        demo=about["demo"],
        log=_facts_of_sides(about["log"]),
        picture=tradeoff(summary),
        missing=missing_in_tradeoff(summary),
        tasks_picture=tasks_picture(summary),
        attacks_picture=attacks_picture(summary),
        curves=curves(summary),
        task_views=TASK_VIEWS,
        attack_views={name: ATTACK_VIEWS[name] for name in attacks_run(summary)},
        promises=PROMISES,
        published=published,
        people=stated_guarantees(summary),
        all_attack_views=ATTACK_VIEWS,
        choices=list(summary.choices()),
        forced=_accounts_needed(summary),
        leaks=[row for row in comparison.audit.to_pylist() if row["attack"] == "leaks" and row["risk"]],
        alarms=comparison.alarms,
        failures=comparison.failures,
        examples=[each for each in summary.made if each.tables],
        let_out=_with_leaked_secret(summary),
        seconds=about["seconds"],
        version=versions()["querycloak"],
    )


def headline(summary: Summary) -> str:
    """The best trade-offs, with and without a guarantee, in one sentence."""
    task = summary.main_task
    words: Any = environment().get_template("comparison_words.html").module
    guaranteed, rule = summary.best(task, "user"), summary.best(task, "rule", "step")
    return Markup(words.headline(summary, guaranteed, rule, TASK_VIEWS[task], ATTACK_VIEWS))


class StatedGuarantee(NamedTuple):
    """Releases with the same guarantee, and the first paragraphs of its explanation."""

    releases: tuple[ReleaseSummary, ...]
    promise: tuple[str, ...]


def stated_guarantees(summary: Summary) -> list[StatedGuarantee]:
    """Releases by the guarantee that they state."""
    groups: dict[tuple[str, ...], list[ReleaseSummary]] = {}
    for release in summary.made:
        text = explain(Guarantee.from_json(dict(release.facts["proven"]))).replace(" %", PERCENT)
        groups.setdefault(tuple(text.split("\n\n")[:3]), []).append(release)
    return [StatedGuarantee(tuple(releases), promise) for promise, releases in groups.items()]


_BESIDE = " beside a frequent word"


def _facts_of_sides(files: Mapping[str, Any]) -> dict[str, Any]:
    train, test = (files[f"{side}.parquet"] for side in ("train", "test"))
    return {"train": train, "test": test, "users": train["users"] + test["users"]}


def _accounts_needed(summary: Summary) -> dict[str, list[str]]:
    """Releases by the number of accounts that bring out a text."""
    settings: dict[str, list[str]] = {}
    for row in summary.comparison.audit.to_pylist():
        if row["attack"] == "forced-out":
            settings.setdefault(row["release"], []).extend([row["setting"]] if row["setting"] else [])
    names: dict[str, list[str]] = {}
    for release in (each for each in summary.made if each.name in settings):
        names.setdefault(accounts_in_words(settings[release.name]), []).append(release.in_sentence)
    return {accounts: names[accounts] for accounts in sorted(names, key=_number_in)}


def accounts_in_words(settings: Sequence[str]) -> str:
    """The accounts that one text needs, from the settings of the attack: the first one, and one beside a word."""
    if not settings:
        return "no number of accounts"
    accounts, _, what = settings[0].partition(", 1 ")
    beside = [each.split()[0] for each in settings if each.endswith(_BESIDE)]
    if beside and beside[0] != accounts.split()[0]:
        return f"{accounts} ({beside[0]}{_BESIDE})"
    return accounts if what == "text" else f"{accounts} (a {what})"


def _number_in(accounts: str) -> int:
    first = accounts.split(maxsplit=1)[0]
    return int(first) if first.isdigit() else sys.maxsize


def _with_leaked_secret(summary: Summary) -> list[ReleaseSummary]:
    """Releases of verbatim rows of persons that contain a planted secret."""
    kinds = {each.name: RowKind(each.facts["rows"]) for each in summary.made}
    own = [each for each in summary.made if kinds[each.name].is_verbatim and kinds[each.name].is_personal]
    return [each for each in own if (each.facts["secrets"] or {}).get("example")]


_LEAST_RISK, _LEAST_SHARE = 0.05, 0.01
"""Axes reach as far at least, also where every attack fails or nothing is kept."""


def curves(summary: Summary) -> list[Picture]:
    """Several budgets: privacy against each task, and kept volume against risk."""
    if len(summary.epsilons) < 2:
        return []
    rows = [
        {"method": each.facts["method"], "epsilon": each.epsilon, "panel": TASK_VIEWS[task].title, "kept": kept.share,
         "low": kept.low, "high": None if kept.high is None else min(kept.high, max(1.0, kept.share))}
        for each in summary.made
        if each.epsilon is not None
        for task in (*JUDGED, "counts", "profiles")
        for kept in [each.tasks.get(task)]
        if kept is not None and kept.share is not None and kept.is_finding
    ]  # fmt: skip
    names = list(dict.fromkeys(each.facts["method"] for each in summary.made if each.epsilon is not None))
    with_rows = {row["panel"] for row in rows}
    panels = [view.title for view in TASK_VIEWS.values() if view.title in with_rows]
    text = "; ".join(
        f"{row['panel']}, {row['method']} at ε {row['epsilon']:g}: {shown_share(row['kept'])}" for row in rows
    )
    title = "Privacy against each task: what is kept, at each epsilon"
    pictures = [Picture("budgets", title, text, lambda width: themed(_budgets(rows, panels, names, width)))]
    volumes = [
        {
            "method": each.facts["method"],
            "epsilon": each.epsilon,
            "risk": each.risk,
            "kept": each.tasks["counts"].share,
        }
        for each in summary.made
        if each.epsilon is not None and each.worst and _kept(each, "counts") is not None
    ]
    text = "; ".join(
        f"{row['method']} at ε {row['epsilon']:g}: volume {shown_share(row['kept'])}, risk {shown_share(row['risk'])}"
        for row in volumes
    )
    title = "Kept volume against risk, from the smallest epsilon to the largest"
    return [*pictures, Picture("volumes", title, text, lambda width: themed(_volumes(volumes, names, width)))]


def _kept(release: ReleaseSummary, task: str) -> float | None:
    return release.tasks[task].share if task in release.tasks else None


def _methods(alt: Any, names: Sequence[str], legend: Any) -> tuple[Any, Any]:
    """A colour and a dash for each method: no two methods have the same two, and one has them in both pictures."""
    colours = [palette.light(name) for name in palette.SERIES]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1]]
    colour = [colours[place % len(colours)] for place in range(len(names))]
    dash = [dashes[place % len(dashes)] for place in range(len(names))]
    return (
        alt.Color("method:N", scale=alt.Scale(domain=list(names), range=colour), legend=legend),
        alt.StrokeDash("method:N", scale=alt.Scale(domain=list(names), range=dash), legend=legend),
    )


def _legend(alt: Any, width: int) -> Any:
    """The methods, under the picture."""
    columns = 2 if width <= NARROW else 6
    stroke = {"symbolType": "stroke", "symbolSize": 260, "symbolStrokeWidth": 2, "symbolOpacity": 1}
    return alt.Legend(title=None, orient="bottom", columns=columns, **stroke)


def _budgets(rows: Sequence[dict[str, Any]], panels: Sequence[str], names: Sequence[str], width: int) -> Any:
    import altair as alt

    columns = 2 if width <= NARROW else 4
    inner = (width - 46 * columns) / columns
    legend = _legend(alt, width)
    colour, dash = _methods(alt, names, legend)
    ticks = sorted({row["epsilon"] for row in rows})
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", nice=False, padding=8),
        axis=alt.Axis(values=ticks, grid=False),
    )
    y = alt.Y("kept:Q", title=None, scale=alt.Scale(domainMin=0), axis=percent_axis(alt, 3))
    base = alt.Chart(alt.Data(values=list(rows))).encode(x=x, color=colour)
    lines = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash)
    reach = base.mark_rule(opacity=0.45).encode(y=alt.Y("low:Q"), y2="high:Q")
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(y=y)
    header = alt.Header(title=None, labelAnchor="start", labelFontWeight="bold", labelPadding=4)
    panel = (lines + reach + dots).properties(width=inner, height=120)
    facet = alt.Facet("panel:N", sort=list(panels), header=header)
    whole = panel.facet(facet=facet, columns=columns, spacing={"row": 14, "column": 12})
    return whole.resolve_scale(y="independent").resolve_axis(x="independent")


def _volumes(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> Any:
    import altair as alt

    narrow = width <= NARROW
    legend = _legend(alt, width)
    colour, dash = _methods(alt, names, legend)
    inner, height = width - 70, 240 if narrow else 280
    most = max([_LEAST_RISK, *(row["risk"] for row in rows)]) * 1.1
    top = max([_LEAST_SHARE, *(row["kept"] for row in rows)]) * 1.1
    pixels = [(inner * row["risk"] / most, height * (1 - row["kept"] / top)) for row in rows]
    largest = max((row["epsilon"] for row in rows), default=None)
    labels = [row["method"] if row["epsilon"] == largest else "" for row in rows]
    places = label_places(pixels, labels, inner, height)
    values = [
        {**row, "label": label, "label_x": place.x * most / inner, "label_y": (1 - place.y / height) * top}
        for row, label, place in zip(rows, labels, places, strict=True)
    ]
    risks, kept = (alt.Scale(domain=[0, end], nice=False) for end in (most, top))
    x = alt.X("risk:Q", title="Risk: what the strongest attack gains", scale=risks, axis=percent_axis(alt))
    y = alt.Y("kept:Q", title="Share of the volume that is kept", scale=kept, axis=percent_axis(alt))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, color=colour)
    lines = base.mark_line(strokeWidth=2).encode(order="epsilon:Q", strokeDash=dash)
    dots = base.mark_point(filled=True, size=60, opacity=1)
    texts = base.mark_text(align="left", baseline="middle", fontSize=11).encode(
        x="label_x:Q", y="label_y:Q", text="label:N", color=alt.value(palette.light("soft"))
    )
    return (lines + dots + texts).properties(width=inner, height=height)
