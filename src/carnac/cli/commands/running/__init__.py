"""The commands of servers and of their work: `serve`, `overlord`, `supervisor`, `task` and `locks`."""
