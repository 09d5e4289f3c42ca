"""The rules, one file a library. Each has ``decode(term)``: what a name says, or ``None`` if it is not its own."""
