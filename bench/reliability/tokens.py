"""Words that only one person's row holds, planted in every field of a log: no command says them, no release has one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.reliability import forked
from bench.reliability.finding import Finding

TOKENS = ("zqtokenuser", "zqtokenquery", "zqtokenurl", "zqtokenbad", "zqtokencountry")
BUDGET, FEW = ("--epsilon", "4", "--delta", "1e-3"), ("--min-users", "3")
READ = ("--log-format", "aol", "--threads", "1", "--max-bad", "1")
RECORDS = ("--log-format", "csv", "--attributes", "country,device", *READ[2:])

PLAN = """[[release]]
name = "few"
method = "k-anonymity"
options = { min-users = 3 }
"""
SIGNOFF = """population = "people"
population_size = 40
unit = "account"
method = "clicks"
test = 0.6

[about]
owner = "Example Library"
contact = "library@example.org"
purpose = "research"

[options]
epsilon = 4
delta = 1e-3
selection = "laplace"
"""


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


def planted_views(path: Path) -> Path:
    """The same with every result that was shown, and countries and devices: one of each is a token."""
    rows = [
        f"u{user},water polo {asked},2006-03-01 12:{asked:02}:00,{rank},http://{rank}.example/,{rank == 1},at,desktop"
        for user in range(40)
        for asked in range(3)
        for rank in (1, 2)
    ]
    rows += [
        "zqtokenuser,zqtokenquery polo,2006-03-01 12:00:00,1,http://zqtokenurl.example/,True,zqtokencountry,desktop",
        "zqtokenbad,zqtokenbad,zqtokenbad,1,http://zqtokenbad/,True,zqtokenbad,desktop",
    ]
    path.write_text("\n".join(["user,query,time,rank,url,clicked,country,device", *rows]) + "\n")
    return path


def commands(log: Path, place: Path) -> Iterator[tuple[str, ...]]:
    """Every command that reads a log or a release; some succeed and some are refused."""

    def out(name: str) -> tuple[str, str]:
        return "--out", str(place / name)

    def released(name: str, method: str, *options: str) -> tuple[str, ...]:
        return ("release", method, str(log), *READ, *options, *out(name))

    yield ("inspect", str(log), *READ)
    yield ("inspect", str(log), "--log-format", "aol")
    yield ("inspect", str(log), "--columns", "user=who,time=when,query=what")
    yield ("inspect", str(log), "--columns", "user=u0,time=when,query=what", "--log-format", "csv")
    yield ("inspect", str(log), "--log-format", "parquet")
    yield ("inspect", str(log), "--log-format", "jsonl")
    for method in ("clicks", "sessions", "queries", "phrases", "synthetic", "optimal"):
        yield released(method, method, *BUDGET)
    for method in ("k-anonymity", "generalize"):
        yield released(method, method, *FEW)
    yield released("tsv", "k-anonymity", *FEW, "--format", "tsv")
    yield ("release", "clicks", str(log), *BUDGET, *out("recognised"))
    yield released("affinity", "affinity", *FEW, "--concept-users", "3")
    yield released("eu-records", "eu-records", "--preset", "ddg-2026", "--min-term-users", "3")
    yield released("uncounted", "clicks", *BUDGET, "--counts", "none")
    yield released("query-pool", "query-pool", "--epsilon", "4")
    yield released(
        "semantic", "semantic", "--epsilon", "4", "--max-queries", "1", "--domain", "sport", "--any-language"
    )
    yield from _records(planted_views(place / "private-views.csv"), place)
    yield ("tune", "clicks", str(log), *READ, *BUDGET)
    yield ("split", str(log), *READ, "--by", "user", "--test", "0.3", *out("private-split"))
    for name in ("clicks", "tsv", "phrases", "synthetic", "eu-records", "views", "private-split"):
        yield ("describe", str(place / name))
        yield ("verify", str(place / name))
        yield ("complete", str(place / name), "wat")
    for kind in ("csv", "qrels", "ir-datasets", "quepid", "workbench", "clax"):
        yield ("export", str(place / "clicks"), "--as", kind, *out(f"export-{kind}"))
        yield ("export", str(place / "views"), "--as", kind, *out(f"export-views-{kind}"))
    yield ("diff", str(place / "clicks"), str(place / "recognised"), "--picture", str(place / "diff.html"))
    yield from _with_ledger(log, place)
    yield from _judged(log, place)


def _records(views: Path, place: Path) -> Iterator[tuple[str, ...]]:
    """Commands on a log with attributes and every result that was shown."""
    yield ("inspect", str(views), *RECORDS)
    yield ("inspect", str(views), "--attributes", "zip", "--log-format", "csv")
    by = ("--by", "country")
    for name, method, options in (
        ("views", "clicks", ("--views", *by)),
        ("by", "queries", by),
        ("weeks", "queries", ("--by", "country,week", "--since", "2006-03-01", "--until", "2006-03-15")),
    ):
        yield ("release", method, str(views), *RECORDS, *BUDGET, *options, "--out", str(place / name))
    rule = ("--preset", "ddg-2026", "--min-term-users", "3")
    yield ("release", "eu-records", str(views), *RECORDS, *rule, "--out", str(place / "eu-views"))


def _with_ledger(log: Path, place: Path) -> Iterator[tuple[str, ...]]:
    """Commands that charge or show a ledger."""
    ledger = ("--ledger", str(place / "ledger"))
    yield ("ledger", "set", "people", "--epsilon", "9", "--delta", "1e-2", *ledger)
    yield ("ledger", "plan", "people", "--releases", "4", "--epsilon", "2", "--delta", "1e-3", *ledger)
    yield ("release", "queries", str(log), *READ, "--plan-of", "people", *ledger, "--out", str(place / "series"))
    yield ("verify", str(place / "series"), *ledger)
    yield ("ledger", "show", *ledger, "--picture", str(place / "ledger.html"))
    yield ("ledger", "verify", *ledger)
    (place / "signoff.toml").write_text(SIGNOFF)
    train = str(place / "private-split" / "train.parquet")
    yield ("signoff", train, "--plan", str(place / "signoff.toml"), *ledger, "--yes", "--out", str(place / "signed"))


def _judged(log: Path, place: Path) -> Iterator[tuple[str, ...]]:
    """Commands that measure or attack a release."""
    few = str(place / "k-anonymity")
    train, test = (str(place / "private-split" / f"{side}.parquet") for side in ("train", "test"))
    yield ("evaluate", train, test, few, "--task", "counts", "--out", str(place / "private-use.json"))
    yield ("evaluate", train, test, str(place / "phrases"), "--task", "completion")
    yield ("audit", "release", train, few, "--control", test, "--attack", "leaks")
    yield ("report", few, "--evaluation", str(place / "private-use.json"), "--out", str(place / "page"))
    (place / "plan.toml").write_text(PLAN)
    yield ("compare", str(log), "--releases", str(place / "plan.toml"), *READ, "--out", str(place / "private-compared"))


def look_for_tokens(folder: Path) -> Finding:
    """Run every command and search what it said and what it released."""
    found = Finding(
        "planted tokens",
        "every command that reads, on a log with words of one person's in every field",
        "no such word in a message, none in a release",
    )
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    log = planted_log(folder / "log.tsv")
    tried, done = set(), set()
    for number, command in enumerate(commands(log, folder)):
        said = folder / f"said-{number}"
        code = forked.run(command, said, {"QUERYCLOAK_TMP": str(folder / "tmp")})
        found.expect(code in (0, 2, 4), f"{' '.join(command[:2])}: exit {code}")
        found.expect(not held(said.read_bytes()), f"{' '.join(command[:2])} says a token")
        found.runs += 1
        name = " ".join(command[:2]) if command[0] in ("release", "audit", "ledger") else command[0]
        tried.add(name)
        done |= {name} if code == 0 else set()
    found.expect(tried == done, f"always refused, so that nothing was tried: {sorted(tried - done)}")
    for path in folder.rglob("*"):
        public = "private" not in str(path.relative_to(folder)) and path != log
        if public and path.is_file():
            found.expect(not held(path.read_bytes()), f"a token in {path.relative_to(folder)}")
    return found


def held(data: bytes) -> list[str]:
    """The tokens that stand in some bytes."""
    return [token for token in TOKENS if token.encode() in data.lower()]
