"""What a study has gathered, as files for other commands and as a status; metrics are not here."""
