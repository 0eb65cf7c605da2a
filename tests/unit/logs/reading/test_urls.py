from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.logs.choices import Choices, KeepUrl
from querycloak.logs.reading.urls import url_texts
from querycloak.text.spans import Spans
from tests.unit.text.columns import spans_of, texts_of

LETTERS = "abcXYZ019.-~%é"
HOST = st.text("abcxyz019.-", min_size=1, max_size=8) | st.just("[2001:db8::1]")
PORT = st.sampled_from(["", ":80", ":8443"])
STEPS = st.lists(st.text(LETTERS + ":@!$&'()*+,=", min_size=1, max_size=5), max_size=3)
PATH = st.tuples(STEPS, st.sampled_from(["", "/"])).map(lambda path: "".join("/" + step for step in path[0]) + path[1])
# After RFC 3986 a login may hold these beside letters; a semicolon, too, which has its own test.
LOGIN = st.text(LETTERS + ":!$&'()*+,=@", max_size=10)
TAIL = st.text(LETTERS + "/:@?#;&=", max_size=10)
SECRET = "S3CRET"


def shortened(urls: Spans, keep: KeepUrl, *, with_scheme_only: bool = False) -> Spans:
    return url_texts(urls, Choices(keep_url=keep, normalise=False), with_scheme_only=with_scheme_only)


def short(url: str | bytes, keep: KeepUrl, *, with_scheme_only: bool = False) -> str:
    url = url if isinstance(url, bytes) else url.encode()
    spans = spans_of([url], between=b"@")
    [result] = texts_of(shortened(spans, keep, with_scheme_only=with_scheme_only))
    assert texts_of(spans) == [url]
    return result.decode()


@st.composite
def addresses(draw: st.DrawFn) -> str:
    login = draw(st.none() | LOGIN)
    query, fragment = draw(st.none() | TAIL), draw(st.none() | TAIL)
    url = draw(st.sampled_from(["http://", "https://", "HTTP://"])) + ("" if login is None else f"{login}@")
    url += draw(HOST) + draw(PORT) + draw(PATH)
    return url + ("" if query is None else f"?{query}") + ("" if fragment is None else f"#{fragment}")


def slow(url: str) -> tuple[str, str]:
    """The address up to its path, and its host, after urllib."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    scheme = url[: url.index("://")]
    return f"{scheme}://{host}{parts.path}".partition(";")[0], host


@given(addresses())
@settings(deadline=None, max_examples=300)
def test_path_and_host_are_those_of_urllib_without_the_login(url: str) -> None:
    path, host = slow(url)
    assert short(url, "path") == path
    assert short(url, "host") == host
    assert short(url, "full") == url


@given(st.lists(addresses() | TAIL, max_size=5), st.sampled_from(["path", "host"]))
@settings(deadline=None)
def test_each_address_is_shortened_by_itself(urls: list[str], keep: KeepUrl) -> None:
    together = texts_of(shortened(spans_of([url.encode() for url in urls]), keep))
    assert [text.decode() for text in together] == [short(url, keep) for url in urls]


@given(st.binary(max_size=20) | addresses().map(str.encode) | TAIL.map(str.encode))
@settings(deadline=None, max_examples=300)
def test_never_longer_than_it_was_and_never_with_what_is_cut(url: bytes) -> None:
    spans = spans_of([url], between=b"/")
    keeps: tuple[KeepUrl, ...] = ("path", "host")
    for keep in keeps:
        [text] = texts_of(shortened(spans, keep))
        assert len(text) <= len(url)
        assert not set(text) & set(b"?#;")


@given(HOST, PORT, PATH, st.sampled_from("?#;"), TAIL, TAIL, st.sampled_from(["path", "host"]))
@settings(deadline=None)
def test_a_secret_behind_the_path_never_survives(
    host: str, port: str, path: str, mark: str, before: str, after: str, keep: KeepUrl
) -> None:
    # Without a path, a semicolon stands in the authority, and what follows an @ there is the host by RFC 3986.
    path = path or "/" * (mark == ";")
    assert SECRET not in short(f"http://{host}{port}{path}{mark}{before}{SECRET}{after}", keep)


@given(LOGIN, LOGIN, HOST, PATH, st.sampled_from(["http://", "https://", ""]), st.sampled_from(["path", "host"]))
@settings(deadline=None)
def test_a_secret_before_the_host_never_survives(
    before: str, after: str, host: str, path: str, scheme: str, keep: KeepUrl
) -> None:
    assert SECRET not in short(f"{scheme}{before}{SECRET}{after}@{host}{path}", keep)


@pytest.mark.parametrize(
    "url",
    [
        f"http://{SECRET};x@host/path",  # a semicolon is a plain character of a login (RFC 3986, 3.2.1)
        f"http://name:{SECRET};x@host/path",
        f"name:{SECRET};x@host/path",
    ],
)
@pytest.mark.parametrize("keep", ["path", "host"])
def test_a_login_with_a_semicolon_never_survives(url: str, keep: KeepUrl) -> None:
    assert SECRET not in short(url, keep)


@pytest.mark.parametrize("keep", ["path", "host"])
def test_a_login_in_an_address_relative_to_its_scheme_never_survives(keep: KeepUrl) -> None:
    assert SECRET not in short(f"//name:{SECRET}@host/path", keep)


@pytest.mark.parametrize("keep", ["path", "host"])
def test_a_login_in_an_address_within_an_address_never_survives(keep: KeepUrl) -> None:
    assert SECRET not in short(f"http://cache/http://name:{SECRET}@host/path", keep)


@pytest.mark.parametrize(
    ("url", "path", "host"),
    [
        ("", "", ""),
        ("http://", "http://", ""),
        ("http://www.google.com", "http://www.google.com", "www.google.com"),
        ("http://h/a;jsessionid=1/b?c#d", "http://h/a", "h"),
        ("http://h?q=http://other/", "http://h", "h"),
        ("http://h#@x", "http://h", "h"),
        ("http://name:pass@h:80/a@b", "http://h:80/a@b", "h:80"),
        ("http://n@m@h/", "http://h/", "h"),
        ("http://@h/", "http://h/", "h"),
        ("https://medium.com/@name/x", "https://medium.com/@name/x", "medium.com"),
        ("ftp://name:pass@h/x", "ftp://h/x", "h"),
        ("www.example.org/a?b", "www.example.org/a", "www.example.org"),
        ("name:pass@h/x", "h/x", "h"),
        ("/a/b?c", "/a/b", ""),
        ("?c", "", ""),
        ("http://中国.cn/天气?q=北京", "http://中国.cn/天气", "中国.cn"),
    ],
)
def test_golden(url: str, path: str, host: str) -> None:
    assert (short(url, "path"), short(url, "host"), short(url, "full")) == (path, host, url)


@pytest.mark.parametrize("keep", ["path", "host"])
def test_with_scheme_only_ids_of_objects_stay_as_they_are(keep: KeepUrl) -> None:
    for name in ("B000;1", "a/b", "a@b", "x?y#z", "http:/x?y", ""):
        assert short(name, keep, with_scheme_only=True) == name
    assert short("http://n@h/p?q", keep, with_scheme_only=True) == short("http://n@h/p?q", keep)
