"""The only code that knows DuckDB or Spark; all other code uses Ibis."""

from querycloak.engines.engine import BatchSource, Engine, connect, engine_of

__all__ = ["BatchSource", "Engine", "connect", "engine_of"]
