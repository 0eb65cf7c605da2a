"""Card, datasheet and Croissant: what they say, and that other people's tools can read it."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import re
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.description import describe
from querycloak.logs.choices import Choices
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy
from querycloak.privacy.ledger.payment import Accounting
from querycloak.releases.loading import load, load_card
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.release import Release, describe_log
from tests.unit.releases.making import CLAIMED, LOG, PROVEN, SAMPLING, SYNTACTIC, TABLES, a_release

ABOUT = {
    "owner": "Example Library",
    "contact": "help@library.example",
    "licence": "CC-BY-4.0",
    "doi": "https://doi.org/10.5281/zenodo.1",
    "keywords": ["search", "library"],
    "legal_basis": "our lawyers",
}


def card(folder: Path) -> dict[str, Any]:
    return dict(load_card(folder))


def readme(folder: Path) -> str:
    return (folder / "README.md").read_text()


def test_the_card_begins_as_the_guarantee_command_does(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    said = json.loads((tmp_path / "out" / "card.json").read_text())
    assert list(said)[:5] == ["method", "variant", "parameters", "claimed", "proven"]
    assert said["claimed"] == CLAIMED.to_json()
    assert said["proven"] == PROVEN.to_json()
    assert said["parameters"] == {"threshold": 9, "per_user": 4}
    assert said["card_version"] == 2


def test_the_card_vouches_for_every_other_file(tmp_path: Path) -> None:
    saved = a_release(tables=TABLES).save(tmp_path / "out")
    said = card(tmp_path / "out")
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "out").iterdir()}
    assert files.pop("card.json") == saved.digest
    assert said["checksums"] == {"algorithm": "sha256", **files}
    assert {kind: table["rows"] for kind, table in said["tables"].items()} == {
        kind: table.num_rows for kind, table in TABLES.items()
    }
    assert said["tables"]["sessions"]["columns"]["queries"]["type"] == "list of strings"


def test_what_comes_back_is_what_was_said(tmp_path: Path) -> None:
    release = a_release(accounting=Accounting("shop", 3), log={"keep_url": "path"}, counts="fresh-draw", seeded=True)
    release.save(tmp_path / "out")
    loaded = load(tmp_path / "out")
    for name in (
        "method",
        "variant",
        "parameters",
        "claimed",
        "proven",
        "counts",
        "seeded",
        "accounting",
        "log",
        "versions",
    ):
        assert getattr(loaded, name) == getattr(release, name), name


def test_versions_and_nothing_of_the_machine(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    assert set(card(tmp_path / "out")["versions"]) == {"python", "querycloak", "opendp", "duckdb", "pyarrow"}
    everything = "".join((tmp_path / "out" / name).read_text() for name in ("card.json", "README.md", "croissant.json"))
    assert socket.gethostname() not in everything
    assert str(tmp_path) not in everything
    assert not re.search(r"/(home|root|tmp|usr|var)/", everything)


def test_the_log_as_its_owner_had_it_read() -> None:
    said = describe_log(Choices(since=datetime(2006, 3, 1), leave_out=frozenset({"somebody"})))
    assert (
        said["normalisation"]
        == "NFKC, lower case, white space and control characters to single blanks, direction marks dropped"
    )
    assert said["users_left_out"] is True
    assert "somebody" not in json.dumps(said)
    assert describe_log(Choices(normalise=False))["normalisation"] == "none"


def test_a_seeded_release_says_so_loudly(tmp_path: Path) -> None:
    a_release(seeded=True).save(tmp_path / "out")
    said = card(tmp_path / "out")
    assert said["seeded"] is True
    assert said["warnings"][0].startswith("NOT PRIVATE")
    assert said["deployment"] is None
    front, text = readme(tmp_path / "out").split("---\n", 2)[1:]
    assert front.startswith('pretty_name: "NOT PRIVATE')
    assert "> **NOT PRIVATE" in text[:200]
    assert "None of this holds here" in readme(tmp_path / "out")
    assert "NOT PRIVATE" in json.loads((tmp_path / "out" / "croissant.json").read_text())["description"]


def test_an_honest_release_warns_of_nothing(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    assert card(tmp_path / "out")["warnings"] == []
    assert "NOT PRIVATE" not in readme(tmp_path / "out")


@pytest.mark.parametrize(
    ("guarantee", "warning"),
    [
        (SYNTACTIC, "Not differentially private: a rule about what the output looks like"),
        (SAMPLING, "Not differentially private as a whole: the guarantee covers the sampling step only"),
    ],
)
def test_what_is_not_differential_privacy_is_called_so(tmp_path: Path, guarantee: Any, warning: str) -> None:
    a_release(proven=guarantee, claimed=None, counts="exact").save(tmp_path / "out")
    assert card(tmp_path / "out")["warnings"][0].startswith(warning)
    assert warning in readme(tmp_path / "out")
    assert card(tmp_path / "out")["deployment"] is None


def test_the_registry_s_words_where_they_fit(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    said = card(tmp_path / "out")["deployment"]
    assert said["dp_variant"]["variant_name"] == "Approximate DP"
    assert said["dp_variant"]["unprotected_quantities"] == "the gap between sessions"
    assert said["privacy_loss"]["privacy_unit"] == "User-level"
    assert said["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-7}
    assert said["accounting"]["composition"].startswith("this release alone")


def test_accounting_on_the_card(tmp_path: Path) -> None:
    a_release().save(tmp_path / "alone")
    a_release(accounting=Accounting("shop", 3)).save(tmp_path / "charged")
    assert card(tmp_path / "alone")["accounting"] == "not accounted"
    assert card(tmp_path / "charged")["accounting"] == {"population": "shop", "charge": 3}
    assert "It was not accounted" in readme(tmp_path / "alone")
    assert "It was charged to a ledger" in readme(tmp_path / "charged")
    assert "in a ledger" in card(tmp_path / "charged")["deployment"]["accounting"]["composition"]


def test_limits_are_promised_only_by_what_they_hold_for(tmp_path: Path) -> None:
    pld = {"privacy_loss_distribution": {"below_the_sum": True, "epsilon": 1.5, "delta": 1e-6}}
    for kind, proven in (("private", PROVEN), ("rule", SYNTACTIC), ("step", SAMPLING)):
        release = a_release(proven=proven, accounting=Accounting("shop", 3), composition=pld)
        release.save(tmp_path / kind)
    said = {kind: " ".join(readme(tmp_path / kind).split()) for kind in ("private", "rule", "step")}
    assert "refuses to exceed a limit." in said["private"]
    assert "released under a guarantee to the people behind it. It is not the log" in said["private"]
    assert "the same release is also within" in said["private"]
    assert "refuses to exceed" not in said["rule"]
    assert "**no limit holds it back**" in said["rule"]
    assert "released under a rule about what comes out of it. It is not the log" in said["rule"]
    assert "**no limit covers what the rest of it tells**" in said["step"]
    assert "a guarantee to the people behind it that covers one step only" in said["step"]
    assert "the same step is also within" in said["step"]


def test_the_last_look_on_the_card(tmp_path: Path) -> None:
    a_release().save(tmp_path / "built-in")
    a_release().save(tmp_path / "own", output_filter=OutputFilter(words=("zebra", "yak"), expressions=("qu+x",)))
    a_release().save(tmp_path / "none", output_filter=None)
    patterns = ["payment card numbers", "US social-security numbers", "e-mail addresses", "telephone numbers"]
    said = {"applied": True, "patterns": patterns}
    assert card(tmp_path / "built-in")["last_look"] == said | {"owners_list": False}
    assert card(tmp_path / "own")["last_look"] == said | {"owners_list": True}
    assert card(tmp_path / "none")["last_look"] == {"applied": False}
    assert "telephone numbers and a list of the owner's were dropped" in readme(tmp_path / "own")
    assert "No output filter ran" in readme(tmp_path / "none")
    content = "".join(path.read_text() for path in (tmp_path / "own").iterdir() if path.suffix != ".parquet")
    for word in ("zebra", "yak", "qu+x"):
        assert word not in content


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ("one-draw", "published counts near the threshold are too high on average"),
        ("fresh-draw", "A fresh draw made the count that you see"),
        ("weighed", "counts of what busy people ask are somewhat low"),
        ("public-keys", "a few rows may be noise alone"),
        ("exact", "no noise was added to them"),
        ("synthetic", "No row and no user is a real person"),
    ],
)
def test_how_to_read_counts(tmp_path: Path, counts: str, words: str) -> None:
    a_release(counts=counts).save(tmp_path / "out")
    assert words in readme(tmp_path / "out")


@pytest.mark.parametrize(
    ("counts", "clicks"), [("fresh-draw", "noisy number of users"), ("weighed", "clicks count up")]
)
def test_counts_of_clicks_are_read_as_such(tmp_path: Path, counts: str, clicks: str) -> None:
    a_release(counts=counts).save(tmp_path / "users")
    a_release(counts=counts, parameters={"threshold": 9, "count_of": "clicks"}).save(tmp_path / "clicks")
    assert clicks not in readme(tmp_path / "users")
    assert clicks in readme(tmp_path / "clicks")
    assert "clicks count up to the bounds below only" in readme(tmp_path / "clicks")
    assert "counted_per_user" not in readme(tmp_path / "clicks")


def test_rows_beyond_public_lists_are_named(tmp_path: Path) -> None:
    every = "Every row that could be here is made of public lists"
    pools = {
        "pool": {"off_pool": False, "clicks": "none"},
        "clicks": {"off_pool": False, "clicks": "threshold"},
        "both": {"off_pool": True, "clicks": "threshold"},
    }
    for name, parameters in pools.items():
        a_release(counts="public-keys", parameters=parameters).save(tmp_path / name)
    assert every in readme(tmp_path / "pool")
    assert "Rows of clicks are what the log has" in readme(tmp_path / "clicks")
    assert "Rows of queries outside the pool and clicks are what the log has" in readme(tmp_path / "both")
    assert all(every not in readme(tmp_path / name) for name in ("clicks", "both"))


@pytest.mark.parametrize("counts", ["one-draw", "fresh-draw"])
def test_the_datasheet_tells_of_the_coin_at_the_threshold(tmp_path: Path, counts: str) -> None:
    a_release(counts=counts).save(tmp_path / "without")
    a_release(counts=counts, parameters={"threshold": 9, "coin": 0.269}).save(tmp_path / "with")
    luck = "exceeded a threshold (9), or equalled it and came out with probability 0.269"
    assert luck in readme(tmp_path / "with")
    assert "luck" not in readme(tmp_path / "without")


def test_what_bounds_nothing_shows_no_number_in_the_datasheet(tmp_path: Path) -> None:
    a_release(proven=SAMPLING).save(tmp_path / "out")
    assert "| epsilon | none for the whole release | 1 |" in readme(tmp_path / "out")
    assert "| delta | none for the whole release |" in readme(tmp_path / "out")


def test_the_datasheet_names_the_size_of_the_population(tmp_path: Path) -> None:
    a_release().save(tmp_path / "unknown")
    a_release(population_size=20_000).save(tmp_path / "out")
    said = "the number of people behind the log as 20,000: delta must be far below one divided by that, which is 5e-05"
    assert said in readme(tmp_path / "out")
    assert "people behind the log as" not in readme(tmp_path / "unknown")


def test_rows_without_counts_are_told_what_they_are_worth(tmp_path: Path) -> None:
    reach = TableAccuracy("there is no count", None, Range(8, 8), Range(9, 9), 0.0)
    queries = TABLES["queries"].drop_columns(["count"])
    a_release(counts="none", tables={"queries": queries}, reach={"queries": reach}).save(tmp_path / "out")
    text = readme(tmp_path / "out")
    assert "## How to read the rows" in text
    assert "## How to read the counts" not in text
    assert "- users who bring a row out: 8 with probability 50 %, 9 with 95 %" in text
    assert "how many users asked" not in text


def test_the_datasheet_has_what_a_receiver_needs(tmp_path: Path) -> None:
    a_release(tables=TABLES, log={"keep_url": "path"}).save(tmp_path / "out", "tsv")
    text = readme(tmp_path / "out")
    for section in (
        "What is in it, and what it is good for",
        "How to read the counts",
        "What is promised to the people behind it",
        "What is not protected",
        "How it was made",
        "How to cite",
    ):
        assert f"\n## {section}\n" in text
    assert "exceeded a threshold (9)" in text
    assert "| epsilon | 2 | 1 |" in text
    assert "- the gap between sessions" in text
    assert "written as in `\\u001b`" in text
    assert '`keep_url = "path"`' in text
    assert "If they believe before the release that it is as likely as not (50 %)" in text
    assert card(tmp_path / "out")["checksums"]["queries.tsv"] in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # theirs, not ours
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("format_name", ["parquet", "tsv"])
def test_croissant_is_valid_and_its_records_load(
    tmp_path: Path, format_name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlcroissant = importlib.import_module("mlcroissant")

    def offline(*_: object, **__: object) -> None:
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", offline)
    a_release(tables=TABLES).save(tmp_path / "out", format_name, about=ABOUT)
    with caplog.at_level(logging.WARNING):
        dataset = mlcroissant.Dataset(tmp_path / "out" / "croissant.json")
    metadata = dataset.metadata
    assert not metadata.ctx.issues.errors
    assert not metadata.ctx.issues.warnings
    assert metadata.ctx.is_v1_1()
    assert (metadata.license, metadata.keywords) == (["CC-BY-4.0"], ["search", "library"])
    assert any("Click models" in each for each in metadata.data_limitations)
    for kind, table in TABLES.items():
        records = list(dataset.records(kind))
        assert len(records) == table.num_rows
        if "query" in table.schema.names:
            assert [r[f"{kind}/query"].decode() for r in records] == table["query"].to_pylist()
        if "count" in table.schema.names:
            assert [r[f"{kind}/count"] for r in records] == table["count"].to_pylist()
    if format_name == "parquet":
        sessions = list(dataset.records("sessions"))
        assert [text.decode() for text in sessions[0]["sessions/queries"]] == ["weather", "maps"]


def test_what_the_owner_says_is_on_card_datasheet_and_croissant(tmp_path: Path) -> None:
    a_release(tables=TABLES).save(tmp_path / "out", about=ABOUT)
    public = {name: value for name, value in ABOUT.items() if name != "legal_basis"} | {"doi": "10.5281/zenodo.1"}
    assert card(tmp_path / "out")["about"] == public
    assert load(tmp_path / "out").about == public
    texts = [(tmp_path / "out" / name).read_text() for name in ("card.json", "README.md", "croissant.json")]
    for text in texts:
        assert "our lawyers" not in text
        assert "help@library.example" in text
    bibtex = re.findall(r"@misc\{[^,]+,", texts[1] + texts[2] + describe(tmp_path / "out").cite)
    assert len(bibtex) == 3
    assert len(set(bibtex)) == 1
    assert "author = {{Example Library}}" in texts[1]
    a_release().save(tmp_path / "cited", about={"citation": "Library, Searches of 2026, Example Press"})
    assert "As its owner asks:" in readme(tmp_path / "cited")
    assert describe(tmp_path / "cited").cite == "Library, Searches of 2026, Example Press"


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"doi": "zenodo"}, "'doi' of about must be a DOI, such as"),
        ({"keywords": ["a,b"]}, "'keywords' of about must be texts without commas"),
        ({"owner": ["a"]}, "'owner' of about must be a text"),
        ({"contact": "a\nb"}, "'contact' of about must be a text of one line"),
        ({"citation": "```"}, "'citation' of about must be a BibTeX entry"),
        ({"license": "MIT"}, "has an unknown field 'license'; it may have owner, contact, licence, doi"),
    ],
)
def test_statements_that_cannot_be_published(tmp_path: Path, about: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        a_release().save(tmp_path / "out", about=about)
    assert not (tmp_path / "out").exists()


def test_the_datasheet_begins_with_what_data_set_hubs_read(tmp_path: Path) -> None:
    """Keys as the documentation of the package `datasets` names them; a slow test loads folders with it."""
    a_release(tables=TABLES).save(tmp_path / "out", "tsv", about=ABOUT)
    a_release(tables={"queries": TABLES["queries"].slice(0, 0)}).save(tmp_path / "empty", about={"licence": "My own"})
    dashes, front, text = readme(tmp_path / "out").split("---\n", 2)
    matter = yaml.safe_load(front)
    assert dashes == ""
    assert text.lstrip().startswith("# A search log release")
    assert (matter["license"], matter["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert [each["config_name"] for each in matter["configs"]] == list(TABLES)
    assert [each.get("default", False) for each in matter["configs"]] == [True, False, False, False, False]
    a_release(tables={**TABLES, "queries": TABLES["queries"].slice(0, 0)}).save(tmp_path / "some")
    some = yaml.safe_load(readme(tmp_path / "some").split("---\n", 2)[1])
    assert [each.get("default", False) for each in some["configs"]] == [False, True, False, False, False]
    assert matter["configs"][1] == {
        "config_name": "clicks", "data_files": [{"split": "train", "path": "clicks.tsv"}], "sep": "\t",
        "keep_default_na": False, "na_values": [""],
    }  # fmt: skip
    other = yaml.safe_load(readme(tmp_path / "empty").split("---\n", 2)[1])
    assert (other["license"], other["license_name"]) == ("other", "My own")


def test_what_a_release_cannot_do_is_in_its_datasheet(tmp_path: Path) -> None:
    a_release().save(tmp_path / "queries")
    a_release(tables=TABLES).save(tmp_path / "all")
    queries, everything = (
        readme(tmp_path / name).split("## What it is not good for")[1] for name in ("queries", "all")
    )
    for words in ("Click models", "Learning to rank", "Judgements of results", "Trends", "no row belongs to a user"):
        assert words in queries
    assert "Judgements of results" not in everything
    assert "Trends" not in everything


def test_croissant_notices_a_changed_file(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    said = json.loads((tmp_path / "out" / "croissant.json").read_text())
    (file,) = said["distribution"]
    assert file["sha256"] == card(tmp_path / "out")["checksums"]["queries.parquet"]
    assert said["conformsTo"] == ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
    assert "Click models" in said["rai:dataLimitations"][1]
    assert "epsilon" in said["rai:personalSensitiveInformation"] or "%" in said["rai:personalSensitiveInformation"]


def test_a_release_checks_itself() -> None:
    with pytest.raises(ParameterError, match="method must be a text"):
        a_release(method=" ")
    with pytest.raises(ParameterError, match="variant must be given, a text"):
        a_release(variant=None)
    with pytest.raises(ParameterError, match=r"counts must be one of one-draw, .*, got 'two'"):
        a_release(counts="two")
    with pytest.raises(ParameterError, match="tables must hold at least one table"):
        a_release(tables={})
    for name in ("parameters", "log", "versions"):
        for wrong in ({"x": object()}, {"x": float("nan")}, {1: 2}, {"x": "\udcff"}, None):
            with pytest.raises(ParameterError, match=f"{name} must be a mapping of plain values"):
                a_release(**{name: wrong})
    with pytest.raises(ParameterError, match="table log must be readable again and again; wrap it in a Stream"):
        a_release(tables={"log": LOG.to_reader()})
    with pytest.raises(ParameterError, match="this release has no table 'log'; it has queries"):
        a_release().table("log")


def test_a_release_cannot_be_changed_and_does_not_show_its_rows() -> None:
    parameters = {"bounds": [1, 2]}
    release: Release = a_release(parameters=parameters, tables={"log": LOG})
    parameters["bounds"].append(3)
    assert release.parameters == {"bounds": [1, 2]}
    with pytest.raises(TypeError):
        release.parameters["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        release.tables["x"] = LOG  # type: ignore[index]
    assert "weather" not in repr(release)
