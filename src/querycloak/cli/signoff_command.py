"""`querycloak signoff`: from a log to a release and the page to sign, in one command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.running import say
from querycloak.cli.terminal import print_json
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.exact import shown_up

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.signing.signoff import SignedOff
    from querycloak.signing.signoff_plan import SignoffPlan


def signoff(
    log: options.Logs,
    *,
    plan: Annotated[Path | None, typer.Option(help="TOML file: population, unit, about, method, [options].")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write: a new one, or one that the same command began.")
    ] = None,
    ledger: options.LedgerFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Release without asking.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go from a log to a release and the page to sign."""
    if plan is None:
        refuse("plan", "a TOML file", None, "it says population, unit, about, method and options")
    if out is None:
        refuse("out", "the folder to write", None, "a sign-off that was stopped goes on there")
    done = signed_off(log, plan, out, ledger, yes=yes, quiet=quiet or as_json)
    if as_json:
        print_json(done.to_json())
    elif not quiet:
        show(done)


@dataclass(frozen=True)
class OpenedPlan:
    """A plan and its log, open; truth: what is known about a synthetic log, None for other logs."""

    log: SearchLog
    plan: SignoffPlan
    ledger: Ledger
    truth: Path | None


@contextmanager
def opened_plan(logs: list[str], plan: Path, out: Path, ledger: Path | None) -> Iterator[OpenedPlan]:
    """Read the plan, check everything that can be refused without the log, then open the log."""
    from querycloak.cli.compare_command import truth_beside
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.signing.signoff import check_signoff
    from querycloak.signing.signoff_plan import checked_options, read_plan

    options.check_apart(out, logs)
    decided, book = read_plan(plan), Ledger(ledger)
    known = {each.name: each for each in fields(options.Reading)}
    reading = options.Reading(**checked_options(decided, known))
    check_signoff(decided, out, book)
    with reading.opened(reading.prepared(logs)) as log:
        yield OpenedPlan(log, decided, book, truth_beside(logs))


def signed_off(logs: list[str], plan: Path, out: Path, ledger: Path | None, *, yes: bool, quiet: bool) -> SignedOff:
    """Measure evidence, ask, and release."""
    with opened_plan(logs, plan, out, ledger) as opened:
        try:
            return _in_two_steps(opened, out, yes=yes, quiet=quiet)
        except KeyboardInterrupt:
            say(f"the sign-off goes on where it was if you start it again with --out {shlex.quote(str(out))}")
            raise


def _in_two_steps(opened: OpenedPlan, out: Path, *, yes: bool, quiet: bool) -> SignedOff:
    """Evidence first; then the release, if the answer is yes. The progress bar is hidden during the question."""
    from querycloak.cli.terminal import step_progress
    from querycloak.signing.signoff import signoff

    log, plan, ledger, truth = opened.log, opened.plan, opened.ledger, opened.truth
    with step_progress("signing off", quiet=quiet) as on_step:
        done = signoff(log, plan, out, ledger=ledger, truth=truth, decide=lambda _: yes, on_step=on_step)
    if done.released or not _wanted(done, plan):
        return done
    with step_progress("releasing", quiet=quiet) as on_step:
        return signoff(log, plan, out, ledger=ledger, truth=truth, decide=lambda _: True, on_step=on_step)


def _wanted(done: SignedOff, plan: SignoffPlan) -> bool:
    """Ask on a terminal, after the evidence; elsewhere nobody can answer, and nothing is released."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write("\n".join(_before_asking(done, plan)) + "\n")
    return typer.confirm("Make the release from all people now?", err=True)


def _before_asking(done: SignedOff, plan: SignoffPlan) -> list[str]:
    """Summary of the evidence, the place of its page, and the cost of a yes."""
    epsilon, delta = map(shown_up, plan.method.proven().numbers)
    lines = ["PRIVATE: what was measured on a trial release of a part of the log"]
    if done.evidence is not None:
        lines.append(f"  rows that came out: {done.evidence.rows:,}")
        lines += [f"  {name.lower()}: {outcome}" for name, outcome in done.evidence.criteria]
    return [
        *lines,
        "Read the draft in a browser before you answer:",
        f"  {done.draft.resolve().as_uri()}",
        f"The release costs {plan.population} epsilon {epsilon} and delta {delta}. Nothing is charged yet.",
        "No keeps the evidence, and you can go on later.",
    ]


def show(done: SignedOff) -> None:
    """Print where everything is, and the next step."""
    from querycloak.cli.terminal import console

    paths = done.to_json()
    if done.released:
        lines = [
            f"{paths['private']}: PRIVATE, to read, fill in and sign",
            f"{paths['release']}: the release, to be published",
            f"{paths['public']}: to be published with it",
            f"digest {done.digest}",
            "Next: print the private page and sign it.",
            "To let receivers check the release, sign its card, too:",
            f"  ssh-keygen -Y sign -n querycloak -f KEY {shlex.quote(paths['release'])}/card.json",
        ]
    else:
        lines = [
            "Nothing is released and nothing is charged.",
            f"{paths['draft']}: PRIVATE, the evidence and a draft of the page; open it in a browser",
            "To release: the same command with --yes",
        ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)
