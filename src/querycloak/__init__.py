"""Release a search log that people can use, with a privacy guarantee that holds."""
