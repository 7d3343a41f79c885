# Functions shared by the scripts in this directory; sourced, not executed.

# need_tools SCRIPT PACKAGES TOOL...: exits unless all tools are installed.
need_tools() {
  local script=$1 packages=$2 tool
  shift 2
  for tool in "$@"; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || {
      echo "$script: $tool is not installed: run apt-get install --no-install-recommends $packages, then retry" >&2
      exit 1
    }
  done
}

# build_release: builds the binary that is released.
build_release() {
  echo "== building the release binary (2 s; first time 10 minutes)"
  cargo build --release --package outrigger
}

# run_tests ARGS...: cargo test ARGS, and fails if no test ran: a renamed test must not turn a suite into a no-op.
run_tests() {
  local log
  log=$(mktemp --suffix=.tests.log)
  cargo test "$@" 2>&1 | tee "$log"
  local passed
  passed=$(awk '/^test result: /{ passed += $4 } END { print passed + 0 }' "$log")
  rm -f "$log"
  [ "$passed" -gt 0 ] || {
    echo "no test ran: does the name filter in this script still match? (cargo test $*)" >&2
    return 1
  }
}
