"""Studies from the command line and as a Prefect flow."""
