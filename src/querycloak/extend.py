"""The names that methods, attacks, tasks and exports of other packages import.

Names stay here from one version to the next: one is removed, or changes its meaning, only after a version in which it
still works and warns. The modules behind them may move. A name is loaded when it is first used,
so that importing the light ones (`Method`, `option`, ...) does not load an engine.
"""

from querycloak.lazy_names import loaded as _loaded

TYPE_CHECKING = False  # not from typing, as in `querycloak`
if TYPE_CHECKING:  # what type checkers see
    from querycloak.audits.attack import Attack, Finding, Share
    from querycloak.audits.audit_data import AuditData
    from querycloak.audits.guarantees.exact_test import ExactTester
    from querycloak.audits.guarantees.mechanism import Outcomes, Pair
    from querycloak.audits.guarantees.runs import DrawnRuns, draw_runs
    from querycloak.audits.guarantees.sampling_test import SamplingTester
    from querycloak.audits.guarantees.steps import Past, Step, steps_of
    from querycloak.evaluation.target import Target
    from querycloak.evaluation.task import CaseScores, Figure, Logs, Measure, Subject, Task
    from querycloak.exports.export import Output
    from querycloak.methods.keys.contribution_bounding import once_per_key
    from querycloak.methods.keys.public_lists import PublicList, queries_of
    from querycloak.methods.method import AuditLogs, Drawn, Method
    from querycloak.methods.option import option
    from querycloak.methods.unprotected import ALWAYS
    from querycloak.privacy.accounting.draws import PublicCounts
    from querycloak.privacy.guarantee import Guarantee, user_guarantee
    from querycloak.privacy.parameters import number_above_zero, refuse, whole
    from querycloak.privacy.sampling.exact import float_up, stated
    from querycloak.privacy.sampling.noise import Gaussian, Laplace
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.release import COUNTS, Release
    from querycloak.releases.row_kinds import RowKind
    from querycloak.releases.tables import KINDS, Stream

_HOMES = {
    "ALWAYS": "querycloak.methods.unprotected",
    "Attack": "querycloak.audits.attack",
    "AuditData": "querycloak.audits.audit_data",
    "AuditLogs": "querycloak.methods.method",
    "COUNTS": "querycloak.releases.release",
    "CaseScores": "querycloak.evaluation.task",
    "Drawn": "querycloak.methods.method",
    "DrawnRuns": "querycloak.audits.guarantees.runs",
    "ExactTester": "querycloak.audits.guarantees.exact_test",
    "Figure": "querycloak.evaluation.task",
    "Finding": "querycloak.audits.attack",
    "Gaussian": "querycloak.privacy.sampling.noise",
    "Guarantee": "querycloak.privacy.guarantee",
    "KINDS": "querycloak.releases.tables",
    "Laplace": "querycloak.privacy.sampling.noise",
    "Logs": "querycloak.evaluation.task",
    "Measure": "querycloak.evaluation.task",
    "Method": "querycloak.methods.method",
    "Outcomes": "querycloak.audits.guarantees.mechanism",
    "Output": "querycloak.exports.export",
    "Pair": "querycloak.audits.guarantees.mechanism",
    "Past": "querycloak.audits.guarantees.steps",
    "PublicCounts": "querycloak.privacy.accounting.draws",
    "PublicList": "querycloak.methods.keys.public_lists",
    "Randomness": "querycloak.privacy.sampling.randomness",
    "Release": "querycloak.releases.release",
    "RowKind": "querycloak.releases.row_kinds",
    "SamplingTester": "querycloak.audits.guarantees.sampling_test",
    "Share": "querycloak.audits.attack",
    "Step": "querycloak.audits.guarantees.steps",
    "Stream": "querycloak.releases.tables",
    "Subject": "querycloak.evaluation.task",
    "Target": "querycloak.evaluation.target",
    "Task": "querycloak.evaluation.task",
    "draw_runs": "querycloak.audits.guarantees.runs",
    "float_up": "querycloak.privacy.sampling.exact",
    "number_above_zero": "querycloak.privacy.parameters",
    "once_per_key": "querycloak.methods.keys.contribution_bounding",
    "option": "querycloak.methods.option",
    "queries_of": "querycloak.methods.keys.public_lists",
    "refuse": "querycloak.privacy.parameters",
    "stated": "querycloak.privacy.sampling.exact",
    "steps_of": "querycloak.audits.guarantees.steps",
    "user_guarantee": "querycloak.privacy.guarantee",
    "whole": "querycloak.privacy.parameters",
}

__all__ = [
    "ALWAYS",
    "COUNTS",
    "KINDS",
    "Attack",
    "AuditData",
    "AuditLogs",
    "CaseScores",
    "Drawn",
    "DrawnRuns",
    "ExactTester",
    "Figure",
    "Finding",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Logs",
    "Measure",
    "Method",
    "Outcomes",
    "Output",
    "Pair",
    "Past",
    "PublicCounts",
    "PublicList",
    "Randomness",
    "Release",
    "RowKind",
    "SamplingTester",
    "Share",
    "Step",
    "Stream",
    "Subject",
    "Target",
    "Task",
    "draw_runs",
    "float_up",
    "number_above_zero",
    "once_per_key",
    "option",
    "queries_of",
    "refuse",
    "stated",
    "steps_of",
    "user_guarantee",
    "whole",
]


def __getattr__(name: str) -> object:
    return _loaded(__name__, name, _HOMES, __all__)


def __dir__() -> list[str]:
    return list(__all__)
