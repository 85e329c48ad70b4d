"""Other packages' call forms, for code that is to run unchanged but for one import."""
