"""Errors are values: one sentence for Python and for the command line; text from outside is no part of it."""

from __future__ import annotations

import copy
import pickle
import shlex
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak import errors
from querycloak.cli.error_line import error_line, options
from querycloak.errors import InputError, ParameterError, QuerycloakError
from querycloak.methods import registry
from querycloak.privacy.parameters import natural, number_above_zero, one_of, refuse, share, whole
from querycloak.sentence import Action, Parameter, Sentence, listed
from tests.commands import in_process

# What comes from outside may say anything.
pytestmark = pytest.mark.any_words
SET = Action("Ledger('l').set_limit('a b', E, D)", ("querycloak", "ledger", "set", "a b", "--epsilon", "E"))


@pytest.mark.parametrize(
    ("sentence", "in_python", "typed"),
    [
        (Sentence("{since} must be before {until}"), "since must be before until", "--since must be before --until"),
        (Sentence("say {max_keys_per_user:auto}"), "say max_keys_per_user='auto'", "say --max-keys-per-user auto"),
        (Sentence("say {force:True}"), "say force=True", "say --force"),
        (Sentence("such as {delta:1e-6}"), "such as delta=1e-6", "such as --delta 1e-6"),
        (Sentence("{urls:MY FILE}"), "urls='MY FILE'", "--urls 'MY FILE'"),
        (Sentence("{wait_seconds} is no option"), "wait_seconds is no option", "wait_seconds is no option"),
        (Sentence("{rows:,} rows of {path!r}", rows=1000, path="{x}"), "1,000 rows of '{x}'", "1,000 rows of '{x}'"),
        (Sentence("{{max_keys_per_user}}"), "{max_keys_per_user}", "{max_keys_per_user}"),
        (Sentence("{a}; {b}", a=Sentence("see {keys}"), b="{keys}"), "see keys; {keys}", "see --keys; {keys}"),
        (Sentence("{both}", both=listed(["noise", "delta"], " and ")), "noise and delta", "--noise and --delta"),
        (Sentence("first: {set}", set=SET), f"first: {SET.python}", "first: querycloak ledger set 'a b' --epsilon E"),
    ],
)  # fmt: skip
def test_one_sentence_two_readers(sentence: Sentence, in_python: str, typed: str) -> None:
    error = QuerycloakError(sentence)
    assert (str(error), error_line(error)) == (in_python, typed)


@given(st.text().filter(str.isprintable))
def test_what_comes_from_outside_is_said_as_it_stands(text: str) -> None:
    sentence = Sentence("{value} and {nested}", value=text, nested=Sentence("{value!r}", value=text))
    assert error_line(InputError(sentence)) == str(InputError(sentence)) == f"{text} and {text!r}"
    assert str(InputError(text)) == text


@given(st.lists(st.text(), min_size=1))
def test_a_command_comes_through_a_shell_as_it_was_meant(words: list[str]) -> None:
    assert shlex.split(Action("", tuple(words)).as_typed()) == words


def test_a_bad_parameter_is_told_with_rule_value_and_way_out() -> None:
    with pytest.raises(ParameterError) as caught:
        natural("max_keys_per_user", 0, Sentence("or say {no_clicks:True}"))
    error = caught.value
    assert (error.parameter, error.rule, error.value, str(error.way_out)) == (
        "max_keys_per_user",
        "at least 1",
        0,
        "or say no_clicks=True",
    )
    assert str(error) == "max_keys_per_user must be at least 1, got 0; or say no_clicks=True"
    assert error_line(error) == "--max-keys-per-user must be at least 1, got 0; or say --no-clicks"


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: number_above_zero("noise", None, "give it"), "noise must be given, a finite number above 0; give it"),
        (lambda: share("delta", None, "give one"), "delta must be given, a number above 0 and below 1; give one"),
        (lambda: whole("k", None, "give one", least=2), "k must be given, a whole number; give one"),
        (lambda: one_of("keys", None, ("a", "b")), "keys must be given, one of a, b; choose one of these"),
    ],
)  # fmt: skip
def test_a_value_that_is_missing_must_be_given(check: object, told: str) -> None:
    assert callable(check)
    with pytest.raises(ParameterError) as caught:
        check()
    assert str(caught.value) == told


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_survive_pickling_and_copying(name: str) -> None:
    kind = getattr(errors, name)
    for error in (
        kind(Sentence("{max_keys_per_user} of {path!r}; {set}", path="x", set=SET)),
        kind("plain {text}"),
        kind(),
    ):
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(twin) is kind
            assert (str(twin), error_line(twin), twin.sentence) == (str(error), error_line(error), error.sentence)


@pytest.mark.parametrize("value", [0, 1.5, "x", None, lambda: 0, [object()]])
def test_a_bad_parameter_survives_whatever_its_value(value: object) -> None:
    with pytest.raises(ParameterError) as caught:
        refuse("theta", Sentence("below {delta}"), value, "give less")
    twin = pickle.loads(pickle.dumps(caught.value))
    assert vars(twin) == vars(caught.value)
    assert str(twin) == str(caught.value)


def test_options_are_those_of_all_commands() -> None:
    assert {"--max-keys-per-user", "--rejected", "--ledger", "--users", "--max-neighbours", "--at-delta"} <= options()
    assert Parameter("two_draws").as_option() in options()


def test_a_broken_method_of_another_package_does_not_break_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no.such.module:Method", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **_: [broken])
    options.cache_clear()
    assert (
        error_line(InputError(Sentence("{max_keys_per_user} and {wait_seconds}")))
        == "--max-keys-per-user and wait_seconds"
    )
    done = in_process("guarantee", "clicks", "--min-users", "3")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--min-users does not go with clicks" in done.stderr
    options.cache_clear()
