"""Ledgers: the committed record of what a step launched, and how it is kept."""
