"""The only code that knows DuckDB or Spark; all other code uses Ibis."""

from querycloak.engines.engine import BatchSource, Engine, connect, engine_of
from querycloak.engines.private_folder import PrivateFolder

__all__ = ["BatchSource", "Engine", "PrivateFolder", "connect", "engine_of"]
