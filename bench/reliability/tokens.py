"""Words that only one person's row holds, planted in every field of a log: no command says them, no release has one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.reliability import forked
from bench.reliability.finding import FileOptions

TOKENS = ("zqtokenuser", "zqtokenquery", "zqtokenurl", "zqtokenbad")
BUDGET = ("--epsilon", "4", "--delta", "1e-3")
READ = ("--log-format", "aol", "--threads", "1", "--max-bad", "1")


def planted_log(path: Path) -> Path:
    """Many who ask for the same, and one whose every field is a token; some of it in rows that cannot be read."""
    rows = [
        f"u{user}\twater polo {asked}\t2006-03-01 12:{asked:02}:00\t1\thttp://{asked}.example/"
        for user in range(40)
        for asked in range(6)
    ]
    rows += [
        "zqtokenuser\tzqtokenquery water polo\t2006-03-01 12:00:00\t1\thttp://zqtokenurl.example/zqtokenurl",
        "zqtokenbad\tzqtokenbad\tzqtokenbad\t1\thttp://zqtokenbad/",
        "zqtokenbad",
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def commands(log: Path, place: Path) -> Iterator[tuple[str, ...]]:
    """Every command that reads a log or a release; some succeed and some are refused."""

    def out(name: str) -> tuple[str, str]:
        return "--out", str(place / name)

    yield ("inspect", str(log), *READ)
    yield ("inspect", str(log), "--log-format", "aol")
    yield ("inspect", str(log), "--columns", "user=who,time=when,query=what")
    yield ("inspect", str(log), "--columns", "user=u0,time=when,query=what", "--log-format", "csv")
    yield ("inspect", str(log), "--log-format", "parquet")
    yield ("inspect", str(log), "--log-format", "jsonl")
    yield ("release", "clicks", str(log), *READ, *BUDGET, *out("clicks"))
    yield ("release", "sessions", str(log), *READ, *BUDGET, *out("sessions"))
    yield ("release", "k-anonymity", str(log), *READ, "--min-users", "3", *out("k"))
    yield ("release", "k-anonymity", str(log), *READ, "--min-users", "3", "--format", "tsv", *out("tsv"))
    yield ("release", "clicks", str(log), *BUDGET, *out("refused"))
    yield ("release", "affinity", str(log), *READ, "--min-users", "3", "--concept-users", "3", *out("affinity"))
    yield ("release", "phrases", str(log), *READ, *BUDGET, *out("phrases"))
    yield ("release", "synthetic", str(log), *READ, *BUDGET, *out("synthetic"))
    yield ("release", "eu-records", str(log), *READ, "--preset", "ddg-2026", "--min-term-users", "3", *out("eu"))
    yield ("release", "clicks", str(log), *READ, *BUDGET, "--counts", "none", *out("uncounted"))
    yield ("release", "generalize", str(log), *READ, "--min-users", "3", *out("generalize"))
    yield ("tune", "clicks", str(log), *READ, *BUDGET)
    yield ("split", str(log), *READ, "--by", "user", "--test", "0.3", *out("private-split"))
    for name in ("clicks", "k", "tsv", "private-split"):
        yield ("describe", str(place / name))
        yield ("verify", str(place / name))
    for kind in ("csv", "qrels", "ir-datasets", "quepid", "workbench"):
        yield ("export", str(place / "clicks"), "--as", kind, *out(f"export-{kind}"))
    yield ("diff", str(place / "clicks"), str(place / "uncounted"))
    yield ("complete", str(place / "clicks"), "wat")
    ledger = ("--ledger", str(place / "ledger"))
    yield ("ledger", "set", "people", "--epsilon", "9", "--delta", "1e-2", *ledger)
    yield ("ledger", "plan", "people", "--releases", "4", "--epsilon", "2", "--delta", "1e-3", *ledger)
    yield ("release", "queries", str(log), *READ, "--plan-of", "people", *ledger, *out("series"))
    yield ("evaluate", str(log), str(log), str(place / "k"), *READ, "--task", "counts")
    yield ("audit", "release", str(log), str(place / "k"), "--control", str(log), *READ, "--attack", "secrets")


def look_for_tokens(folder: Path) -> FileOptions:
    """Run every command and search what it said and what it released."""
    found = FileOptions(
        "planted tokens",
        "every command that reads, on a log with words of one person's in every field",
        "no such word in a message, none in a release",
    )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    log = planted_log(folder / "log.tsv")
    for number, command in enumerate(commands(log, folder)):
        said = folder / f"said-{number}"
        code = forked.run(command, said, {"QUERYCLOAK_TMP": str(folder / "tmp")})
        found.expect(code in (0, 2, 4), f"{' '.join(command[:2])}: exit {code}")
        found.expect(not held(said.read_bytes()), f"{' '.join(command[:2])} says a token")
        found.runs += 1
    for path in folder.rglob("*"):
        public = "private" not in str(path.relative_to(folder)) and path != log
        if public and path.is_file():
            found.expect(not held(path.read_bytes()), f"a token in {path.relative_to(folder)}")
    return found


def held(data: bytes) -> list[str]:
    """The tokens that stand in some bytes."""
    return [token for token in TOKENS if token.encode() in data.lower()]
