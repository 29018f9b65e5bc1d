"""What the lab adds to the command line: `agora lab`, `label`, `train` and `scorer`."""
