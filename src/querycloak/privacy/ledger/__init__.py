"""Spending on each population: the ledger and its journal, campaigns, series, and the payment of a release."""
