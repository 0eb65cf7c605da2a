"""Public lists in files: read block by block, each entry once, and no longer than one array can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import InputError
from querycloak.logs.choices import Choices
from querycloak.methods.keys import public_lists
from querycloak.methods.keys.public_lists import PublicList, queries_of, urls_of

lines = st.lists(st.text(st.sampled_from("ab é\r\t"), max_size=6), min_size=1, max_size=30)


@settings(max_examples=15, deadline=None)
@given(lines, st.integers(1, 40), st.booleans())
def test_blocks_of_any_size_give_the_same_entries(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], block: int, ends: bool
) -> None:
    path = tmp_path_factory.mktemp("list") / "pool"
    path.write_bytes(("a\n" + "\n".join(texts) + "\n" * ends).encode())
    entries = {"a", *(text.strip() for text in texts)} - {""}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public_lists, "_BLOCK", block)
        public = PublicList.of("pool", path)
        assert public.size == len(entries)
        written = queries_of(public, Choices(normalise=False)).to_pylist()
    assert written == sorted(entries, key=str.encode)
    assert set(queries_of(public, Choices()).to_pylist()) == {" ".join(entry.split()) for entry in entries}


def test_urls_are_read_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "urls").write_text("http://b.example/\nhttp://a.example/\n\nhttp://b.example/\n")
    monkeypatch.setattr(public_lists, "_BLOCK", 3)
    urls = urls_of(PublicList.of("urls", tmp_path / "urls"), Choices())
    assert len(urls) == 2
    assert urls.to_pylist() == sorted(urls.to_pylist())


def test_a_list_longer_than_an_array_of_texts_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pool").write_text("abc\n")
    monkeypatch.setattr(public_lists, "MOST_BYTES", 3)
    with pytest.raises(InputError, match=r"the list .* has 4 bytes, at most 3 are read; shorten it"):
        PublicList.of("pool", tmp_path / "pool")
