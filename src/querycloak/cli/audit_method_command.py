"""`querycloak audit method`: the epsilon that runs prove, beside the claimed and the proven guarantee."""

from __future__ import annotations

import contextlib
import math
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.guarantee_command import shown_parameters
from querycloak.cli.terminal import print_json, print_lines
from querycloak.errors import CheckFailed
from querycloak.methods.method import Method
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up

if TYPE_CHECKING:
    from querycloak.audits.guarantees.method_audit import MethodAudit, OnStep
    from querycloak.audits.guarantees.sampling_test import SamplingFinding

_WIDTH, _LABEL, _NAME = 80, 12, 58


def audit_guarantee(
    method: Method,
    *,
    runs: Annotated[int, typer.Option(help="How often to draw from each log.")] = 20_000,
    seed: Annotated[
        int | None, typer.Option(help="Make the draws repeatable; if not given, they are as in a release.")
    ] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="Kinds of neighbouring logs, with commas; all that fit if not given.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Test a guarantee by runs on neighbouring logs."""
    from querycloak.audits.guarantees.method_audit import audit_method

    method.check_inputs()
    kinds = None if neighbours is None else [kind.strip() for kind in neighbours.split(",")]
    with _progress(quiet=quiet or as_json) as on_step:
        audit = audit_method(method, runs=runs, seed=seed, neighbours=kinds, on_step=on_step)
    show_method_audit(audit, as_json=as_json)


def show_method_audit(audit: MethodAudit, *, as_json: bool) -> None:
    """Print the results; raise CheckFailed if a test refutes the proven guarantee."""
    if as_json:
        print_json(audit.to_json())
    else:
        print_lines(_lines(audit))
    if not audit.holds:
        raise CheckFailed(
            f"{audit.method.name} does not have the guarantee that is proven for it: "
            f"{'; '.join(_against(audit)[:3])}; please report this"
        )


def _lines(audit: MethodAudit) -> list[str]:
    from querycloak.audits.guarantees.sampling_test import ERROR

    method, worst = audit.method, audit.measured
    head = f"{method.name}, {method.variant} variant: {shown_parameters(method)}"
    measured = (
        f"at least, by {worst.runs:,} runs of each log, half of which judge; wrong with a chance of {ERROR:g} at most. "
        f"This number of runs cannot show more than {audit.tester.ceiling:.2f}."
    )
    lines = [
        *_wrapped(head),
        "",
        f"{'':{_LABEL}}{'epsilon':<12}delta",
        _guarantee("claimed", method.claimed()),
        _guarantee("proven", method.proven()),
        f"{'measured':{_LABEL}}{_shown(worst.per_account):<12}{audit.delta:.4g}",
        *textwrap.wrap(measured, _WIDTH, initial_indent=" " * _LABEL, subsequent_indent=" " * _LABEL),
        "",
        f"{'neighbours, and the event that shows most':{_NAME}}{'epsilon':>9}{'allowed':>9}",
        *(line for each in audit.sampled for line in _pair(each)),
        "",
        *_exact(audit),
        *_powers(audit),
    ]
    if audit.refutes_claim:
        lines += ["", *_wrapped("The claim is refuted: " + "; ".join(_against_claim(audit)[:3]))]
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


def _exact(audit: MethodAudit) -> list[str]:
    from querycloak.audits.guarantees.fresh_processes import FRESH_PROCESSES

    processes = [finding for finding in audit.exact if finding.instrument == FRESH_PROCESSES]
    bounds = [finding for finding in audit.exact if finding.instrument != FRESH_PROCESSES]
    lines = ["exact: this method cannot show what it adds noise to"]
    if bounds:
        failed = [finding for finding in bounds if finding.refuted]
        pairs = len({finding.neighbours for finding in bounds})
        verdict = f"{len(failed)} broken:" if failed else "all hold"
        lines = [f"exact: {len(bounds)} bounds looked at on {pairs} pairs of logs, {verdict}"]
        lines += [line for each in failed for line in _wrapped(f"  {each.statement} !")]
    return [*lines, *(f"{each.statement}{' !' * each.refuted}" for each in processes)]


def _powers(audit: MethodAudit) -> list[str]:
    smallest = f"an epsilon of {audit.smallest_shown:.3g} or more would have been shown to exceed it (95 %)"
    if math.isinf(audit.smallest_shown):
        smallest = "no excess of this epsilon would have been shown; test at a smaller one"
    lines = _wrapped(f"power: {smallest}")
    if audit.powers:
        shown = ", ".join(f"{name} {chance:.2f}" for name, chance in audit.powers)
        lines += _wrapped(f"power (the chance that sampling would have shown such a fault): {shown}")
    return lines


def _against(audit: MethodAudit) -> list[str]:
    sampled = [f"{each.neighbours}: epsilon {each.epsilon:.3g}" for each in audit.sampled if each.refuted]
    return [*sampled, *(f"{each.neighbours}: {each.statement}" for each in audit.exact if each.refuted)]


def _against_claim(audit: MethodAudit) -> list[str]:
    sampled = [f"{each.neighbours}: epsilon {each.epsilon:.3g}" for each in audit.against_claim if each.refuted]
    exact = [] if audit.method.proven().covers_release else [each.statement for each in audit.exact if each.refuted]
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
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)
