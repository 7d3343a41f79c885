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

# build_release: builds the binary that is released, and lists what it is made of in target/image and in the binary.
build_release() {
  echo "== building the release binary (2 s; first time 10 minutes)"
  cargo build --locked --release --package outrigger
  local program
  program=$(find "${CARGO_TARGET_DIR:-target}"/*/release -maxdepth 1 -name outrigger)
  cargo run --locked --quiet --package outrigger-testbed --bin testbed -- sbom target/image
  # Not loaded at run time. The section has the name and format of cargo-auditable, which scanners of images read.
  objcopy --remove-section .dep-v0 --add-section .dep-v0=target/image/outrigger.dep-v0 "$program"
}

# run_tests ARGS...: cargo test ARGS, and fails if no test ran: a renamed test must not turn a suite into a no-op.
run_tests() {
  local log
  log=$(mktemp --suffix=.tests.log)
  cargo test --locked "$@" 2>&1 | tee "$log"
  local passed
  passed=$(awk '/^test result: /{ passed += $4 } END { print passed + 0 }' "$log")
  rm -f "$log"
  [ "$passed" -gt 0 ] || {
    echo "no test ran: does the name filter in this script still match? (cargo test --locked $*)" >&2
    return 1
  }
}
