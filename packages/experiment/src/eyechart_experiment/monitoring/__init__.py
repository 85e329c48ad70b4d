"""Watch a running study: the status page and the metrics, both behind a password."""
