"""From a log to a page that can be signed, in one go."""
