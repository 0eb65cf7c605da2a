"""Views of tasks and attacks in a comparison: the measure or setting that represents each, and its words.

They are chosen here and not by what came out: the largest of many would be a matter of luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TaskView(NamedTuple):
    """View of a task: its measure, and the conversion of the value to a share of the log's value.

    share: `of-original`, the value divided by the original's; `itself`; or `loss`, one minus the value.
    """

    title: str
    noun: str
    words: str
    measure: str
    slices: tuple[str | None, ...]
    share: str


TASK_VIEWS: Mapping[str, TaskView] = {
    "completion": TaskView(
        "Completion", "query completion", "completing what somebody types", "Success@10", (None,), "of-original",
    ),
    "language": TaskView(
        "Language", "what can be spelled", "spelling what people ask", "expressible", (None,), "of-original",
    ),
    "suggestion": TaskView(
        "Suggestion", "query suggestion", "suggesting the next query", "R@5", (None,), "of-original",
    ),
    "retrieval-walk": TaskView(
        "Search, by a walk", "search by a walk over clicks", "finding results by clicks", "nDCG@10", (None,),
        "of-original",
    ),
    "retrieval-feedback": TaskView(
        "Search, by feedback", "search by feedback", "ordering results by feedback", "nDCG@10", (None,), "of-original",
    ),
    "ranking": TaskView(
        "Order of results", "the order of results", "ordering a query's results", "tau-b", (None,), "of-original",
    ),
    "counts": TaskView(
        "Volume", "the volume", "keeping the volume of searches", "volume_share",
        ("table=queries", "table=clicks", "table=sessions", "table=transitions"), "itself",
    ),
    "pairs": TaskView(
        "Frequent pairs", "frequent pairs", "keeping frequent pairs", "recall", ("support=0.0005",), "itself",
    ),
    "profiles": TaskView(
        "Interests", "interests", "keeping what people are interested in", "pooled_loss_on_topics", ("topics=19",),
        "loss",
    ),
    "loss": TaskView("Words", "words", "keeping the words that were typed", "ncp", (None,), "loss"),
}  # fmt: skip
JUDGED = ("completion", "suggestion", "retrieval-walk", "retrieval-feedback", "ranking")
"""Tasks that other people's searches judge; one of them stands for all in the picture of the trade-off."""


class AttackView(NamedTuple):
    """View of an attack: the beginning of its setting; being: harm and attacker; how: the procedure."""

    title: str
    setting: str
    being: str
    how: str


ATTACK_VIEWS: Mapping[str, AttackView] = {
    "singling-out": AttackView(
        "Singling out", "m=5 random released", "being singled out by somebody who knows five of one's searches",
        "Somebody knows five searches of a person. Of those that the release holds, exactly one name has them all.",
    ),
    "linkage-records": AttackView(
        "Linking records", "50 users, recall 0.85",
        "having one's records linked by somebody who learnt from other people's",
        "Names are taken off. A model that has learnt from other people says which records are of one person.",
    ),
    "known-visit": AttackView(
        "Known visit", "m=2", "having a visit found by somebody who knows two of its searches and its day",
        "Somebody knows two searches of one visit, and the day. Exactly one name has both on that day.",
    ),
    "linkage-sessions": AttackView(
        "Linking sessions", "50 users, recall 0.5",
        "having one's sessions linked by somebody who learnt from other people's",
        "Sessions have ids of their own. A model that has learnt from other people says which are of one person.",
    ),
    "linkage-periods": AttackView(
        "Linking periods", "top 1 ", "being found again by somebody who has a log of another period",
        "Somebody has a log of the same people from another time and looks for each of them here.",
    ),
    "inference": AttackView(
        "Inference", "m=5 disease", "having an interest in diseases guessed by somebody who knows five other searches",
        "Somebody knows five searches of a person, none about a disease, and guesses whether there are such searches.",
    ),
    "membership": AttackView(
        "Membership", "area under the curve", "being found in the log by somebody who knows everybody else's rows",
        "Somebody knows everybody else's rows, the method and its bounds, and asks whether a person is in the log.",
    ),
    "secrets": AttackView(
        "Secrets", "all kinds", "having a secret read word for word by anybody",
        "Names, numbers and rare diseases that were planted: which of them stand in the release as they were typed?",
    ),
    "regurgitation": AttackView(
        "Regurgitation", "completed, all kinds", "having a secret completed by a model that learnt from the release",
        "A model is made of the release and given the first half of a planted secret: does it complete the secret?",
    ),
    "reconstruction": AttackView(
        "Reconstruction", "any row", "having what one asked about read off by anybody who sees the rows",
        "The rows under a person's name are taken at their word: is it what that person asked about?",
    ),
}  # fmt: skip
"""Attacks on people. Forced-out texts and leaks of a folder concern no single person and are shown apart."""
