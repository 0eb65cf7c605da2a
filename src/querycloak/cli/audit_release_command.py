"""`querycloak audit release`: what attackers gain from releases, as tables of 80 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.cli.terminal import print_json
from querycloak.errors import CheckFailed
from querycloak.privacy.parameters import refuse
from querycloak.sentence import printable

if TYPE_CHECKING:
    from querycloak.audits.release_audit import ReleaseAudit

PRIVATE = "PRIVATE OUTPUT: what attackers gain, measured on the log. Not for publication."
_WIDTH, _NAME, _FEW = 80, 13, 5
_HEAD = f"{'':{_NAME}} {'main':>5} {'control':>7} {'baseline':>8} {'risk':>5} {'95 %':>15} setting"
_LEGEND = (
    "main: how often the attack succeeds on people in the log; control: on people who are not in it; baseline: "
    "without the release; risk: (main - control) / (1 - control). ! means that the attack is no better than without "
    "the release, so it shows nothing. If an attack has many settings, the one with the largest risk is shown; --json "
    "and --out have all of them. FPR: the share of people outside the log who are named wrongly. What is proven is "
    "for that share; control is the share that was reached."
)


def _attacks() -> Iterable[str]:
    from querycloak.audits.attack import ATTACKS

    return ATTACKS


@with_groups
def audit_releases(
    train: options.TrainLog,
    release: options.ReleaseFolders,
    *,
    control: Annotated[
        str | None, typer.Option(help="A log of other people of the same kind: TEST of a split.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="What is known to be sensitive: LOG.truth of a synthetic log.")
    ] = None,
    other_period: Annotated[str | None, typer.Option(help="A log of the same people from another time.")] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="An attack, more than once for several; all if not given.",
            autocompletion=options.completing(_attacks),
        ),
    ] = None,
    out: options.PrivateRows = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack releases: what an attacker gains (private output)."""
    from querycloak.audits.release_audit import audit_release, check_attacks
    from querycloak.evaluation.evaluation_file import check_evaluation_file, write_evaluation
    from querycloak.evaluation.target import Target

    if control is None:
        refuse("control", "a log of other users", None, "the other side of a split, test.parquet")
    check_attacks(attack, truth=truth, other_period=other_period)
    target = None if out is None else check_evaluation_file(out)
    attacked = [Target.in_folder(folder) for folder in release]  # what is wrong with them is said at once
    reading = reading.with_attributes(name for each in attacked for name in each.attributes)
    beside, other = reading.prepared([control]), None if other_period is None else reading.prepared([other_period])
    with reading.open([train], quiet=quiet or as_json, out=out) as ours:
        theirs = beside.on(ours.engine, max_bad=reading.max_bad)
        earlier = None if other is None else other.on(ours.engine, max_bad=reading.max_bad)
        audit = audit_release(
            ours, attacked, control=theirs, truth=truth, other_period=earlier, attacks=attack, on_step=ours.progress
        )
    if target is not None:
        write_evaluation(audit.table(), audit.to_json(), target)
    show_audit(audit, as_json=as_json, quiet=quiet)


def show_audit(audit: ReleaseAudit, *, as_json: bool, quiet: bool) -> None:
    """Print the rows, or tables of the main ones; raise CheckFailed for alarms."""
    if as_json:
        print_json(audit.to_json(), allow_nan=False)
    elif not quiet:
        lines = [PRIVATE]
        for attack in dict.fromkeys(row["attack"] for row in audit.rows):
            lines += _attack_lines(attack, [row for row in audit.rows if row["attack"] == attack])
        shown = "\n".join([*lines, "", *textwrap.wrap(_LEGEND, _WIDTH)])
        sys.stdout.write("".join(f"{printable(line)}\n" for line in shown.split("\n")))
    if audit.alarms:
        raise CheckFailed("; ".join(audit.alarms))


def _attack_lines(attack: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from ("", attack)
    if any(row["main"] is not None for row in rows):
        yield _HEAD
    reasons: dict[str, list[str]] = {}
    for release in dict.fromkeys(row["release"] for row in rows):
        measured = [row for row in rows if row["release"] == release and row["main"] is not None]
        with_risk = [row for row in measured if row["risk"] is not None]
        shown = measured if len(with_risk) <= _FEW else [max(with_risk, key=lambda each: each["risk"])]
        for number, row in enumerate(shown):
            yield from _lines(row, "" if number else release)
        if not measured:
            reasons.setdefault(next(row["why"] for row in rows if row["release"] == release), []).append(release)
    for why, releases in reasons.items():
        yield from textwrap.wrap(f"  {', '.join(releases)}: {why}", _WIDTH, subsequent_indent="    ")


def _lines(row: dict[str, Any], name: str) -> Iterator[str]:
    """A row in one line; a long name stands above it, a long setting below."""
    if len(name) > _NAME:
        yield from textwrap.wrap(name, _WIDTH)
        name = ""
    line, setting = f"{name:{_NAME}} {_number(row['main']):>5}", row["setting"] or ""
    if row["risk"] is not None:
        invalid = "!" if row["why"] else " "
        interval = f"[{_number(row['low'])}, {_number(row['high'])}]"
        line += f" {_number(row['control']):>7} {_number(row['baseline']):>8} {_number(row['risk']):>5}"
        line += f"{invalid}{interval:>15}"
    if len(line) + 1 + len(setting) <= _WIDTH:
        yield f"{line} {setting}".rstrip()
    else:
        yield line
        yield from textwrap.wrap(setting, _WIDTH, initial_indent=" " * (_NAME + 3), subsequent_indent=" " * (_NAME + 3))


def _number(value: float | None) -> str:
    """Four digits, without the 0 before the point; - for None."""
    if value is None:
        return "-"
    return "1" if value == 1 else f"{value:.4f}".removeprefix("0")
