"""Steps of a sign-off: split, twin, evidence, release, pages. A killed run continues after the last finished step.

DIR/public/   release/  public.html
DIR/private/  private.html  draft.html  plan.json  evaluation.json  audit.json  twin/
              split/   while evidence is measured: both sides of the raw log
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from querycloak.audits.release_audit import audit_release
from querycloak.errors import CheckFailed, InputError
from querycloak.evaluation.evaluation import evaluate
from querycloak.evaluation.split_folder import SPLIT, opened_side, write_split
from querycloak.evaluation.target import Target
from querycloak.extras import COMPARE, PICTURES, require
from querycloak.files.documents import parsed_json
from querycloak.files.resumable_folder import FolderKind, KeptSteps, write_private
from querycloak.logs.searchlog import OnStep, SearchLog
from querycloak.logs.split import Split
from querycloak.pages.layout import write_page
from querycloak.pages.measured import measured
from querycloak.pages.officer_answers import UNITS
from querycloak.pages.signing_report import Signing, outcomes, private_page, public_page
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import random_name
from querycloak.releases.folder import card_digest, outside_releases, reconcile, reserve
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.saving import save
from querycloak.signing.signoff_plan import SignoffPlan

PUBLIC, PRIVATE, RELEASE = "public", "private", "release"
KIND = FolderKind(f"{PRIVATE}/signoff.json", {"querycloak": "signoff", "version": 1}, "a sign-off began")
AFTER_EVIDENCE = "that this release was made at all: its owner decided it after figures were measured on the log"
_WEIGHTS = {"split": 1.0, "twin": 3.0, "evaluation": 8.0, "audit": 8.0, "release": 3.0, "pages": 1.0}
"""Relative durations of steps, about."""
_FILES = (
    ("private/private.html", "this page, with true figures of the log", "as long as the release is public"),
    ("private/evaluation.json, private/audit.json", "the figures behind it", "as long as the release is public"),
    ("private/draft.html, private/twin/", "the draft, and the trial release that it is about: made from a part of the "
     "log, and charged to no ledger; never publish it", "remove them once the page to sign is signed"),
    ("private/signoff.json, private/steps/", "what the sign-off has done; no rows of the log",
     "remove them once the page to sign is signed"),
    ("private/split/", "the raw log a second time", "removed by the sign-off itself"),
    ("the ledger", "what was spent on these people", "as long as any release about them is public"),
    ("the log itself", "everything", "the controller's own rule; the release does not need it any more"),
)  # fmt: skip


@dataclass(frozen=True)
class SignoffEvidence:
    """Figures measured on the twin, for the person who decides (private)."""

    draft: Path
    rows: int
    alarms: tuple[str, ...]
    criteria: tuple[tuple[str, str], ...] = ()
    """Singling out, linking and inferring, each with its outcome in a few words."""


@dataclass(frozen=True)
class SignedOff:
    """State of a sign-off: the release and its pages, or only the evidence if nothing was released yet."""

    folder: Path
    released: bool
    digest: str | None
    draft: Path
    evidence: SignoffEvidence | None = None
    """Figures of the evidence (private); None if this run released."""

    def to_json(self) -> dict[str, Any]:
        """The values that `signoff --json` prints."""
        public, private = self.folder / PUBLIC, self.folder / PRIVATE
        return {
            "released": self.released,
            "digest": self.digest,
            "release": str(public / RELEASE) if self.released else None,
            "public": str(public / "public.html") if self.released else None,
            "private": str(private / "private.html") if self.released else None,
            "draft": str(self.draft),
        }


def check_signoff(plan: SignoffPlan, out: Path, ledger: Ledger) -> None:
    """Refuse what can be refused before the log is opened: the folder, and a budget that does not suffice."""
    require(COMPARE, "the page to sign", PICTURES)
    outside_releases(out)
    KIND.check(out)
    state = KIND.state(out) or {}
    if state.get("plan") != plan.digest or not state.get("releasing"):
        plan.method.paid_by(ledger, plan.population).payment(ledger, plan.population).check()


def signoff(
    log: SearchLog,
    plan: SignoffPlan,
    out: Path,
    *,
    ledger: Ledger,
    decide: Callable[[SignoffEvidence], bool],
    truth: Path | None = None,
    on_step: OnStep | None = None,
) -> SignedOff:
    """Measure evidence on a part of the log, ask, release the whole log, and write the pages to sign.

    decide: True releases, after the evidence was seen. truth: the folder of known sensitive queries; None if unknown. A
    killed sign-off goes on where it was.
    """
    with _folder(out, plan, log) as state:
        run = _Run(log, plan, out, ledger, truth, state, on_step or (lambda *_: None))
        if not run.is_released():
            evidence = run.evidence()
            if evidence.alarms:
                raise CheckFailed(
                    f"nothing is released, because an attack gains too much: {'; '.join(evidence.alarms)}"
                )
            if not decide(evidence):
                return SignedOff(out, False, None, run.draft, evidence)
            run.release()
        digest = run.pages()
        shutil.rmtree(run.split, ignore_errors=True)
        return SignedOff(out, True, digest, run.draft)


@contextmanager
def _folder(out: Path, plan: SignoffPlan, log: SearchLog) -> Iterator[dict[str, Any]]:
    """The state of the sign-off, with its folder locked; what changed since its first plan is noted."""
    with KIND.at_work(out):
        (out / PRIVATE).mkdir(mode=0o700, exist_ok=True)
        state = KIND.state(out) or {}
        files = [(Path(file.location).name, file.size) for file in log.source.files]
        source = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        if state and state["log"] != source:
            raise InputError(f"{str(out)!r} holds a sign-off of another log; name another folder")
        if not state:
            state = {"log": source, "plan": plan.digest, "run": random_name(), "changed": False, "private": True}
        elif state["plan"] != plan.digest:
            if state.get("releasing"):
                raise InputError(f"{str(out)!r} holds a sign-off that has paid for its plan; name another folder")
            seen = bool(state.get("seen"))
            state |= {"plan": plan.digest, "changed": state["changed"] or seen, "seen": False}
        KIND.write_state(out, **state)
        yield state


@dataclass(eq=False)
class _Run:
    """One process at work on a sign-off."""

    _log: SearchLog
    _plan: SignoffPlan
    _out: Path
    _ledger: Ledger
    _truth: Path | None
    _state: dict[str, Any]
    _on_step: OnStep
    _done: float = 0.0

    def __post_init__(self) -> None:
        private = self._out / PRIVATE
        self.split, self.draft = private / "split", private / "draft.html"
        self._twin, self._published = private / "twin", self._out / PUBLIC / RELEASE
        self._evaluation, self._audit = private / "evaluation.json", private / "audit.json"
        self._steps = KeptSteps(private / "steps", {"plan": self._plan.digest})

    def evidence(self) -> SignoffEvidence:
        """Split the log, release a twin from TRAIN, evaluate and attack it, and write a draft of the page."""
        self._step("split", "splitting the log", self._make_split)
        made = self._step("twin", "making a trial release", self._make_twin)
        self._step("evaluation", "evaluating it", self._evaluate)
        audit = self._step("audit", "attacking it", self._attack)
        signing = self._signing(self._twin)
        write_page(private_page(signing), self.draft, private=True)
        self._note(seen=True)
        return SignoffEvidence(self.draft, made["rows"], tuple(audit["alarms"]), outcomes(signing))

    def is_released(self) -> bool:
        """True if the release is there, made by this run or an earlier one."""
        reconcile(self._ledger)
        return (self._published / "card.json").is_file()

    def release(self) -> None:
        """Release the whole log; the charge of a run that was killed after it paid is used again."""
        self._tell("making the release")
        self._note(releasing=True)
        plan = self._plan
        self._published.parent.mkdir(exist_ok=True)
        with reserve(self._published) as folder:
            made = plan.method.release(
                self._log,
                ledger=self._ledger,
                population=plan.population,
                population_size=plan.population_size,
                run=self._state["run"],
                **self._circumstances,
            )
            save(replace(made, about=plan.about.public), folder, "parquet", OutputFilter())
        self._done += _WEIGHTS["release"]

    def pages(self) -> str:
        """Write both pages about the release; its digest."""
        self._tell("writing the pages")
        signing = self._signing(self._published)
        write_page(public_page(signing), self._published.parent / "public.html", private=False)
        write_page(private_page(signing), self._out / PRIVATE / "private.html", private=True)
        return card_digest(self._published)

    @property
    def _circumstances(self) -> dict[str, Any]:
        return {"unprotected": (AFTER_EVIDENCE,), "chosen_on_log": self._state["changed"]}

    def _signing(self, folder: Path) -> Signing:
        draft = folder == self._twin
        account = None if draft else self._ledger.show(self._plan.population)[0]
        figures = measured(folder, self._evaluation, [self._audit], None if draft else self._twin)
        unit = UNITS[self._plan.unit]
        return Signing.of(folder, self._plan.about, figures, account, unit=unit, files=_FILES, draft=draft)

    def _make_split(self) -> dict[str, Any]:
        shutil.rmtree(self.split, ignore_errors=True)
        write_split(self._log, self.split, Split(by="user", test=self._plan.test))
        return dict(parsed_json((self.split / SPLIT).read_bytes()))

    def _make_twin(self) -> dict[str, Any]:
        shutil.rmtree(self._twin, ignore_errors=True)
        made = self._plan.method.release(self._train, population_size=self._plan.population_size, **self._circumstances)
        saved = save(made, self._twin, "parquet", OutputFilter())
        card = parsed_json((saved.folder / "card.json").read_bytes())
        return {"rows": sum(table["rows"] for table in card["tables"].values())}

    def _evaluate(self) -> dict[str, Any]:
        evaluation = evaluate(self._train, self._test, [Target.in_folder(self._twin)], on_step=self._within)
        write_private(self._evaluation, json.dumps(evaluation.to_json(), allow_nan=False))
        return {}

    def _attack(self) -> dict[str, Any]:
        twin = [Target.in_folder(self._twin)]
        audit = audit_release(self._train, twin, control=self._test, truth=self._truth, on_step=self._within)
        write_private(self._audit, json.dumps(audit.to_json(), allow_nan=False))
        return {"alarms": list(audit.alarms)}

    @cached_property
    def _train(self) -> SearchLog:
        return self._side("train")

    @cached_property
    def _test(self) -> SearchLog:
        return self._side("test")

    def _side(self, name: str) -> SearchLog:
        """TRAIN or TEST; a split that was removed with its run is made again."""
        if not (self.split / SPLIT).is_file():
            self._make_split()
        return opened_side(self._log, self.split, name, lambda what, _: self._within(what, 0.0))

    def _step(self, name: str, doing: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        result = self._steps.kept(name)
        if result is None:  # the speed of an earlier run is not the speed of this one
            self._name, self._doing = name, doing
            self._tell(doing)
            result = self._steps.get(name, work)
        self._done += _WEIGHTS[name]
        return dict(result)

    def _tell(self, doing: str) -> None:
        self._on_step(doing, self._done / sum(_WEIGHTS.values()))

    def _within(self, what: str, share: float) -> None:
        """Tell a part of the step that is running; share: of that step."""
        done = self._done + share * _WEIGHTS[self._name]
        self._on_step(f"{self._doing}: {what}", done / sum(_WEIGHTS.values()))

    def _note(self, **known: Any) -> None:
        self._state |= known
        KIND.write_state(self._out, **known)
