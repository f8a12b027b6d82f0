"""`python -m fedteddi`, for when the command is not on the path."""

from fedteddi.cli import main

main()
