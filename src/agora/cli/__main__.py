"""`python -m agora.cli`, where the `agora` script is not on the path."""

from agora.cli import main

if __name__ == "__main__":
    main()
