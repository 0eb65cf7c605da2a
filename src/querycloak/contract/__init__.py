"""The rules that every method must keep; you can check them for a method of your own.

    from querycloak import contract

    contract.check(TopQueries(epsilon=2))  # raises CheckFailed, which says what is broken

A test can name the rules one by one, and look at one release with all of them:

    @pytest.fixture(scope="module")
    def trial():
        with contract.Trial(TopQueries(epsilon=2)) as made:
            yield made

    @pytest.mark.parametrize("rule", contract.RULES)
    def test_contract(rule, trial):
        contract.RULES[rule](trial)

Nothing here shows that a guarantee is true: that needs a proof. A method with a tenth of its noise keeps all rules;
`querycloak.audit_method` draws many times and finds it.
"""

from querycloak.contract.killed import killed_after_the_charge
from querycloak.contract.rules import RULES, check
from querycloak.contract.trial import Trial, small_log

__all__ = ["RULES", "Trial", "check", "killed_after_the_charge", "small_log"]
