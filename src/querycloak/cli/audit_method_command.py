"""`querycloak audit method`: what runs prove about a guarantee, beside what is claimed and proven."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Iterator

from querycloak.audits.guarantees.fresh_processes import FRESH_PROCESSES
from querycloak.audits.guarantees.method_audit import MethodAudit, OnStep, audit_method
from querycloak.audits.guarantees.sampling_test import ERROR, SamplingFinding
from querycloak.cli.guarantee_command import shown_parameters
from querycloak.errors import CheckFailed
from querycloak.methods.method import Method
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up

_WIDTH, _LABEL, _NAME = 80, 12, 58


def audited_method(method: Method, runs: int, seed: int | None, neighbours: str | None, *, quiet: bool) -> MethodAudit:
    """Audit with a bar on a terminal."""
    method.check_inputs()
    kinds = None if neighbours is None else [kind.strip() for kind in neighbours.split(",")]
    with _progress(quiet=quiet) as on_step:
        return audit_method(method, runs=runs, seed=seed, neighbours=kinds, on_step=on_step)


def show_method_audit(found: MethodAudit, *, as_json: bool) -> None:
    """Print what was found; an error if it speaks against what is proven."""
    if as_json:
        json.dump(found.to_json(), sys.stdout)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join(_lines(found)) + "\n")
    if not found.holds:
        raise CheckFailed(
            f"{found.method.name} does not have the guarantee that is proven for it: "
            f"{'; '.join(_against(found)[:3])}; please report this"
        )


def _lines(found: MethodAudit) -> list[str]:
    method, worst = found.method, found.measured
    head = f"{method.name}, {method.variant} variant: {shown_parameters(method)}"
    measured = (
        f"at least, by {worst.runs:,} runs of each log, half of which judge; wrong with a chance of {ERROR:g} at most. "
        f"This number of runs cannot show more than {found.tester.ceiling:.2f}."
    )
    lines = [
        *_wrapped(head),
        "",
        f"{'':{_LABEL}}{'epsilon':<12}delta",
        _guarantee("claimed", method.claimed()),
        _guarantee("proven", method.proven()),
        f"{'measured':{_LABEL}}{_shown(worst.per_account):<12}{found.delta:.4g}",
        *textwrap.wrap(measured, _WIDTH, initial_indent=" " * _LABEL, subsequent_indent=" " * _LABEL),
        "",
        f"{'neighbours, and the event that shows most':{_NAME}}{'epsilon':>9}{'allowed':>9}",
        *(line for each in found.sampled for line in _pair(each)),
        "",
        *_exact(found),
        *_powers(found),
    ]
    if found.refutes_claim:
        lines += ["", *_wrapped("The claim is refuted: " + "; ".join(_against_claim(found)[:3]))]
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _guarantee(label: str, guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return f"{label:{_LABEL}}-"
    if not guarantee.covers_release:
        return f"{label:{_LABEL}}no differential privacy of the release ({guarantee.kind})"
    epsilon, delta = guarantee.numbers
    return f"{label:{_LABEL}}{shown_up(epsilon) if epsilon else '0':<12}{shown_up(delta) if delta else '0'}"


def _pair(each: SamplingFinding) -> Iterator[str]:
    mark = " !" if each.refuted else ""
    yield f"{each.neighbours:{_NAME}}{_shown(each.epsilon):>9}{each.allowed:>9.4g}{mark}"
    if each.epsilon:
        yield from textwrap.wrap(each.event, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _exact(found: MethodAudit) -> list[str]:
    processes = [finding for finding in found.exact if finding.instrument == FRESH_PROCESSES]
    bounds = [finding for finding in found.exact if finding.instrument != FRESH_PROCESSES]
    lines = ["exact: this method cannot show what it adds noise to"]
    if bounds:
        failed = [finding for finding in bounds if finding.refuted]
        pairs = len({finding.neighbours for finding in bounds})
        verdict = f"{len(failed)} broken:" if failed else "all hold"
        lines = [f"exact: {len(bounds)} bounds looked at on {pairs} pairs of logs, {verdict}"]
        lines += [line for each in failed for line in _wrapped(f"  {each.statement} !")]
    return [*lines, *(f"{each.statement}{' !' * each.refuted}" for each in processes)]


def _powers(found: MethodAudit) -> list[str]:
    if not found.powers:
        return []
    shown = ", ".join(f"{name} {chance:.2f}" for name, chance in found.powers)
    return _wrapped(f"power (the chance that sampling would have shown such a fault): {shown}")


def _against(found: MethodAudit) -> list[str]:
    sampled = [f"{each.neighbours}: epsilon {each.epsilon:.3g}" for each in found.sampled if each.refuted]
    return [*sampled, *(f"{each.neighbours}: {each.statement}" for each in found.exact if each.refuted)]


def _against_claim(found: MethodAudit) -> list[str]:
    sampled = [f"{each.neighbours}: epsilon {each.epsilon:.3g}" for each in found.against_claim if each.refuted]
    exact = [] if found.method.proven().covers_release else [each.statement for each in found.exact if each.refuted]
    return [*sampled, *exact]


def _shown(epsilon: float) -> str:
    """A lower bound: cut, never rounded up."""
    return f"{int(epsilon * 1000) / 1000:g}"


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[OnStep | None]:
    """A bar of pairs, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(32), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)
