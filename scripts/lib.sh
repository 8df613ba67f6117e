# Who runs the tests here, and how is something said? Sourced by the other scripts, which set `tree` before.

umask 022 # what is set up here is read by another user

say() { printf '· %s\n' "$*" >&2; }

stop() {
    printf 'cannot %s\n' "$*" >&2
    exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# The user that daemon, tasks and tests run as when root calls. `nobody` has a passwd entry everywhere, so nothing is
# added to the machine for a test.
tester=${SANDBOXD_TESTER:-nobody}

# Runs a command as the tester, with nothing of root's left.
as_tester() {
    if ! is_root; then
        "$@"
    else
        setpriv --reuid="$tester" --regid="$(id -g "$tester")" --init-groups --inh-caps=-all -- "$@"
    fi
}
