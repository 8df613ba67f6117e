# Two commands, each of which does all of its own set-up (CONTRIBUTING.md says what that is):
#
#   make demo    the main job, step by step: a command is sent, asks, is answered, completes
#   make test    all tests; ARGS="tests/hitl -k answer" runs some
#
# And two that CI leaves out, one because it takes a quarter of an hour, one because it installs a package that nothing else needs:
#
#   make rounds        a daemon or its spawner is killed at a random moment, 200 times; ARGS="--seed 7" repeats one
#   make test-sdk03   the last 0.3 release of the public A2A SDK does every call

.PHONY: help demo test rounds test-sdk03 check
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo:
	@scripts/demo

test:
	@scripts/test $(ARGS)

rounds:
	@scripts/rounds $(ARGS)

test-sdk03:
	@scripts/test-sdk03 $(ARGS)

# What CI runs: formatting, lint, types, imports, the tests, the wheel.
check:
	@.ci/run
