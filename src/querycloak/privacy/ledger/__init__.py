"""Spending on each population: the ledger, campaigns, and the payment of a release."""
