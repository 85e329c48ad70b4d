"""Files with which a lab runs a study: services, web server, backups, a checklist."""
