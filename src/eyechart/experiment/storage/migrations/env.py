"""How Alembic comes to the database: through the engine that eyechart has opened."""

from alembic import context

from eyechart.experiment.storage.database_tables import Base

engine = context.config.attributes["engine"]
is_sqlite = engine.dialect.name == "sqlite"
with engine.connect().execution_options(writes=True) as connection:
    if is_sqlite:
        # SQLite changes a table by making it anew, which empties the old one: rows of other tables
        # that point to it would forbid that. No other user of the engine gets this connection.
        connection.detach()
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        # of SQLite Alembic does not believe it: what fails half done is undone
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
        if is_sqlite and (lost := connection.exec_driver_sql("PRAGMA foreign_key_check").first()):
            raise RuntimeError(f"The migration leaves a row of {lost[0]} that points to nothing.")
