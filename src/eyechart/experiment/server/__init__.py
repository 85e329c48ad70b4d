"""The HTTP server: sessions, trials, responses, and the messages that the pages exchange with it.

The pages themselves are built from `frontend/`; what they get to see is declared in `wire`.
"""
