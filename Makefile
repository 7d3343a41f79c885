# Every target prints what it does and how long it usually takes. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help demo demo-quick test check image e2e chaos model crash-operator crash-sidecar judge-sidecar conformance-proxy fuzz-proxy bench-operator bench-kms bench-proxy bench-sidecar bench-snapshot link-order clean

# Ends the demo by itself once everything is shown: make demo EXIT=1
EXIT ?=

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## The product on a real cluster: nodes with seid, edited, broken and mended (3 minutes; the first time 25). EXIT=1: ends by itself
	@scripts/prepare
	@scripts/demo $(if $(EXIT),--exit)

demo-quick: ## The same until the operator is up (1 minute). EXIT=1: ends by itself
	@scripts/prepare
	@scripts/demo --quick $(if $(EXIT),--exit)

test: ## Everything that must hold, on a real Kubernetes (23 minutes, and 8 to compile; the first time 15 more)
	@scripts/prepare
	@scripts/test

check: ## The quick loop: format, clippy, unit tests (20 seconds; no root needed)
	@scripts/prepare --rust-only
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	cargo test --workspace --lib --bins --quiet

image: ## The container image that is released, as one file, and what it weighs (15 seconds; the first time 10 minutes)
	@scripts/prepare --rust-only
	@scripts/image

e2e: ## Nodes with real seid in real pods: blocks, TLS, snapshots, who may what, a takeover (4 minutes)
	@scripts/prepare
	@scripts/e2e

chaos: ## Pods, kubelets, containerds, sidecars, operators and the API server die while a node is edited (12 minutes). ROUNDS=N SEED=N
	@scripts/prepare
	@scripts/chaos "$(ROUNDS)" "$(SEED)"

model: ## The decision about nodes, in every order of what can happen (15 minutes). STATES=N: so many per model
	@scripts/model $(STATES)

crash-operator: ## Kill the operator at every point of every workload, and compare the ends (8 minutes)
	@scripts/prepare
	@scripts/crash-operator

crash-sidecar: ## Kill the sidecar before every write of every task, tear its log, fill and break its disk (2 minutes)
	@scripts/prepare
	@scripts/crash-sidecar

judge-sidecar: ## Genesis, keys and settings that we make, judged by real seid: four nodes make blocks together (2 minutes)
	@scripts/prepare
	@scripts/judge-sidecar

conformance-proxy: ## Every scenario of the proxy, also against upstream's if OUTRIGGER_PEER_PROXY names it (6 minutes)
	@scripts/prepare
	@scripts/conformance-proxy

fuzz-proxy: ## Requests that nobody should send, to ours and to upstream's if OUTRIGGER_PEER_PROXY names it (an hour). SECONDS=N
	@scripts/prepare
	@scripts/fuzz-proxy $(SECONDS)

bench-operator: ## What a thousand nodes cost, beside a peer if OUTRIGGER_PEER_OPERATOR names one (five rounds of 5 minutes; with a peer of 10)
	@scripts/prepare
	@scripts/bench-operator

bench-kms: ## What reporters of KMS plugins cost, beside a peer if OUTRIGGER_PEER_REPORTER names one (five rounds of 4 minutes, with a peer of 8, and 10 more)
	@scripts/prepare
	@scripts/bench-kms

bench-proxy: ## What the proxy costs, beside nginx, and beside upstream's if OUTRIGGER_PEER_PROXY names it (five rounds of 2 minutes, with a peer of 4)
	@scripts/prepare
	@scripts/bench-proxy

bench-sidecar: ## What taking tasks costs, beside a peer if OUTRIGGER_PEER_SIDECAR names one (five rounds of 10 seconds; with a peer of 25)
	@scripts/prepare
	@scripts/bench-sidecar

bench-snapshot: ## A snapshot of 5 GB from real S3, killed in the middle, and the memory that it takes (5 minutes, 16 GB of disk). MIB=N
	@scripts/prepare
	@scripts/bench-snapshot $(MIB)

link-order: ## Which functions of the released program run, for its layout in memory (20 minutes); after new compilers and dependencies
	@scripts/prepare
	@scripts/link-order

clean: ## Remove what killed runs left on this machine (a second)
	@cargo run --quiet --package outrigger-testbed --bin testbed -- clean
