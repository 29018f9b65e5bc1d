"""One module for each kind of log: `fits` says whether a record is of it, `read` reads the file."""
