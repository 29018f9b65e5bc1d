"""Legal histories written from choices, one module for each format."""
