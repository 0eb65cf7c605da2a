"""What has been spent on whom: the ledger, campaigns, and how a release is paid for."""
