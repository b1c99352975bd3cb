# Two commands are enough: make demo, make test. Both install what they need (Debian packages, and kube-apiserver built once
# from Debian's source package), say what they do, and can be run again.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help tools test demo bench crds build

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

tools: ## Install the Debian packages and find or build kube-apiserver
	@tests/tools/apt-packages.sh
	@echo "control plane: $$(tests/tools/control-plane.sh)"

build: tools ## Build all programs
	cargo build --workspace --bins

test: tools ## Check formatting and lints, then run every test against real servers
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo build --workspace --bins
	cargo test --workspace

export CLUSTER KEEP

demo: build ## Install, upgrade and remove bundles on a control plane of its own (CLUSTER=current, KEEP=1)
	cargo run --quiet -p rukpak-tests --bin demo

bench: tools ## Measure speed and memory against a bare client, with optimised programs
	cargo build --workspace --bins --release
	cargo run --quiet --release -p rukpak-tests --bin bench

crds: ## Generate crds/generated from the types
	cargo run --quiet -p rukpak-crds --bin crdgen -- crds/generated
