# Who runs the tests here, and how is something said? Sourced by the other scripts, which set `tree` before.

umask 022 # what is set up here is read by another user

# Where nobody reads any more (a terminal that was closed), nothing is said, and what is under way goes on: it may be a clean-up.
say() { printf '· %s\n' "$*" >&2 || :; }

stop() {
    printf 'cannot %s\n' "$*" >&2
    exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# The user that daemon, tasks and tests run as when root calls. `nobody` has a passwd entry everywhere, so nothing is
# added to the machine for a test.
tester=${SANDBOXD_TESTER:-nobody}

# Becomes a command of the tester's, with nothing of root's left.
exec_as_tester() {
    is_root || exec "$@"
    exec setpriv --reuid="$tester" --regid="$(id -g "$tester")" --init-groups --inh-caps=-all -- "$@"
}

as_tester() { (exec_as_tester "$@"); }
