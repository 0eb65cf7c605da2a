"""Taxonomies: laws against slow oracles, tables and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from querycloak.errors import InputError, ParameterError
from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy
from querycloak.text.taxonomy_table import Row, read_taxonomy, taxonomy_of

SHOP: list[Row] = [
    ("all", ["goods"], []),
    ("food", ["food", "groceries"], ["all"]),
    ("tools", ["tools"], ["all"]),
    ("knives", ["knife", "blade"], ["food", "tools"]),
    ("bread", ["bread knife", "blade"], ["knives"]),
]


@st.composite
def random_rows(draw: st.DrawFn) -> list[Row]:
    """A taxonomy in any row order: every concept but the first has parents among those before it."""
    count = draw(st.integers(1, 12))
    rows: list[Row] = [("0", ["root"], [])]
    for number in range(1, count):
        parents = draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=3))
        labels = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True))
        rows.append((str(number), labels, [str(parent) for parent in sorted(parents)]))
    return draw(st.permutations(rows))


def slow_ancestors(rows: list[Row], identifier: str) -> set[str]:
    parents = {row[0]: row[2] for row in rows}
    return {identifier}.union(*(slow_ancestors(rows, parent) for parent in parents[identifier]))


def slow_depth(rows: list[Row], identifier: str) -> int:
    parents = {row[0]: row[2] for row in rows}
    return max((1 + slow_depth(rows, parent) for parent in parents[identifier]), default=0)


def ids(taxonomy: Taxonomy, concepts: np.ndarray) -> list[str]:
    return [taxonomy.ids[concept] for concept in concepts]


@given(random_rows())
def test_ancestors_descendants_and_depths_are_those_of_the_definition(rows: list[Row]) -> None:
    taxonomy = taxonomy_of(rows)
    above = {row[0]: slow_ancestors(rows, row[0]) for row in rows}
    for number, identifier in enumerate(taxonomy.ids):
        assert sorted(ids(taxonomy, taxonomy.ancestors(number))) == sorted(above[identifier])
        assert set(ids(taxonomy, taxonomy.descendants(number))) == {each for each in above if identifier in above[each]}
        assert taxonomy.depths[number] == slow_depth(rows, identifier)
        assert taxonomy.leaves[number] == (len(taxonomy.descendants(number)) == 1)
        assert taxonomy.under(number).sum() == len(taxonomy.descendants(number))
    assert taxonomy.ids[taxonomy.root] == "0"


@given(random_rows(), st.data())
def test_a_sub_taxonomy_keeps_what_is_below_and_how_it_hangs_together(rows: list[Row], data: st.DataObject) -> None:
    taxonomy = taxonomy_of(rows)
    domain = data.draw(st.sampled_from(range(len(taxonomy))))
    inside = taxonomy.below(domain)
    kept = set(ids(taxonomy, taxonomy.descendants(domain)))
    assert set(inside.ids) == kept
    assert inside.ids[inside.root] == taxonomy.ids[domain]
    number_of = {identifier: number for number, identifier in enumerate(taxonomy.ids)}
    for number, identifier in enumerate(inside.ids):
        outer = number_of[identifier]
        assert set(ids(inside, inside.ancestors(number))) == slow_ancestors(rows, identifier) & kept
        assert inside.concept_labels(number) == taxonomy.concept_labels(outer)
    for label in inside.labels:
        expected = [each for each in ids(taxonomy, taxonomy.concepts(label)) if each in kept]
        assert ids(inside, inside.concepts(label)) == expected


@given(random_rows())
def test_labels_and_senses_are_inverse(rows: list[Row]) -> None:
    taxonomy = taxonomy_of(rows)
    for number, (identifier, labels, _) in enumerate(rows):
        assert taxonomy.ids[number] == identifier
        assert taxonomy.concept_labels(number) == list(labels)
        assert taxonomy.shown(number) == labels[0]
    for label in taxonomy.labels:
        assert [identifier for identifier, labels, _ in rows if label in labels] == ids(
            taxonomy, taxonomy.concepts(label)
        )
    found = taxonomy.labels_under(taxonomy.root)
    assert found == [(label, number, 0) for number, row in enumerate(rows) for label in row[1]]


def test_lists() -> None:
    lists = Lists.of_pairs(np.array([2, 0, 2, 3]), np.array([7, 8, 9, 7]), 5)
    assert [lists[i].tolist() for i in range(5)] == [[8], [], [7, 9], [7], []]
    assert lists.owners().tolist() == [0, 2, 2, 3]
    assert [lists.inverted(10)[i].tolist() for i in (7, 8, 9, 0)] == [[2, 3], [0], [2], []]
    taken = lists.take(np.array([3, 1, 2]))
    assert (taken.starts.tolist(), taken.values.tolist()) == ([0, 1, 1, 3], [7, 7, 9])
    assert len(lists.take(np.array([], np.int64)).values) == 0


# Tables


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "CSV"])
def test_a_table_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"shop.{ending}"
    if ending == "parquet":
        columns = {"id": [r[0] for r in SHOP], "labels": [r[1] for r in SHOP], "parents": [r[2] for r in SHOP]}
        parquet.write_table(pa.table(columns), path)
    else:
        between = "," if ending.lower() == "csv" else "\t"
        lines = [between.join([row[0], "|".join(row[1]), "|".join(row[2])]) for row in SHOP]
        path.write_text("\n".join([between.join(["id", "labels", "parents"]), *lines]) + "\n")
    taxonomy = read_taxonomy(path)
    assert taxonomy.name == "shop"
    assert list(taxonomy.ids) == [row[0] for row in SHOP]
    assert ids(taxonomy, taxonomy.ancestors(4)) == ["all", "food", "tools", "knives", "bread"]
    assert ids(taxonomy, taxonomy.concepts("blade")) == ["knives", "bread"]


def test_numbers_for_ids_and_labels_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,more,labels,parents\n1,x,"Home,  Garden",\n02,y,Spades|SPADES| Shovels ,1\n')
    taxonomy = read_taxonomy(path)
    assert list(taxonomy.ids) == ["1", "02"]
    assert [taxonomy.concept_labels(each) for each in range(2)] == [["home, garden"], ["spades", "shovels"]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the taxonomy has no concepts; give one row"),
        ([("a", ["x"], []), ("", ["y"], ["a"])], "concept 2 of the taxonomy has no id"),
        ([("a", ["x"], []), ("b", ["y"], ["a"]), ("b", ["z"], ["a"])], "ids occur twice in the taxonomy: b; "),
        ([("a", ["x"], []), ("b", ["y"], ["q"])], "names parents that are no concept's id: q; add a row"),
        ([("a", ["x"], []), ("b", ["y"], [])], "has 2 roots: a, b; put one concept above"),
        ([("a", ["x"], ["a"])], "has a cycle, each the parent of the one before: a -> a;"),
        (
            [("r", ["x"], []), ("d", ["x"], ["c"]), ("a", ["x"], ["r", "b"]), ("b", ["x"], ["c"]), ("c", ["x"], ["a"])],
            "a cycle, each the parent of the one before: c -> a -> b -> c;",
        ),
        ([("a", ["x"], []), ("b", [], ["a"])], "concepts without a label, or with an empty one: b;"),
        ([("a", ["x"], []), ("b", ["y", " "], ["a"])], "concepts without a label, or with an empty one: b;"),
        ([(str(i), ["x"], []) for i in range(9)], "has 9 roots: 0, 1, 2, 3, 4 and 4 more;"),
    ],
)
def test_what_is_wrong_with_a_taxonomy_is_said(rows: list[Row], message: str) -> None:
    with pytest.raises(InputError) as error:
        taxonomy_of(rows)
    assert message in str(error.value)


def test_files_that_are_no_taxonomy(tmp_path: Path) -> None:
    for name, content, message in [
        ("a.json", "{}", "a taxonomy is a .csv, .tsv or .parquet file, not 'a.json'"),
        ("a.csv", "id,label,parents\n1,secret,\n", "lacks the column 'labels'; it has id, label, parents"),
        ("b.csv", "id,labels,parents\n1,secret\n", "is no table of id, labels, parents that can be read"),
        ("c.csv", "", "is no table of"),
        ("d.parquet", "secret", "is no table of"),
    ]:
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError) as error:
            read_taxonomy(tmp_path / name)
        assert message in str(error.value)
        assert "secret" not in str(error.value)
    with pytest.raises(InputError, match="there is no taxonomy at"):
        read_taxonomy(tmp_path / "none.csv")


def test_a_concept_that_is_not_there() -> None:
    taxonomy = taxonomy_of(SHOP, name="shop")
    with pytest.raises(ParameterError, match="shop has no concept 'car'; give one of its labels"):
        taxonomy.concept("car")
    with pytest.raises(ParameterError, match="'blade' has senses 1 to 2 in shop, not 3"):
        taxonomy.concept("blade", 3)
