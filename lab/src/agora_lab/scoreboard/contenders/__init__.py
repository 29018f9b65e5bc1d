"""The contenders: a file each. docs/evidence/methods.md describes how to add one."""
