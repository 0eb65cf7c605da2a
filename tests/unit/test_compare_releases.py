"""Two recordings are the same if nothing but sentences, dates, versions and listed names differs."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from scripts import compare_releases
from scripts.compare_releases import Difference, compare, compared_rows, differences, numbers_of, renamed, summary
from scripts.recording import method_of, seeded_randomness, spellings, typed
from scripts.renamed import RENAMED_OPTION_VALUES, RENAMED_OPTIONS
from scripts.seeded_methods import METHODS

import querycloak as qc
from querycloak.errors import ParameterError

CARD: dict[str, Any] = {
    "card_version": 1,
    "published": "2026-01-01",
    "counts": "weighed",
    "proven": {"epsilon": 1.0, "because": "each user counts once", "unprotected": ["times", "names"]},
    "parameters": {"selection": "rounds", "per_user": 4},
    "tables": {"clicks": {"rows": 3, "reach": {"counts": "users who clicked", "margin95": 3, "notes": ["low"]}}},
    "checksums": {"clicks.tsv": "aa", "README.md": "bb"},
}


def changed(path: str, value: object) -> dict[str, Any]:
    card = deepcopy(CARD)
    *parents, last = path.split("/")
    part = card
    for each in parents:
        part = part[each]
    part[last] = value
    return card


@pytest.mark.parametrize(
    "path",
    [
        "published",
        "proven/because",
        "tables/clicks/reach/counts",
        "tables/clicks/reach/notes",
        "checksums/README.md",
    ],
)
def test_sentences_and_dates_may_differ(path: str) -> None:
    assert differences(CARD, changed(path, "other words")) == []


@pytest.mark.parametrize(
    "path", ["counts", "proven/epsilon", "tables/clicks/rows", "tables/clicks/reach/margin95", "checksums/clicks.tsv"]
)
def test_numbers_and_kinds_may_not(path: str) -> None:
    where = "." + path.replace("/", ".")
    assert [line.partition(":")[0] for line in differences(CARD, changed(path, 99))] == [where]


def test_a_key_of_one_side_only_is_told() -> None:
    assert differences(CARD, changed("proven/k", 5)) == [".proven.k: only in the new"]


def test_the_number_of_unprotected_items_is_compared() -> None:
    assert differences(CARD, changed("proven/unprotected", ["hours", "names"])) == []
    assert differences(CARD, changed("proven/unprotected", ["names"])) == [".proven.unprotected: 2 items became 1"]


def test_a_sentence_that_is_gone_is_a_difference() -> None:
    assert differences(CARD, changed("proven/because", None)) == [
        ".proven.because: 'each user counts once' became None"
    ]


def test_tasks_that_a_release_can_do_are_compared_but_not_why_not() -> None:
    before = {"tasks": {"pairs": None, "loss": "it has no rows"}, "cite": "@misc{a}"}
    assert differences(before, {"tasks": {"pairs": None, "loss": "no rows"}, "cite": "@misc{b}"}) == []
    assert len(differences(before, {"tasks": {"pairs": "no", "loss": None}, "cite": ""})) == 2


def test_an_old_document_is_compared_under_new_names() -> None:
    names, values = {"per_user": "max_keys"}, {"selection": {"rounds": "multi-round"}}
    new = changed("parameters", {"selection": "multi-round", "max_keys": 4})
    assert differences(renamed(CARD, names, values), new) == []
    assert len(differences(CARD, new)) == 3
    # A value is renamed under its own key only.
    assert renamed({"method": "rounds", "selection": ["rounds", 1]}, names, values) == {
        "method": "rounds",
        "selection": ["multi-round", 1],
    }


def test_a_card_of_version_2_says_what_version_1_leaves_out(tmp_path: Path) -> None:
    old, new = {"options": {"k": 3}, **CARD}, {"options": {"k": 3}, **CARD, "card_version": 2}
    spelled_out = {**new, "composition": {}, "population_size": None}
    assert differences(compare_releases.upgraded(old, spelled_out), spelled_out) == []
    assert differences(compare_releases.upgraded(old, new), new) != []
    assert differences(compare_releases.upgraded(old, old), spelled_out) != []
    charged = {**spelled_out, "composition": {"sum": 1}}
    assert differences(compare_releases.upgraded(old, charged), charged) == [".composition.sum: only in the new"]


def test_options_are_tried_under_earlier_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED_OPTIONS, "per_user", "most_keys")
    monkeypatch.setitem(RENAMED_OPTION_VALUES, "selection", {"laplace": "two-sided"})
    new = {"epsilon": 4, "delta": 1e-3, "selection": "two-sided", "most_keys": 2}
    old: dict[str, Any] = {"epsilon": 4, "delta": 1e-3, "selection": "laplace", "per_user": 2}
    assert list(spellings(new)) == [new, old]
    method, options = method_of("Clicks", new)
    assert (method, options) == (qc.Clicks(**old), old)
    with pytest.raises(ParameterError, match="epsilon"):
        method_of("Clicks", {"epsilon": -1, "delta": 1e-3})


def test_every_value_is_typed_as_the_method_is_called() -> None:
    assert typed(*METHODS["k log"]) == ["k-anonymity", "--min-users", "3", "--keys", "log"]
    words = typed("QueryPool", {"off_pool": True, "clicks": "threshold"})
    assert words == ["query-pool", "--off-pool", "--clicks", "threshold"]
    assert {typed(kind, {})[0] for kind, _ in METHODS.values()} == {
        getattr(qc, kind).name for kind, _ in METHODS.values()
    }


def test_releases_are_seeded() -> None:
    assert not seeded_randomness().private


def test_tables_and_cards_are_counted_apart() -> None:
    only_new = ".options: only in the new"
    found = [
        Difference("cards", "clicks", only_new),
        Difference("cards", "pool", only_new),
        Difference("tables", "pool", "a.tsv differs"),
        Difference("guarantee", "pool", ".proven.epsilon: 1 became 2"),
    ]
    numbers = {"tables": 5, "cards": 5, "guarantee": 4}
    assert summary(found, numbers).splitlines() == [
        "tables: a.tsv differs (1): pool",
        "cards: .options: only in the new (2): clicks, pool",
        "guarantee: .proven.epsilon: 1 became 2 (1): pool",
        "tables: the same bytes in 4 of 5",
        "cards: the same keys and numbers in 3 of 5",
        "guarantee: the same keys and numbers in 3 of 4",
        *(
            f"{part}: not compared, because a recording lacks it"
            for part in ("describe", "evaluate", "audit", "reproduce")
        ),
    ]
    assert summary([], numbers).splitlines()[0] == "tables: the same bytes in 5 of 5"


def written(folder: Path, **files: str) -> Path:
    """A recording: one release, and files by their path, `/` written as two underscores."""
    contents = {"releases/clicks/clicks.tsv": "query\n", "releases/clicks/card.json": json.dumps(CARD)}
    for path, text in (contents | {name.replace("__", "/"): text for name, text in files.items()}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def output(document: object, code: int = 0) -> str:
    return json.dumps({"exit": code, "output": document})


def test_every_refusal_is_listed(tmp_path: Path) -> None:
    reasons = {"releases__pool.refused": "no pool\n", "guarantee__pool.refused": "no pool\n"}
    old = written(tmp_path / "old", **reasons, **{"releases__k.refused": "k is new"})
    new = written(tmp_path / "new", **{**reasons, "releases__pool.refused": "no such pool\n"})
    written(new, **{"releases__k__card.json": json.dumps(CARD)})
    assert compare(old, new) == [
        Difference("tables", "k", "refused by the old: k is new"),
        Difference("tables", "pool", "refused by both, old: no pool; new: no such pool"),
        Difference("guarantee", "pool", "refused by both, old: no pool; new: no pool"),
    ]
    assert numbers_of(old, new) == {"tables": 3, "cards": 3, "guarantee": 1}


def test_what_commands_print_is_compared(tmp_path: Path) -> None:
    row = {"release": "clicks", "task": "pairs", "measure": "found", "slice": None, "reading": "all"}
    attacked = {"release": "clicks", "attack": "leaks", "setting": None, "main": 0.0, "why": "nothing"}
    before = {
        "guarantee__clicks.json": output({"proven": {"epsilon": 1.0, "because": "once"}}),
        "describe__clicks.json": output({"tables": {"clicks": {"rows": 3, "counts": "users"}}, "cite": "a"}),
        "evaluate__all.json": output({"private": True, "results": [{**row, "value": 0.5, "digest": "ab"}]}),
        "audit__all.json": output({"private": True, "results": [attacked]}),
        "reproduce__hong2012.json": output({"log": "synthetic", "exhibits": [{"title": "T", "ours": 4}]}),
    }
    words = {
        "guarantee__clicks.json": output({"proven": {"epsilon": 1.0, "because": "at most once"}}),
        "describe__clicks.json": output({"tables": {"clicks": {"rows": 3, "counts": "people"}}, "cite": "b"}),
        "evaluate__all.json": output({"private": True, "results": [{**row, "value": 0.5, "digest": "cd"}]}),
        "audit__all.json": output({"private": True, "results": [{**attacked, "why": "none"}]}),
        "reproduce__hong2012.json": output({"log": "a log", "exhibits": [{"title": "U", "ours": 4}]}),
    }
    figures = {
        "guarantee__clicks.json": output({"proven": {"epsilon": 2.0, "because": "once"}}),
        "describe__clicks.json": output({"tables": {"clicks": {"rows": 4, "counts": "users"}}, "cite": "a"}),
        "evaluate__all.json": output({"private": True, "results": [{**row, "value": 0.6, "digest": "ab"}]}),
        "audit__all.json": output({"private": True, "results": [{**attacked, "main": 0.1}]}, code=4),
        "reproduce__hong2012.json": output({"log": "synthetic", "exhibits": [{"title": "T", "ours": 5}]}),
    }
    old = written(tmp_path / "old", **before)
    assert compare(old, written(tmp_path / "words", **words)) == []
    assert compare(old, written(tmp_path / "figures", **figures)) == [
        Difference("guarantee", "clicks", ".proven.epsilon: 1.0 became 2.0"),
        Difference("describe", "clicks", ".tables.clicks.rows: 3 became 4"),
        Difference("evaluate", "clicks", "pairs, found, all .value: 0.5 became 0.6"),
        Difference("audit", "all", "exit code 0 became 4"),
        Difference("audit", "clicks", "leaks .main: 0.0 became 0.1"),
        Difference("reproduce", "hong2012", ".exhibits[0].ours: 4 became 5"),
    ]


def test_a_part_that_one_recording_lacks_is_not_compared(tmp_path: Path) -> None:
    old = written(tmp_path / "old", **{"reproduce__hong2012.json": output({})})
    new = written(tmp_path / "new")
    assert compare(old, new) == []
    assert numbers_of(old, new) == {"tables": 1, "cards": 1}


def test_rows_are_compared_by_what_they_are_about() -> None:
    rows = [{"release": "clicks", "attack": "leaks", "setting": each, "main": 0.5} for each in ("a", "b")]
    assert list(compared_rows("audit", rows, rows[::-1])) == []
    (gone,) = compared_rows("audit", rows, rows[:1])
    assert gone == Difference("audit", "clicks", "leaks, b: 1 rows became 0")
    drawn = {"release": "clicks", "attack": "forced-out", "setting": "4 accounts", "main": 0.5, "targets": 9}
    assert list(compared_rows("audit", [drawn], [{**drawn, "main": 0.6}])) == []
    assert len(list(compared_rows("audit", [drawn], [{**drawn, "targets": 8}]))) == 1


def test_a_folder_that_was_kept_is_told_from_a_commit(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    assert compare_releases.is_recording(str(tmp_path))
    assert not compare_releases.is_recording("HEAD")


def test_inputs_are_logs_of_different_people(tmp_path: Path) -> None:
    compare_releases.write_inputs(tmp_path / "inputs")
    users = {
        name: {line.split("\t")[0] for line in (tmp_path / "inputs" / name).read_text().splitlines()[1:]}
        for name in ("log.tsv", "control.tsv", "period.tsv")
    }
    assert not users["log.tsv"] & users["control.tsv"]
    assert users["log.tsv"] == users["period.tsv"]
