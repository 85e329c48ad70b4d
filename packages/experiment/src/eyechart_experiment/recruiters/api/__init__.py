"""How requests to the platforms' programming interfaces look, are signed and are sent."""
