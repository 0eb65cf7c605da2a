"""Figures that may be published: of a synthetic log with the stated number of users, and labelled so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import querycloak as qc
from tests.commands import in_process
from tests.evaluated import some_rows, write_rows


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twin")
    with qc.read(write_rows(folder / "log.parquet", some_rows(1, 40))) as log:
        qc.Clicks(epsilon=8, delta=1e-3).release(log).save(folder / "release")
    return folder / "release"


def test_publishable_figures_are_of_a_synthetic_log_and_the_public_page_shows_them(
    release: Path, tmp_path: Path
) -> None:
    done = in_process(
        "evaluate", tmp_path / "no-train", tmp_path / "no-test", release, "--publishable", "--population-size", "60",
        "--task", "counts", "--out", tmp_path / "public.json",
    )  # fmt: skip
    assert done.stdout.startswith("PUBLIC: measured on a public twin, not on the log: a synthetic log of 60 users")
    document = json.loads((tmp_path / "public.json").read_text())
    assert (document["private"], document["publishable"], document["users"]) == (False, True, 60)
    assert document["method"] == "clicks"
    assert {row["release"] for row in document["results"]} >= {"clicks", "original", "no-data"}
    assert (tmp_path / "public.json").stat().st_mode & 0o777 == 0o644
    report = in_process("report", release, "--publishable", tmp_path / "public.json", "--out", tmp_path / "pages")
    assert report.returncode == 0, report.stderr
    public = (tmp_path / "pages" / "public.html").read_text()
    assert "a synthetic log of 60 users (seed 1)" in public
    assert "they tell nothing about the log" in public
    private = tmp_path / "private.json"
    private.write_text(json.dumps({"private": True, "results": document["results"]}))
    refused = in_process("report", release, "--publishable", private, "--out", tmp_path / "other")
    assert "publishable must be an evaluation on a public twin" in refused.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("RELEASE", "--publishable"), "--population-size must be given, the number of users, if it is public"),
        (("nowhere", "--publishable"), "--publishable measures one release: name the folder of one"),
        (("a", "b", "RELEASE", "--population-size", "60"), "--population-size goes with --publishable"),
        (("a", "b"), "give TRAIN, TEST and at least one RELEASE"),
    ],
)
def test_what_is_missing_is_named(release: Path, given: tuple[str, ...], message: str) -> None:
    done = in_process("evaluate", *(str(release) if each == "RELEASE" else each for each in given))
    assert done.returncode == 2
    assert message in done.stderr
