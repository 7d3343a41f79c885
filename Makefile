# Every target prints what it does and how long it usually takes. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help demo test check clean

# Ends the demo by itself once everything is shown: make demo EXIT=1
EXIT ?=

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## A real cluster with pods of our image (15 seconds; the first time 12 minutes). EXIT=1: ends by itself
	@scripts/prepare
	@scripts/demo $(if $(EXIT),--exit)

test: ## Everything that must hold, on a real Kubernetes (6 minutes; the first time 26)
	@scripts/prepare
	@scripts/test

check: ## The quick loop: format, clippy, unit tests (20 seconds; no root needed)
	@scripts/prepare --rust-only
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	cargo test --workspace --lib --bins --quiet

clean: ## Remove what killed runs left on this machine (a second)
	@cargo run --quiet --package outrigger-testbed --bin testbed -- clean
