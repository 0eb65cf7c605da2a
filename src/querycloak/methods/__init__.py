"""The ways of releasing a log: each a frozen value that declares its guarantee before it reads anything."""
