"""One's own logs, and what would have been elided and saved on them."""
