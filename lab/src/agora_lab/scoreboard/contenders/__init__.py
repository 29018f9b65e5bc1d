"""The contenders: a file each. docs/evidence/methods.md says how to add one."""
