# Two commands are enough: make demo, make test. Both install what they need (packages on Debian and Ubuntu, and a control plane
# of Kubernetes built once from Go modules), say what they do, and can be run again.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help packages tools build core check lint test soak reproductions conformance demo bench flames crds docs image manifests node-test node-check fuzz mutants mutants-all

# For the demo: CLUSTER=current, KEEP=1.
export CLUSTER KEEP

# The last run of make bench that was kept.
figures := tests/kept/figures.json

# Programs are built with --workspace and started as files: with -p, and so with `cargo run -p`, cargo chooses features for that
# package alone, and compiles hundreds of crates a second time.
programs := $(or $(CARGO_TARGET_DIR),target)

# What knows packages of OLM and their catalogs, and what is built on that.
packageless := $(addprefix --exclude=,rukpak-catalog rukpak-resolver rukpak-platform rukpakctl rukpak-docs rukpak-fuzz rukpak-tests)

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

packages: ## Install the packages that builds, tests and demo need (Debian, Ubuntu)
	@tests/tools/apt-packages.sh

tools: packages ## Find the programs of the control plane, or build them (4 to 10 minutes, once)
	@folder="$$(tests/tools/control-plane.sh)"; echo "the control plane: $$folder" >&2

build: packages ## Build all programs
	cargo build --workspace --bins

core: packages ## Build and test the provisioner and the webhook alone, without what knows packages of OLM
	cargo build --workspace $(packageless) --bins
	cargo test --workspace $(packageless)

check: packages ## Check formatting and run what needs neither a cluster nor root: unit tests, goldens, scenarios, the rules of the repository
	cargo fmt --all --check
	@cargo build --workspace --bins
	@$(programs)/debug/run-tests --no-cluster

lint: packages ## Check lints, licences, bans and sources (ADVISORIES=1 also known defects, whose database is fetched)
	tests/tools/cargo-deny.sh
	tests/tools/clippy.sh

test: packages ## Run every test against real servers (KUBERNETES=oldest or 1.33; SUITES="engine store::faults" for some of them)
	@tests/tools/build.sh --bins
	@RUST_TEST_THREADS=10 $(programs)/debug/run-tests $(SUITES) # of each program; most tests wait for something

soak: tools ## Kill and disturb the controller at every write of every operation, search every small story, and run what takes long (more than an hour)
	cargo build --workspace --bins
	SWEEP=all cargo test --workspace --test suites sweep::
	RUKPAK_PAIRS=1 cargo test --workspace --test simulation -- --nocapture --test-threads=1
	RUKPAK_SEED=$$(date +%s) RUKPAK_SIMULATION=10000 cargo test --workspace --test simulation random -- --nocapture
	RUKPAK_SEED=$$(date +%s)000 RUKPAK_REQUESTS=100000 cargo test --workspace --test suites harness::conformance
	cargo test --workspace --test suites -- --ignored --nocapture --skip engine::overload
	cargo test --workspace --test suites engine::overload -- --ignored --nocapture # takes all CPU time, so alone

reproductions: packages ## Run the tests of what must not happen again, those of tests/reproductions.md (2 minutes)
	@$(MAKE) --no-print-directory test SUITES="$$(grep -o '`[a-z_0-9]*\(::[a-z_0-9]*\)\+`' tests/reproductions.md | tr -d '`' | sort -u | xargs)"

conformance: ## Run every test on the newest and on the oldest Kubernetes, and write the table of docs/conformance.md
	@for version in newest oldest; do $(MAKE) --no-print-directory test KUBERNETES=$$version || true; done
	@$(programs)/debug/run-tests --conformance

demo: packages ## Install, upgrade and remove bundles and a package, and show it (CLUSTER=current, KEEP=1)
	@$(if $(filter current,$(CLUSTER)),cargo build --workspace,tests/tools/build.sh) $(addprefix --bin=,rukpak-controller rukpak-platform rukpak-webhook rukpak-plane demo)
	@$(if $(filter current,$(CLUSTER)),KUBECTL=$${KUBECTL:-kubectl}) $(programs)/debug/demo

bench: tools ## Measure speed and memory against a bare client, the kept run and published figures, with optimised programs (KEEP=1 keeps this run)
	cargo build --workspace --bins --release
	$(programs)/release/bench --baseline $(figures) $(if $(KEEP),--keep $(figures))

flames: tools ## Draw flame graphs of the controller, and profile the API server: many installations, a large one, a restart (into target/flame)
	@tests/tools/flame.sh

crds: packages ## Generate the CRDs from the types, and render the manifests (needs kubectl or kustomize)
	cargo build --workspace --bin=crdgen
	$(programs)/debug/crdgen crds/generated
	cp crds/generated/core.rukpak.io_*.yaml manifests/base/crds/
	cp crds/generated/platform.openshift.io_*.yaml manifests/base/platform/crds/
	cp crds/generated/olm.operatorframework.io_*.yaml manifests/base/olm/crds/
	cp crds/generated/operators.coreos.com_*.yaml manifests/base/olmv0/crds/
	manifests/render.sh

docs: packages ## Write docs/api.md and docs/flags.md, and draw the pictures
	cargo build --workspace --bin=docgen
	$(programs)/debug/docgen docs
	docs/pictures/draw.sh

# A folder of its own: no path of this machine is in these programs, and flags for that would have cargo compile everything
# again for whoever builds target/release without them.
image: packages ## Build the image into target/image: OCI layout, archive, SBOM (IMAGE_NAME=registry.example.com/rukpak:TAG)
	RUSTFLAGS="$${RUSTFLAGS:-} --remap-path-prefix=$(CURDIR)=/rukpak --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=/cargo" \
	CFLAGS="$${CFLAGS:-} -ffile-prefix-map=$(CURDIR)=/rukpak -ffile-prefix-map=$${CARGO_HOME:-$$HOME/.cargo}=/cargo" \
	  cargo build --workspace --release --locked --target-dir target/image/build $(addprefix --bin=,rukpak-controller rukpak-platform rukpak-webhook)
	@manifests/image/build.sh target/image/build/release target/image $(IMAGE_NAME)
	@echo "next       make manifests IMAGE=$$(cat target/image/reference)" >&2

manifests: ## Copy the rendered manifests to target/manifests with an image (IMAGE=registry.example.com/rukpak@sha256:..., else that of make image)
	@manifests/with-image.sh "$(or $(IMAGE),$(shell cat target/image/reference 2>/dev/null))" target/manifests

node-check:
	@tests/tools/node.sh --check

node-test: node-check image ## Run image and manifests on a real node: containerd, kubelet, kube-proxy (root; exit code 77 where that cannot be; BEFORE=COMMIT to upgrade from)
	cargo build --workspace $(addprefix --bin=,node-test rukpak-plane rukpakctl)
	@manifests/with-image.sh "$$(cat target/image/reference)" target/manifests
	@tests/tools/image-before.sh target/before $(BEFORE)
	tests/tools/node.sh target/image target/manifests target/before

fuzz: packages ## Fuzz the readers of what strangers write (SECONDS=60 for each, TARGET=yaml for one)
	@tests/tools/fuzz.sh "$(or $(SECONDS),60)" $(TARGET)

mutants: ## Seed the defects of tests/mutants, one at a time: each has a test that has to fail (SUITES=1: also with a cluster)
	@tests/tools/mutants.sh

mutants-all: ## Have cargo-mutants change every function of the pure crates, or of FILE="provisioners/plan/src/put.rs" (hours; SHARD=0/20 a part)
	@tests/tools/cargo-mutants.sh $(FILE)
