"""Who is paid how much for which session, and paying through the platforms."""
