"""Pages for people: self-contained HTML with inline pictures, no script and no network."""
