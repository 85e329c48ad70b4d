"""Give Alembic the database engine that eyechart has opened."""

from alembic import context

from eyechart_experiment.storage.database_tables import Base

engine = context.config.attributes["engine"]
is_sqlite = engine.dialect.name == "sqlite"
with engine.connect().execution_options(writes=True) as connection:
    if is_sqlite:
        # SQLite alters a table by creating a new one and deleting the old rows, which foreign keys
        # would prevent. The connection is detached, so that no other user of the engine gets it.
        connection.detach()
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        # SQLite has transactional DDL, which Alembic does not assume: a failed migration is rolled
        # back.
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
        if is_sqlite and (lost := connection.exec_driver_sql("PRAGMA foreign_key_check").first()):
            raise RuntimeError(f"The migration leaves a dangling foreign key in table {lost[0]}.")
