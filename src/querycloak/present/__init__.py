"""What people see: the command line, tables, charts. Thin."""
