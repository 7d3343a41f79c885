# Every target prints what it does and how long it usually takes. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help demo demo-quick test check image e2e chaos partition model crash-operator crash-sidecar judge-sidecar conformance-proxy fuzz-proxy bench-operator bench-kms bench-proxy bench-sidecar bench-snapshot link-order deny clean

# make demo EXIT=1: exit at the end instead of waiting for Ctrl-C
EXIT ?=

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Create, edit, break and repair real nodes on a local cluster (3 min; first run 25). EXIT=1: exit at the end
	@scripts/prepare
	@scripts/demo $(if $(EXIT),--exit)

demo-quick: ## Start the cluster and install the operator only (1 min). EXIT=1: exit at the end
	@scripts/prepare
	@scripts/demo --quick $(if $(EXIT),--exit)

test: ## Run all suites on a real Kubernetes (30 min; first run 50)
	@scripts/prepare
	@scripts/test

check: ## Format, clippy and unit tests; no root needed (20 s)
	@scripts/prepare --rust-only
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- --deny warnings
	cargo test --locked --workspace --lib --bins --quiet

image: ## Write the release image as one file, with an SBOM beside it, and print its size (15 s; first run 10 min)
	@scripts/prepare --rust-only
	@scripts/image

e2e: ## Run nodes with real seid in real pods: blocks, TLS, snapshots, access, adoption (8 min)
	@scripts/prepare
	@scripts/e2e

chaos: ## Kill pods, kubelets, containerd, sidecars, operators and the API server while a node is edited (12 min). ROUNDS=N SEED=N
	@scripts/prepare
	@scripts/chaos "$(ROUNDS)" "$(SEED)"

partition: ## Cut one of four validators off from its chain, and watch five minutes of block production (10 min)
	@scripts/prepare
	@scripts/partition

model: ## Model-check the node decision (20 min). STATES=N: states per model
	@scripts/model $(STATES)

crash-operator: ## Kill the operator at every crash point of every workload and compare the results (8 min)
	@scripts/prepare
	@scripts/crash-operator

crash-sidecar: ## Kill the sidecar before every write, truncate its WAL, fill and break its disk (2 min)
	@scripts/prepare
	@scripts/crash-sidecar

judge-sidecar: ## Verify genesis, keys and configuration that we create with real seid: four nodes produce blocks (2 min)
	@scripts/prepare
	@scripts/judge-sidecar

conformance-proxy: ## Run every proxy scenario; OUTRIGGER_PEER_PROXY=PATH compares with upstream (6 min)
	@scripts/prepare
	@scripts/conformance-proxy

fuzz-proxy: ## Fuzz the proxy; OUTRIGGER_PEER_PROXY=PATH compares with upstream (1 h). SECONDS=N
	@scripts/prepare
	@scripts/fuzz-proxy $(SECONDS)

bench-operator: ## Measure a thousand nodes; OUTRIGGER_PEER_OPERATOR=PATH compares (5 rounds of 5 min; with a peer of 10)
	@scripts/prepare
	@scripts/bench operator

bench-kms: ## Measure KMS reporters; OUTRIGGER_PEER_REPORTER=PATH compares (5 rounds of 4 min, with a peer of 8, and 10 more)
	@scripts/prepare
	@scripts/bench kms

bench-proxy: ## Measure the proxy beside nginx; OUTRIGGER_PEER_PROXY=PATH compares (5 rounds of 2 min; with a peer of 4)
	@scripts/prepare
	@scripts/bench proxy

bench-sidecar: ## Measure task submissions; OUTRIGGER_PEER_SIDECAR=PATH compares (5 rounds of 10 s; with a peer of 25)
	@scripts/prepare
	@scripts/bench sidecar

bench-snapshot: ## Restore 5 GB from real S3, kill it halfway, resume, and print the memory used (5 min, 16 GB of disk). MIB=N
	@scripts/prepare
	@scripts/bench-snapshot $(MIB)

link-order: ## Record which functions run, for the layout of the release binary (20 min); after compiler or dependency updates
	@scripts/prepare
	@scripts/link-order

deny: ## Check licenses, advisories, duplicate versions and banned crates of dependencies (10 s; first run 5 min)
	@scripts/prepare --rust-only
	@scripts/deny

clean: ## Remove the remains of killed runs on this machine (1 s)
	@cargo run --locked --quiet --package outrigger-testbed --bin testbed -- clean
