"""Files: private and locked folders, writing whole or not at all, resumable steps, bounded JSON, TOML and YAML."""
