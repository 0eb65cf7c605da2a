"""Release folders that were damaged, or made to do harm: one clear line and the right exit code.

Each case is a copy of a sound release with one fault or a few. A process of its own runs every command that reads a
folder on it, with a limit of memory and of processor time.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench.reliability import forked, fuzz, kills
from bench.reliability.finding import Finding
from querycloak.errors import QuerycloakError
from querycloak.methods.evidence import digest_of, load

MOST_MEGABYTES, MOST_SECONDS, MOST_OUTPUT = 1_500, 120, 60_000
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 3, 10**15, 10**400, -(10**30), 1e308, 1e-308, -0.5, float("nan"), float("inf"), "",
    " ", "x", "1", "x" * 100_000, "\x1b]0;title\x07\x1b[2J", "\u202edetrever", "a\x00b", "a\nb\r\nc", "=1+1",
    "<script>alert(1)</script>", "../../card.json", "/dev/zero", "card.json", "NaN", "\ud800", [], {}, [[]], [None],
    {"a": {"b": [1]}}, [1, "x", None], ["x"] * 5_000, {"\x1b[31m": 1},
]  # fmt: skip
CARD = "card.json"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FORMULA = re.compile(r"[\s\"']*[=@+]|[\s\"']*-[^\d.]")
EXPORTS = ("csv", "qrels", "ir-datasets", "quepid", "workbench", "clax")

Damage = Callable[[Path, random.Random], object]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with a key in it."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _edited(change: Callable[[Any, random.Random], object]) -> Damage:
    """A damage of the card as a document."""

    def damage(folder: Path, chance: random.Random) -> None:
        card = json.loads((folder / CARD).read_bytes())
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            change(card, chance)
        (folder / CARD).write_text(json.dumps(card))

    return damage


def _place(card: Any, chance: random.Random) -> tuple[Any, Any]:
    """A place in a document; every second time near its root, where most rules are."""
    return chance.choice([(card, key) for key in card] if chance.random() < 0.5 else list(_places(card)))


def _drop(card: Any, chance: random.Random) -> None:
    container, key = _place(card, chance)
    del container[key]


def _replace(card: Any, chance: random.Random) -> None:
    container, key = _place(card, chance)
    container[key] = chance.choice(ODD)


def _scale(card: Any, chance: random.Random) -> None:
    numbers = [(each, key) for each, key in _places(card) if type(each[key]) in (int, float)]
    container, key = chance.choice(numbers)
    container[key] = chance.choice((container[key] * chance.choice((0, 0.5, 2, 1e-9, 1e9, -1)), 10**12, 10**18, 0.1))


def _add(card: Any, chance: random.Random) -> None:
    container = chance.choice([card, *(each[key] for each, key in _places(card) if isinstance(each[key], dict))])
    container[chance.choice([each for each in ODD if isinstance(each, str)])] = chance.choice(ODD)


def _swap(card: Any, chance: random.Random) -> None:
    (one, first), (other, second) = _place(card, chance), _place(card, chance)
    one[first], other[second] = json.loads(json.dumps([other[second], one[first]]))


FREE = ("parameters", "log", "about", "tables", "composition", "gaussian_dp", "trade_off", "versions", "last_look")


def _unvouched(card: Any, chance: random.Random) -> None:
    """Change what nobody can compute again: a card without options, or of a method that is not installed."""
    card.update(chance.choice(({"options": None}, {"options": None, "method": "ours"}, {"versions": {}})))
    name = chance.choice(FREE)
    places = [(each, key) for each, key in _places(card[name])] or [(card, name)]
    container, key = chance.choice(places)
    container[key] = chance.choice(ODD)


def _lie(card: Any, chance: random.Random) -> None:
    """Promise more than the method does, by itself or with the options that tell."""
    chance.choice(LIES)(card)


LIES: list[Callable[[Any], object]] = [
    lambda card: card["proven"].update(epsilon=0.01, kind="pure-dp", delta=None),
    lambda card: card.update(options=None, proven={**card["proven"], "epsilon": 0.01}),
    lambda card: card.update(method="ours", options=None),
    lambda card: card.update(versions={"querycloak": "0.1.0"}, proven={**card["proven"], "delta": 1e-30}),
    lambda card: card["options"] and card["options"].update(never="there"),
    lambda card: card["options"] and card["options"].update(pool="/dev/zero"),
    lambda card: card["options"] and card["options"].update(epsilon=1e-9),
    lambda card: card.update(card_version=1),
    lambda card: card.update(card_version=10**30),
    lambda card: [each.update(rows=10**15) for each in card["tables"].values()],
]


def _bytes_of_card(folder: Path, chance: random.Random) -> None:
    data = (folder / CARD).read_bytes()
    odd = [
        b"",
        b"[]",
        b"1",
        b"{}",
        b"[" * 50_000,
        b'{"a":' * 5_000,
        data[: len(data) // 2],
        b"\xff\xfe" + data,
        b"null",
    ]
    (folder / CARD).write_bytes(chance.choice([*odd, *(fuzz.changed(data, chance) for _ in range(9))]))


def _not_a_file(folder: Path, chance: random.Random) -> None:
    """Put something else in the place of a file: nothing, a folder, a link, a pipe, a device, a hole without end."""
    path = chance.choice(sorted(folder.iterdir()))
    path.unlink()
    kinds: list[Callable[[], object]] = [
        lambda: None, path.mkdir, lambda: path.symlink_to(path.name), lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/etc/hostname"), lambda: os.mkfifo(path), path.touch,
        lambda: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5)), lambda: _hole(path),
        lambda: path.symlink_to(".."),
    ]  # fmt: skip
    chance.choice(kinds)()


def _hole(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


def _more_files(folder: Path, chance: random.Random) -> None:
    odd = ["x", ".hidden", "a\nb", "\x1b[2Jx", "\u202etxt", "card.json.sig", "x" * 250, "queries.parquet.bak"]
    kinds: list[Callable[[], object]] = [
        (folder / chance.choice(odd)).touch,
        lambda: [(folder / f"{number}.parquet").write_bytes(b"") for number in range(3_000)],
        lambda: shutil.copytree(folder, folder.with_name("inner")).rename(folder / "inner"),
        lambda: os.mkfifo(folder / "pipe"),
    ]
    chance.choice(kinds)()


def _tables(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix in (".parquet", ".tsv", ".csv")]


def _bytes_of_file(folder: Path, chance: random.Random) -> None:
    path = chance.choice([each for each in sorted(folder.iterdir()) if each.name != CARD])
    path.write_bytes(fuzz.changed(path.read_bytes(), chance))
    _vouch_perhaps(folder, chance)


def _other_table(folder: Path, chance: random.Random) -> None:
    path = chance.choice(_tables(folder))
    others = [each for sibling in sorted(folder.parent.parent.glob("sound/*")) for each in _tables(sibling)]
    shutil.copyfile(chance.choice(others), path)
    _vouch_perhaps(folder, chance)


def _other_columns(folder: Path, chance: random.Random) -> None:
    """A table with structs, other types, missing values, doubled or missing columns, or texts that do harm."""
    path = chance.choice(_tables(folder))
    text = path.suffix != ".parquet"
    separator = "\t" if path.suffix == ".tsv" else ","
    form = pyarrow.csv.ParseOptions(delimiter=separator)
    table = pyarrow.csv.read_csv(path, parse_options=form) if text else pq.read_table(path)
    table = _changed_table(table, chance)
    if text:
        flat = [at for at, field in enumerate(table.schema) if not pa.types.is_nested(field.type)]
        pyarrow.csv.write_csv(table.select(flat), path, pyarrow.csv.WriteOptions(delimiter=separator))
    else:
        pq.write_table(table, path)
    _vouch_perhaps(folder, chance, rows=table.num_rows)


def _changed_table(table: pa.Table, chance: random.Random) -> pa.Table:
    at = chance.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    rows = table.num_rows
    kinds: list[Callable[[], pa.Table]] = [
        lambda: table.set_column(at, name, pa.array([{"a": 1}] * rows, pa.struct({"a": pa.int64()}))),
        lambda: table.set_column(at, name, pa.array([None] * rows, column.type)),
        lambda: table.set_column(at, name, pa.array(["\x1b[2J=1+1\u202e"] * rows, pa.string())),
        lambda: table.set_column(at, name, pa.array(['"=cmd|x!A0"\t\n,'] * rows, pa.string())),
        lambda: table.set_column(at, name, pa.array([b"\xff\xfe"] * rows, pa.binary())),
        lambda: table.set_column(at, name, pa.array([-(2**63)] * rows, pa.int64())),
        lambda: table.set_column(at, name, pa.array([2**63 - 1] * rows, pa.int64())),
        lambda: table.set_column(at, name, pa.array([float("nan")] * rows, pa.float64())),
        lambda: table.set_column(at, name, pa.array([""] * rows, pa.string())),
        lambda: table.set_column(at, name, pa.array(["x" * 1_000_000] * min(rows, 20) + [""] * (rows - min(rows, 20)))),
        lambda: table.append_column("\x1b[31m", pa.array([1] * rows)),
        lambda: table.append_column(name, column),
        lambda: table.remove_column(at),
        lambda: table.slice(0, 0),
        lambda: table.slice(0, rows // 2),
        lambda: pa.concat_tables([table] * 3),
        lambda: table.take(pa.array(list(reversed(range(rows))), pa.int64())),
        lambda: table.rename_columns([f"{each}\u202e" for each in table.column_names]),
    ]
    return chance.choice(kinds)()


def _bomb(folder: Path, chance: random.Random) -> None:
    """A few kilobytes that are a hundred million equal rows."""
    path = chance.choice(_tables(folder))
    if path.suffix != ".parquet":
        return _hole(path)
    schema = pq.read_schema(path)
    block = pa.Table.from_arrays([pa.repeat(_any_value(each.type), 1 << 20) for each in schema], schema=schema)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(100):
            writer.write_table(block)
    return _vouch(folder, rows=100 << 20)


def _any_value(kind: pa.DataType) -> pa.Scalar:
    values: dict[bool, Any] = {pa.types.is_string(kind): "water polo", pa.types.is_list(kind): ["water polo"]}
    return pa.scalar(values.get(True, None if pa.types.is_timestamp(kind) else 1), kind)


def _vouch_perhaps(folder: Path, chance: random.Random, rows: int | None = None) -> None:
    """Every second time put the new digests on the card, so that what is in the files is read."""
    if chance.random() < 0.7:
        _vouch(folder, rows)


def _vouch(folder: Path, rows: int | None = None) -> None:
    card = json.loads((folder / CARD).read_bytes())
    for name in card["checksums"]:
        if name != "algorithm" and (folder / name).is_file():
            card["checksums"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    for kind, entry in card["tables"].items():
        path = folder / entry["file"]
        if rows is not None and path.exists():
            entry["rows"] = rows if len(card["tables"]) == 1 else _rows_of(path, entry["rows"])
        if path.suffix == ".parquet":
            try:
                names = pq.read_schema(path).names
            except (pa.ArrowException, OSError):
                continue
            entry["columns"] = {each: entry["columns"].get(each, {"type": "string", "meaning": kind}) for each in names}
    (folder / CARD).write_text(json.dumps(card))


def _rows_of(path: Path, stated: int) -> int:
    return int(pq.read_metadata(path).num_rows) if path.suffix == ".parquet" else stated


DAMAGES: dict[str, Damage] = {
    "field removed": _edited(_drop),
    "field of another type": _edited(_replace),
    "other number": _edited(_scale),
    "field added": _edited(_add),
    "fields swapped": _edited(_swap),
    "field that nobody computes": _edited(_unvouched),
    "lie": _edited(_lie),
    "bytes of the card": _bytes_of_card,
    "no regular file": _not_a_file,
    "more files": _more_files,
    "bytes of a file": _bytes_of_file,
    "table of another release": _other_table,
    "other columns": _other_columns,
}
SELDOM: dict[str, Damage] = {"bomb": _bomb}
EVERY, LONG_EVERY = 200, 7
"""A bomb takes longest: one in as many cases. So often a command that takes long is tried."""
_WARMED: set[Path] = set()
"""Folders whose sound releases this process has read."""


def sound_releases(log: Path, folder: Path, names: Sequence[str] | None = None) -> list[Path]:
    """A release of every method, and of the options that make other columns or formats; `names`: of some of these."""
    kills.prepared(log)
    made = []
    for name, command in kills.commands(log, folder).items():
        if (names is not None and name not in names) or name.endswith(("--plan-of", "--known")):
            continue
        out = folder / "sound" / name.removeprefix("release ").replace(" ", "")
        if name.startswith("release") and out.exists():
            made.append(out)
        elif name.startswith("release"):
            out.parent.mkdir(parents=True, exist_ok=True)
            at = command.index("--ledger")
            alone = (*command[:at], *command[at + 4 :])
            there = alone.index("--out") + 1
            code = forked.run((*alone[:there], str(out), *alone[there + 1 :]), folder / "said", {})
            if code:
                raise RuntimeError(f"{name} ends with {code}: {(folder / 'said').read_text()[-500:]}")
            made.append(out)
    return made


def commands(release: Path, sound: Path, digest: str, given: Path, number: int) -> dict[str, tuple[str, ...]]:
    """Every command that reads a release folder; of those that take long, one in turn."""
    out = release.parent
    sides = [str(given / "sides" / f"{side}.parquet") for side in ("train", "test")]
    quick = {
        "verify": ("verify", str(release)),
        "verify --digest": ("verify", str(release), "--digest", digest),
        "describe": ("describe", str(release)),
        "complete": ("complete", str(release), "wat"),
        "diff": ("diff", str(sound), str(release)),
        "export": ("export", str(release), "--as", EXPORTS[number % len(EXPORTS)], "--out", str(out / "exported")),
    }
    long = (
        ("report", str(release), "--out", str(out / "page"), "--quiet"),
        ("evaluate", *sides, str(release), "--task", "counts", "--threads", "1", "--quiet"),
        ("audit", "release", sides[0], str(release), "--control", sides[1], "--attack", "leaks", "--threads", "1"),
        ("diff", str(release), str(sound), "--picture", str(out / "picture.html")),
    )
    if number % LONG_EVERY:
        return quick
    chosen = long[number // LONG_EVERY % len(long)]
    return {**quick, f"{chosen[0]} (long)": chosen}


def try_commands(typed: dict[str, tuple[str, ...]], release: Path, said: Path) -> None:
    """In a process of its own: run the commands one after another, and load the release."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 5))
    codes = {}
    for name, words in typed.items():
        _say_into(said / name)
        codes[name] = forked.exit_code(words)
        (said / "codes").write_text(json.dumps(codes))
    _say_into(said / "load")
    try:
        for table in load(release).tables.values():
            for _ in table:
                pass
        codes["load"] = 0
    except QuerycloakError:
        codes["load"] = 2
    (said / "codes").write_text(json.dumps(codes))


def _say_into(path: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, ending in ((1, "out"), (2, "err")):
        file = os.open(f"{path}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
        os.close(file)
    # Whoever started this process, such as pytest, may have put other files in their place.
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115


def _warm(typed: dict[str, tuple[str, ...]]) -> None:
    """Run quick commands here once, so that processes to come have loaded what they need; none starts a thread."""
    for words in typed.values():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            forked.exit_code(words)


def damage(log: Path, folder: Path, cases: int, seed: int = 1, names: Sequence[str] | None = None) -> Finding:
    """Damage releases in every way in turn, and run every command on them."""
    finding = Finding(
        "damaged folders",
        "releases of every method with cards, tables and files changed, removed, swapped, or made to do harm; each "
        "through verify, describe, load, complete, diff and export, and in turn report, evaluate and audit",
        f"done or refused in one line that a terminal may show; verify accepts no other guarantee, no other file and "
        f"no other digest; at most {MOST_SECONDS} seconds of a processor and {MOST_MEGABYTES:,} MB more than before",
    )
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sound = sound_releases(log, folder, names)
    for release in () if folder in _WARMED else sound:  # plans of sound cards are computed once, here
        shutil.rmtree(folder / "warm", ignore_errors=True)
        warm = shutil.copytree(release, folder / "warm" / "release")
        _warm(commands(warm, release, "", log.parent / "given", 1))
    _WARMED.add(folder)
    outcomes: Counter[str] = Counter()
    for number in range(cases):
        kinds = SELDOM if number % EVERY == EVERY - 1 else DAMAGES
        kind = list(kinds)[number % len(kinds)]
        original = sound[number // len(DAMAGES) % len(sound)]
        _case(
            finding, outcomes, f"case {number}, {kind} of {original.name}", kinds[kind], original, log, chance, number
        )
    finding.counts = dict(outcomes)
    return finding


def _case(
    finding: Finding, outcomes: Counter[str], case: str, harm: Damage, original: Path, log: Path, chance: random.Random,
    number: int,
) -> None:  # fmt: skip
    place = original.parents[1] / "case"
    shutil.rmtree(place, ignore_errors=True)
    (place / "said").mkdir(parents=True)
    release = shutil.copytree(original, place / "release")
    with contextlib.suppress(pa.ArrowException, PermissionError):  # what cannot be written here stays as it is
        harm(release, chance)
    typed = commands(release, original, digest_of(original), log.parent / "given", number)
    settings = {"QUERYCLOAK_TMP": str(place), "QUERYCLOAK_LEDGER": str(place / "ledger")}
    child = forked.start_work(lambda: try_commands(typed, release, place / "said"), place / "child", settings)
    code, megabytes = forked.ended_in_bounds(child, 5 * MOST_SECONDS, MOST_MEGABYTES)
    finding.runs += 1
    finding.expect(code == 0, f"{case}: ended with {code}: {(place / 'child').read_text()[-300:]}")
    finding.expect(megabytes < MOST_MEGABYTES, f"{case}: {megabytes:,} MB")
    codes = json.loads((place / "said" / "codes").read_bytes()) if (place / "said" / "codes").exists() else {}
    for name, ended in codes.items():
        outcomes[f"{name.partition(' (')[0]} exit {ended}"] += 1
        _judge(finding, f"{case}: {name}", ended, place / "said" / name)
    if codes:
        _judge_together(finding, case, codes, release, original)
    if codes.get("export") == 0:
        _judge_export(finding, f"{case}: export", place / "exported", outcomes)


def _judge(finding: Finding, case: str, code: int, said: Path) -> None:
    """One command alone: its exit code and its words."""
    out, err = ((said.parent / f"{said.name}.{each}").read_text(errors="replace") for each in ("out", "err"))
    finding.expect(code in (0, 2, 4), f"{case}: exit {code}: {err[-300:]}")
    finding.expect("Traceback" not in out + err and "this is a bug" not in out + err, f"{case}: says {err[-300:]}")
    finding.expect(not UNSAFE.search(out + err), f"{case}: a terminal would obey {UNSAFE.findall(out + err)[:3]}")
    finding.expect(len(out + err) < MOST_OUTPUT, f"{case}: {len(out + err):,} characters")
    lines = [line for line in err.splitlines() if line.startswith("querycloak: ")]
    finding.expect(
        code == 0 or said.name == "load" or len(lines) == 1, f"{case}: exit {code}, {len(lines)} lines: {err[-300:]}"
    )


def _judge_together(finding: Finding, case: str, codes: dict[str, int], release: Path, original: Path) -> None:
    """All of them: what verify accepts, and what others do with it."""
    changed = _digest(release) != digest_of(original)
    finding.expect(codes.get("verify --digest") != 0 or not changed, f"{case}: another digest is accepted")
    if codes.get("verify") == 0:
        cards = [json.loads((each / CARD).read_bytes()) for each in (release, original)]
        promised = [_promise(card) for card in cards]
        finding.expect(promised[0] == promised[1], f"{case}: another guarantee is accepted: {promised[0]}")
        finding.expect(codes.get("load", 0) == 0, f"{case}: verified, and cannot be loaded")
    if codes.get("load") == 2 and codes.get("verify") == 0:
        finding.problems.append(f"{case}: verify accepts what cannot be loaded")


def _judge_export(finding: Finding, case: str, path: Path, outcomes: Counter[str]) -> None:
    """What was exported: text without control and direction marks, and no cell that a spreadsheet computes."""
    files = [path, *path.parent.glob("exported.*"), *path.rglob("*")]
    for file in (each for each in files if each.is_file() and each.suffix != ".parquet"):
        text = file.read_text()
        finding.expect(not UNSAFE.search(text), f"{case}: {file.name} has {UNSAFE.findall(text)[:3]}")
        ends = {".csv": "excel", ".tsv": "excel-tab"}.get(file.suffix)
        cells = (cell for row in csv.reader(io.StringIO(text), ends) for cell in row) if ends else ()
        finding.expect(not any(FORMULA.match(cell) for cell in cells), f"{case}: {file.name} has a formula")
        outcomes["files exported"] += 1


def _digest(release: Path) -> str | None:
    try:
        return digest_of(release)
    except OSError:
        return None


def _promise(card: dict[str, Any]) -> list[Any]:
    names = ("kind", "unit", "neighbours", "epsilon", "delta", "k")
    return [card["method"], *((card["proven"] or {}).get(name) for name in names)]
