"""Make the fixtures of an earlier version again, by its own code: `python scripts/make_fixtures.py COMMIT`.

    tests/fixtures/VERSION/releases/NAME/    a release of every seeded value
    tests/fixtures/VERSION/charged/          two releases that ledger.sqlite paid for; clicks is signed
    tests/fixtures/VERSION/clicks.sig, signers
    tests/fixtures/VERSION/ledger.sqlite     with its .users file
    tests/fixtures/VERSION/releases.toml     as `compare --releases` takes it; clicks.toml as `guarantee --plan` does
    tests/fixtures/VERSION/*.json            what that version's commands said of all these

The key that signs is made anew each time and thrown away.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.compare_releases import run_with, source_of  # noqa: E402  (a script has no package)
from scripts.recording import folder_of, method_of, record_releases, run_command, seeded_randomness, typed  # noqa: E402
from scripts.seeded_methods import FIXTURES, METHODS  # noqa: E402

CHARGED: dict[str, tuple[str, dict[str, Any]]] = {
    "clicks": ("Clicks", {"epsilon": 4, "delta": 1e-4, "selection": "rounds", "per_user": 8}),
    "semantic": ("Semantic", {"epsilon": 4, "domain": "sport", "max_queries": 3}),
}
DRAWS = (
    "queries laplace", "clicks gaussian", "clicks weighted", "clicks rounds", "clicks priors", "clicks counted",
    "clicks auto", "sessions", "pool urls", "pool threshold", "optimal", "semantic counts",
)  # fmt: skip
"""Values whose draws a ledger keeps each in its own way; a charge whose draw is not known is added as a sum."""


def make(folder: Path) -> None:
    """All fixtures, by the code that is first on the path."""
    from querycloak.contract import small_log

    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log.tsv"
        log.write_text(small_log())
        record_releases(log, folder / "releases")
        make_charged(log, folder)
        sign(folder / "charged" / "clicks" / "card.json", folder / "clicks.sig", folder / "signers", Path(place))
    write_plans(folder)
    write_outputs(folder)


def population_of(name: str) -> str:
    """The population that pays for a release; guarantees for different neighbours do not add up."""
    return f"shop users, {name}"


def make_charged(log_file: Path, folder: Path) -> None:
    """A ledger whose limit was raised, with a charge, a campaign, charges without release, and one announced."""
    import querycloak as qc

    ledger = qc.Ledger(folder / "ledger.sqlite")
    for name in CHARGED:
        ledger.set_limit(population_of(name), 10, 1e-3, by="the board", why="first year")
        ledger.set_limit(population_of(name), 40, 1e-3, by="the board", why="second year")
    (folder / "charged").mkdir()
    with qc.read(log_file) as log:
        for name, (kind, options) in CHARGED.items():
            method = getattr(qc, kind)(**options)
            made = method.release(log, ledger=ledger, population=population_of(name), randomness=seeded_randomness())
            made.save(folder / "charged" / name, format="tsv")
    for name in DRAWS:
        bill = method_of(*METHODS[name])[0].bill()
        ledger.set_limit(name, 100, 0.5, by="the board", why="one charge for each kind of draw")
        for _ in range(2):  # two of one kind compose below their sum
            charge = ledger.charge(name, bill.guarantee, method=bill.method, parameters=bill.parameters)
    ledger.announce(charge, "cd" * 32, Path("/releases/july"))


def sign(card: Path, signature: Path, signers: Path, place: Path) -> None:
    """Sign a card as `verify --signature` expects it."""
    key = place / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "owner", "-f", str(key)], check=True)
    signed = shutil.copy(card, place / "card.json")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "querycloak", "-f", str(key), str(signed)], check=True)
    shutil.copy(f"{signed}.sig", signature)
    signers.write_text(f"owner@shop.example {key.with_suffix('.pub').read_text()}")


def write_plans(folder: Path) -> None:
    """TOML files: every seeded value that names no file, and the options of one."""
    listed = []
    for name, (kind, options) in METHODS.items():
        if not {"pool", "urls"} & set(options):
            lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
            head = f'[[release]]\nname = "{folder_of(name)}"\nmethod = "{typed(kind, {})[0]}"\n[release.options]\n'
            listed.append(head + "\n".join(lines) + "\n")
    (folder / "releases.toml").write_text("\n".join(listed))
    options = CHARGED["clicks"][1]
    (folder / "clicks.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items()))


def write_outputs(folder: Path) -> None:
    """What commands say, by the name of each release."""
    folders = sorted((folder / "releases").iterdir()) + sorted((folder / "charged").iterdir())
    names = {str(path.relative_to(folder)): path for path in folders}
    ledger = folder / "ledger.sqlite"
    shown: list[str | Path] = ["ledger", "show", "--ledger", ledger, "--composition", "pld"]
    by_ledger: dict[str, list[str | Path]] = {
        name: ["--ledger", ledger] for name in names if name.startswith("charged/")
    }
    outputs = {
        "verify": {name: output_of(["verify", path, *by_ledger.get(name, [])]) for name, path in names.items()},
        "describe": {name: output_of(["describe", path]) for name, path in names.items()},
        "guarantee": {
            folder_of(name): output_of(["guarantee", *typed(kind, options)])
            for name, (kind, options) in METHODS.items()
            if not {"pool", "urls"} & set(options)
        },
        "ledger": {"show": output_of(shown), "verify": output_of(["ledger", "verify", "--ledger", ledger])},
    }
    for name, document in outputs.items():
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def output_of(words: Sequence[str | Path]) -> Any:
    """What a command with --json prints; it must succeed."""
    code, out, err = run_command([*words, "--json"])
    if code:
        raise SystemExit(f"{words}: exit code {code}: {err}")
    return json.loads(out)


def main() -> int:
    """Make the fixtures of a commit, in a folder by its version."""
    if sys.argv[1:2] == ["--here"]:
        make(Path(sys.argv[2]))
        return 0
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python scripts/make_fixtures.py COMMIT\n")
        return 2
    with source_of(sys.argv[1]) as source:
        version = tomllib.loads((source.parent / "pyproject.toml").read_text())["project"]["version"]
        folder = FIXTURES / version
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        run_with(source, "scripts.make_fixtures", "--here", folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
