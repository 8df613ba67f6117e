# Two commands, each of which does all of its own set-up (CONTRIBUTING.md says what that is):
#
#   make demo    the main job, step by step: a command is sent, asks, is answered, completes
#   make test    all tests; ARGS="tests/hitl -k answer" runs some
#
# And those that CI leaves out, because they take minutes or install what nothing else needs:
#
#   make bench         how fast, beside pexpect, uvicorn and the public A2A SDK; ARGS="asking --scale 0.2" tries one
#   make profile       where a daemon's time goes meanwhile; ARGS="sending" for one case (root, by py-spy)
#   make rounds        a daemon or its spawner is killed at a random moment, 200 times; ARGS="--seed 7" repeats one
#   make cockpit-rounds  a cockpit or its host is killed at a random moment, 200 times, while missions ask and are answered
#   make soak          200 talking programs, 50 listeners: does the daemon grow, or lose anything?
#   make test-sdk03    the last 0.3 release of the public A2A SDK does every call
#   make test-tck      the public A2A kit finds nothing wrong; SANDBOXD_TCK and SANDBOXD_TCK03 name checkouts of it

# And one that needs root, which all others do without; it is part of CI:
#
#   make test-systemd  sandboxd as a service of a real systemd: sockets, watchdog, reload, courier, stop

.PHONY: help demo test bench profile rounds cockpit-rounds soak test-sdk03 test-tck test-systemd check
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo:
	@scripts/demo

test:
	@scripts/test $(ARGS)

bench:
	@scripts/bench $(ARGS)

profile:
	@scripts/bench --profile $(ARGS)

rounds:
	@scripts/rounds $(ARGS)

cockpit-rounds:
	@scripts/cockpit-rounds $(ARGS)

test-sdk03:
	@scripts/test-sdk03 $(ARGS)

test-tck:
	@scripts/test-tck $(ARGS)

soak:
	@scripts/soak $(ARGS)

test-systemd:
	@scripts/test-systemd $(ARGS)

# What CI runs: formatting, lint, types, imports, the tests, the wheel.
check:
	@.ci/run
