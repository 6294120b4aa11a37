"""Data sets: what exists and where from (`catalogue`), how it is had (`fetching`), and how it is read (`readers`)."""
