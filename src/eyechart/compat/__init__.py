"""Call signatures of other packages, for code that should run unchanged except for one import."""
