"""How does the daemon live under a service manager?

`manager` takes what systemd hands over at the start, `notify` says back what goes on, `watchdog` proves that it goes on,
`delegation` makes room for the runs' cgroups. `units` and `install` write the units that this machine's config needs.
"""
