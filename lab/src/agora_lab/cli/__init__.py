"""The lab's commands: `agora lab`, `label` and `train`."""
