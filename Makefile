# Two commands, each of which does all of its own set-up (CONTRIBUTING.md says what that is):
#
#   make demo    the main job, step by step: a command is sent, asks, is answered, completes
#   make test    all tests; ARGS="tests/hitl -k answer" runs some

.PHONY: help demo test check
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo:
	@scripts/demo

test:
	@scripts/test $(ARGS)

# What CI runs: formatting, lint, types, imports, the tests, the wheel.
check:
	@.ci/run
