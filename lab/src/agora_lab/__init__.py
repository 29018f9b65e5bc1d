"""The lab: where scorers are made and methods compared."""
