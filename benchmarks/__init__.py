"""Measurements that anyone can run; each prints its figures and can write them to a file."""
