"""Documents that somebody else may have written: values, or a refusal in words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import querycloak
from querycloak.files.documents import DEEPEST, parsed_json, parsed_toml
from tests.commands import in_process
from tests.logs import aol, write

SOURCE = Path(querycloak.__file__).parent
# They read back what they have written themselves, or what the package brings along.
OWN = {
    "documents.py", "release_command.py", "release.py", "fresh_processes.py", "method_audit.py", "choice.py",
    "comparison_steps.py", "resumable_folder.py", "ledger.py", "journal.py", "rules.py", "trial.py",
}  # fmt: skip


def test_nobody_else_parses_documents() -> None:
    found = {path.name for path in SOURCE.rglob("*.py") if re.search(r"\bjson\.loads?\(|\btomllib\b", path.read_text())}
    assert found == OWN


@pytest.mark.parametrize("levels", [DEEPEST + 1, 985, 200_000])
def test_deep_documents_are_refused_whatever_their_depth(levels: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed_json("[" * levels + "]" * levels)
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed_toml(b"a = " + b"[" * levels + b"]" * levels)


def test_what_is_not_deep_is_what_it_is() -> None:
    written = {"a": [{"b": [[1]]}, None]}
    assert parsed_json(json.dumps(written)) == written
    assert parsed_toml(b"a = [{b = [[1]]}]") == {"a": [{"b": [[1]]}]}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    write(folder / "log.tsv", aol([(user, "10:00:00", "x", "", "") for user in ("u1", "u2")]))
    for ending, before in ((".json", ""), (".toml", "a = ")):
        (folder / f"deep{ending}").write_text(before + "[" * 200_000)
    with querycloak.read(folder / "log.tsv", log_format="aol") as log:
        querycloak.KAnonymity(min_users=2).release(log).save(folder / "out")
    (folder / "begun").mkdir()
    for name in ("comparison.json", "reproduce.json"):
        (folder / "begun" / name).write_text("[" * 200_000)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "report out --out new --evaluation deep.json",
        "report out --out new --audit deep.json",
        "report out --out new --about deep.toml",
        "compare log.tsv --log-format aol --releases deep.toml --out new",
        "compare log.tsv --log-format aol --out begun",
        "reproduce zhang2016 --quick --out begun",
        "demo --out begun",
    ],
)
def test_no_command_calls_a_deep_document_its_own_bug(places: Path, tmp_path: Path, command: str) -> None:
    words = [str(places / word) if (places / word).exists() or word == "new" else word for word in command.split()]
    done = in_process(*words, tmp=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "bug" not in done.stderr
