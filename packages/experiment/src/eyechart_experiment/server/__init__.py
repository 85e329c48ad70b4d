"""The HTTP server: sessions, trials, responses, and the messages that the pages exchange with it.

The pages themselves are built from `frontend/`; the data that they receive is declared in `wire`.
"""
