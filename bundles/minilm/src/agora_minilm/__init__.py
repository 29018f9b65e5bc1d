"""The files of agora's `embedding` scorer. They are read by agora; nothing here is run."""
