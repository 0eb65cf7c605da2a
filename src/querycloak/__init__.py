"""Release a search log that people can use, with a privacy guarantee that holds."""

from querycloak.compiled_code import choose_place as _choose_place
from querycloak.lazy_names import loaded as _loaded

_choose_place()

TYPE_CHECKING = False  # not imported from typing: an interrupt during imports would show a traceback
if TYPE_CHECKING:  # what type checkers see; at run time a name is loaded when it is first used
    from querycloak.audits.attacks.folder_leaks import find_leaks
    from querycloak.audits.guarantees.method_audit import audit_method
    from querycloak.audits.release_audit import audit_release
    from querycloak.comparison.comparison import compare
    from querycloak.engines import connect
    from querycloak.evaluation.description import describe
    from querycloak.evaluation.evaluation import evaluate
    from querycloak.evaluation.release_diff import diff
    from querycloak.evaluation.split_folder import split
    from querycloak.evaluation.task import measures
    from querycloak.exports.export import export
    from querycloak.logs.choices import Choices
    from querycloak.logs.profile import Profile, profile
    from querycloak.logs.searchlog import SearchLog, read
    from querycloak.methods.affinity.method import Affinity
    from querycloak.methods.clicks.method import Clicks
    from querycloak.methods.eu_records.method import EuRecords
    from querycloak.methods.evidence import Verified, load, verify
    from querycloak.methods.generalize.method import Generalize
    from querycloak.methods.k_anonymity.method import KAnonymity
    from querycloak.methods.optimal.method import Optimal
    from querycloak.methods.phrases.method import Phrases
    from querycloak.methods.queries.method import Queries
    from querycloak.methods.query_pool.method import QueryPool
    from querycloak.methods.semantic.method import Semantic
    from querycloak.methods.sessions.method import Sessions
    from querycloak.methods.synthetic.method import Synthetic
    from querycloak.pages.signing_report import report
    from querycloak.privacy.guarantee import Guarantee
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.releases.release import Release
    from querycloak.synthetic.log_writer import synthesize

# Loaded when first used: `querycloak --help` must not wait for an engine.
_HOMES = {
    "Affinity": "querycloak.methods.affinity.method",
    "Choices": "querycloak.logs.choices",
    "Clicks": "querycloak.methods.clicks.method",
    "EuRecords": "querycloak.methods.eu_records.method",
    "Generalize": "querycloak.methods.generalize.method",
    "Guarantee": "querycloak.privacy.guarantee",
    "KAnonymity": "querycloak.methods.k_anonymity.method",
    "Ledger": "querycloak.privacy.ledger.ledger",
    "Optimal": "querycloak.methods.optimal.method",
    "Profile": "querycloak.logs.profile",
    "Phrases": "querycloak.methods.phrases.method",
    "Queries": "querycloak.methods.queries.method",
    "QueryPool": "querycloak.methods.query_pool.method",
    "Release": "querycloak.releases.release",
    "SearchLog": "querycloak.logs.searchlog",
    "Sessions": "querycloak.methods.sessions.method",
    "Semantic": "querycloak.methods.semantic.method",
    "Synthetic": "querycloak.methods.synthetic.method",
    "audit_method": "querycloak.audits.guarantees.method_audit",
    "audit_release": "querycloak.audits.release_audit",
    "compare": "querycloak.comparison.comparison",
    "connect": "querycloak.engines",
    "describe": "querycloak.evaluation.description",
    "diff": "querycloak.evaluation.release_diff",
    "export": "querycloak.exports.export",
    "evaluate": "querycloak.evaluation.evaluation",
    "Verified": "querycloak.methods.evidence",
    "load": "querycloak.methods.evidence",
    "verify": "querycloak.methods.evidence",
    "find_leaks": "querycloak.audits.attacks.folder_leaks",
    "measures": "querycloak.evaluation.task",
    "profile": "querycloak.logs.profile",
    "read": "querycloak.logs.searchlog",
    "report": "querycloak.pages.signing_report",
    "split": "querycloak.evaluation.split_folder",
    "synthesize": "querycloak.synthetic.log_writer",
}

__all__ = [
    "Affinity",
    "Choices",
    "Clicks",
    "EuRecords",
    "Generalize",
    "Guarantee",
    "KAnonymity",
    "Ledger",
    "Optimal",
    "Phrases",
    "Profile",
    "Queries",
    "QueryPool",
    "Release",
    "SearchLog",
    "Semantic",
    "Sessions",
    "Synthetic",
    "Verified",
    "audit_method",
    "audit_release",
    "compare",
    "connect",
    "describe",
    "diff",
    "evaluate",
    "export",
    "find_leaks",
    "load",
    "measures",
    "profile",
    "read",
    "report",
    "split",
    "synthesize",
    "verify",
]


def __getattr__(name: str) -> object:
    return _loaded(__name__, name, _HOMES, __all__)


def __dir__() -> list[str]:
    return list(__all__)
