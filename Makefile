# Two commands are enough: make demo, make test. Both install what they need (Debian packages, and kube-apiserver built once
# from Debian's source package), say what they do, and can be run again.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help packages tools build test demo bench crds

# For the demo: CLUSTER=current, KEEP=1.
export CLUSTER KEEP

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

packages: ## Install the Debian packages that builds, tests and demo need
	@tests/tools/apt-packages.sh

tools: packages ## Install the packages, and find kube-apiserver or build it (6 minutes, once)
	@folder="$$(tests/tools/control-plane.sh)"; echo "kube-apiserver and kube-controller-manager: $$folder" >&2

build: packages ## Build all programs
	cargo build --workspace --bins

test: tools ## Check formatting and lints, then run every test against real servers
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo build --workspace --bins
	RUST_TEST_THREADS=8 cargo test --workspace # most tests wait for something: garbage collection, retries

demo: $(if $(filter current,$(CLUSTER)),packages,tools) ## Install, upgrade and remove bundles and a package, and show it (CLUSTER=current, KEEP=1)
	@echo "building the programs" >&2
	@cargo build -p rukpak-controller -p rukpak-webhook -p rukpak-tests $(foreach \
	  program,rukpak-controller rukpak-platform rukpak-webhook rukpak-plane demo,--bin $(program))
	@cargo run --quiet -p rukpak-tests --bin demo

bench: tools ## Measure speed and memory against a bare client, with optimised programs
	cargo build --workspace --bins --release
	cargo run --quiet --release -p rukpak-tests --bin bench

crds: packages ## Generate the CRDs from the types, and render the manifests (needs kubectl or kustomize)
	cargo run --quiet -p rukpak-crds --bin crdgen -- crds/generated
	cp crds/generated/core.rukpak.io_*.yaml manifests/base/crds/
	cp crds/generated/platform.openshift.io_*.yaml manifests/base/platform/crds/
	manifests/render.sh
