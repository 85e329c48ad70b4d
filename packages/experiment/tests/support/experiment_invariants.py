"""What must hold in a study's database whatever happened, asked in plain SQL."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import make_url

COUNTING = """(t.state = 'live' OR (t.state = 'responded'
    AND t.session_id NOT IN (SELECT session_id FROM exclusion)))"""

NEVER = {
    "above capacity": f"""
        SELECT s.id, s.capacity, count(*) FROM stimulus s JOIN trial t ON t.stimulus_id = s.id
        WHERE s.capacity IS NOT NULL AND {COUNTING}
        GROUP BY s.id, s.capacity HAVING count(*) > s.capacity""",
    "image twice": """
        SELECT e.participant_id, p.source_id, count(*) FROM trial t
        JOIN session e ON e.id = t.session_id JOIN stimulus_image p ON p.stimulus_id = t.stimulus_id
        GROUP BY e.participant_id, p.source_id HAVING count(*) > 1""",
    "miscounted": f"""
        SELECT s.id, s.taken, count(t.id) FROM stimulus s
        LEFT JOIN trial t ON t.stimulus_id = s.id AND {COUNTING}
        WHERE s.capacity IS NOT NULL
        GROUP BY s.id, s.taken HAVING s.taken <> count(t.id)""",
    "responded without a response": """
        SELECT t.id FROM trial t LEFT JOIN response r ON r.trial_id = t.id
        WHERE t.state = 'responded' AND r.trial_id IS NULL""",
    "a response to a trial without that state": """
        SELECT t.id, t.state FROM response r JOIN trial t ON t.id = r.trial_id
        WHERE t.state <> 'responded'""",
    "shown and not noted": """
        SELECT e.participant_id, p.source_id FROM trial t
        JOIN session e ON e.id = t.session_id JOIN stimulus_image p ON p.stimulus_id = t.stimulus_id
        LEFT JOIN exposure x ON x.participant_id = e.participant_id AND x.source_id = p.source_id
        WHERE x.source_id IS NULL""",
    "more than three out": """
        SELECT session_id, count(*) FROM trial WHERE state = 'live'
        GROUP BY session_id HAVING count(*) > 3""",
}
"""What is wrong: a query that must find nothing."""

PREDICTIONS = """SELECT t.public_id, r.client_uuid, r.choice
    FROM response r JOIN trial t ON t.id = r.trial_id"""

FILLED = """SELECT s.id, s.capacity, (SELECT count(*) FROM trial t
    WHERE t.stimulus_id = s.id AND t.state = 'responded'
    AND t.session_id NOT IN (SELECT session_id FROM exclusion))
    FROM stimulus s WHERE s.role = 'main'"""

Predictions = Mapping[str, Sequence[str]]


def address(url: str) -> dict[str, Any]:
    """Return what the plain driver of PostgreSQL wants to know of a database."""
    parsed = make_url(url)
    return {"host": parsed.query["host"], "user": parsed.username, "dbname": parsed.database}


def rows(url: str, query: str) -> list[Any]:
    """Return what a query gives, without anything of the program's own in between."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        one = sqlite3.connect(str(parsed.database))
        try:
            return one.execute(query).fetchall()
        finally:
            one.close()
    import psycopg

    with psycopg.connect(**address(url)) as connection:
        return connection.execute(query).fetchall()


def violations(url: str, sent: Predictions, acknowledged: Predictions) -> dict[str, list[Any]]:
    """Return what must not be, by what is wrong; nothing if all is well.

    `sent` and `acknowledged`: trial → uuid and choice, as the participants remember them.
    """
    found = {what: rows(url, query) for what, query in NEVER.items()}
    stored = {trial: [uuid, choice] for trial, uuid, choice in rows(url, PREDICTIONS)}
    found["acknowledged and lost"] = [
        trial for trial, said in acknowledged.items() if stored.get(trial) != list(said)
    ]
    found["never sent"] = [
        trial for trial, said in stored.items() if list(sent.get(trial, ())) != said
    ]
    return {what: wrong for what, wrong in found.items() if wrong}
