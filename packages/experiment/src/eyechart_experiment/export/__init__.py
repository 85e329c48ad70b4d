"""Export the responses that a study has collected, and report the study's status."""
