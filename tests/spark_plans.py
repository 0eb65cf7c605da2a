"""What in a plan of Spark's would not scale: rows of everybody brought to one place, or sorted all together."""

from __future__ import annotations

import re

_NODE = re.compile(r"^[ :|+*-]*(\w+)[^(\n]*\((\d+)\)", re.MULTILINE)
_DETAIL = re.compile(r"^\((\d+)\) (\w+)(.*?)(?=^\(\d+\) |\Z)", re.MULTILINE | re.DOTALL)


def flaws(plan: str) -> set[str]:
    """`single place`: all rows in one partition, other than one row of each that is added up there.

    `sorted`: all rows, globally. `window`: one over all rows.
    """
    tree = _NODE.findall(plan.partition("\n\n\n")[0])
    details = {number: text for number, _, text in _DETAIL.findall(plan)}
    below = {tree[at][1]: tree[at + 1] for at in range(len(tree) - 1)}
    found = set()
    for name, number in tree:
        text = details.get(number, "")
        if name == "Exchange" and "SinglePartition" in text and not _adds_up(below.get(number), details):
            found.add("single place")
        if name == "Exchange" and "rangepartitioning" in text:
            found.add("sorted")
        if name == "Window" and _is_over_everything(text):
            found.add("window")
    return found


def _adds_up(node: tuple[str, str] | None, details: dict[str, str]) -> bool:
    """Whether what is brought together is one row of each partition: a sum without keys."""
    if node is None:
        return False
    name, number = node
    return name.endswith("Aggregate") and "\nKeys: []\n" in details.get(number, "")


def _is_over_everything(text: str) -> bool:
    """Its arguments are a list of functions, one of columns that part rows, perhaps one of columns that sort them."""
    arguments = re.search(r"^Arguments: (.*)$", text, re.MULTILINE)
    lists = [] if arguments is None else arguments.group(1).split("], [")[1:]
    return not lists or " ASC " in lists[0] or " DESC " in lists[0]
