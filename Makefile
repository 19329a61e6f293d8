# Each target installs what it needs first (scripts/setup.sh prints what it installs, and nothing if all is present).
#
#   make demo             run an array: four offloads compared with the same work without them, then kill -9
#   make pods-demo        two arrays serve one volume, and one of them is killed   (ARGS=--keep: leaves them running, to try by hand)
#   make test             run every test: the crates, the simulator, and third-party iSCSI clients
#   make build            build the web console and the programs, in $(BIN)
#   make deb              build the Debian packages ibid and ibid-host, in $(OUT)/debian
#   make tarball          build static programs and pack them with the service's files, in $(OUT)/tarball
#   make install          install the programs and the service's files  (PREFIX=/usr/local, DESTDIR=)
#   make console          build the web console only; a Rust build embeds it
#   make serve            run an array in ./out/array, in the foreground     (DATA=..., ARGS='--write-cache')
#   make bench            measure the engine's budgets, and Ibid beside tgt end to end  (ARGS='--before DIR --profile')
#   make lab              repeat the published experiments, and write a report  (SCALE=paper, ARGS='--target iscsi://...')
#   make lab-pair         the experiments L12 and L13 on two arrays, 4 ms apart  (SCALE=small, REPEAT=1)
#   make reduction        measure data reduction: Debian trees, clones, a database   (ARGS=--slice: seconds)
#   make book             build the pages of docs/ as a book, in $(OUT)/book
#   make lint             check formatting, clippy, and the project's rules
#
# Long campaigns:
#   make ageing           random overwrites of 20 times a full array's capacity, as a curve
#   make deletion         latency of a load while 1 TiB is deleted
#   make cleaning         latency of a load while an array that is 80 % full is cleaned
#   make amplification    bytes written per host byte, on aged volumes, by kind   (GIB=1: a minute; 16 by default)
#   make memory           memory for 32 GiB of unique data with a budget of 256 MiB   (ARGS='--memory 144M 8 16 32')
#   make console-speed    the web console: first page, files, frames while scrolling, an idle page's cost   (ARGS='--idle 20')
#   make cold             4 KiB reads of data that is not in the page cache, beside fio on the same file
#   make hostile          latency, memory and logins beside greedy hosts and 1 024 hostile connections
#   make crash-campaign   100 000 simulated crash histories; resumes after an interruption  (CRASHES=..., SEED=...)
#   make soak             the outside tests at full size (10 GiB copies, a 1 TiB volume, 200 kills)
#   make datastore-soak   64 simulated hosts on one datastore, 10 000 lock operations each; 16 hosts over iSCSI, 5 minutes (SEED=...)
#   make pod-soak         a pod on two arrays under a verifying load: kills, stopped processes, cuts, a lost mediator   (ROUNDS=..., SEED=...)
#   make pod-torture      64 hosts on one datastore through both arrays of a pod, an array killed every 20 s   (SECS=..., SEED=...)
#   make pod-soak-linux   the same with a Linux guest and its multipath as the host, 100 faults   (ROUNDS=..., SEED=...)
#   make pods-model       the pod protocol: large bounds, planted bugs, 200 000 histories (about 30 minutes, 12 GB of memory)
#   make arrays-campaign  histories of two whole arrays in a simulated world   (HISTORIES=100000, SEED=..., ARGS='--inject BUG')
#   make fresh            `make demo` on minimal Debian 12, 13 and Ubuntu 24.04, in chroots   (ARGS='--setup-only debian-13')
#   make fuzz             every fuzz target in turn      (SECS=... for each; needs nightly Rust and cargo-fuzz)

SHELL := /bin/bash
OUT := $(or $(CARGO_TARGET_DIR),target)
# Node is below $(OUT) if the machine has none.
export PATH := $(abspath $(OUT))/node/bin:$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
CONSOLE := array/console/assets/index.html
BIN := $(OUT)/release
# Programs with debug assertions that `cargo test` builds, because packages have tests that run them. `make soak` tests
# those of the release.
TESTED := $(OUT)/debug
DATA ?= out/array
ARGS ?=
CRASHES ?= 100000
HISTORIES ?= 100000
SEED ?= 1
# A slice of the crash campaign in every test run, with seeds derived from the commit and printed.
SLICE ?= 5000
# Faults of `make pod-soak` and `make pod-soak-linux`.
pod-soak: ROUNDS ?= 64
pod-soak-linux: ROUNDS ?= 100
REVISION := $(shell git rev-parse --short=8 HEAD 2>/dev/null || echo 1)
# Recorded in the reports of the lab.
export IBID_REVISION := $(REVISION)
SECS ?= 600
lab-pair: SCALE ?= paper
lab-pair: REPEAT ?= 3
SCALE ?= small
GIB ?= 16
PREFIX ?= /usr/local
DESTDIR ?=
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

.PHONY: demo pods-demo test build deb tarball install console book bench lab reduction amplification ageing deletion cleaning memory cold hostile console-speed lab-pair lint serve soak datastore-soak pod-soak pod-torture pod-soak-linux crash-campaign pods-model arrays-campaign fresh fuzz help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

demo:
	@scripts/setup.sh demo
	cargo build --release --package ibid --package ibid-host
	@scripts/demo.py --bin $(BIN)

pods-demo:
	@scripts/setup.sh demo
	cargo build --release --package ibid --package ibid-host
	@scripts/pods.py --bin $(BIN) $(ARGS)

console: $(CONSOLE)

$(CONSOLE): $(shell find web -path web/node_modules -prune -o -type f -print)
	@scripts/setup.sh console
	cd web && npm run --silent build
	@touch $@

test: $(CONSOLE)
	@scripts/setup.sh test console
	cd web && npm run --silent test
	cargo test --workspace
	$(TESTED)/ibid-sim crash --runs $(SLICE) --seed $$((0x$(REVISION))) --jobs $$(nproc)
	tests/run.py --bin $(TESTED) --out $(OUT)/tests

build: $(CONSOLE)
	@scripts/setup.sh build
	cargo build --release --package ibid --package ibid-host
	@ls -l $(BIN)/ibid $(BIN)/ibid-host

deb: build
	@scripts/setup.sh package
	packaging/pages.sh $(BIN)/ibid target/pages
	@mkdir -p $(OUT)/debian
	$(OUT)/cargo-deb/bin/cargo-deb --no-build --package ibid --output $(OUT)/debian
	$(OUT)/cargo-deb/bin/cargo-deb --no-build --package ibid-host --output $(OUT)/debian

# Linked with the C library, so that the programs run on any Linux of the same processor.
tarball: $(CONSOLE)
	@scripts/setup.sh build
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target $(HOST) --package ibid --package ibid-host
	scripts/tarball.sh $(OUT)/$(HOST)/release $(OUT)/tarball ibid-$(VERSION)-$(HOST)

install: build
	packaging/pages.sh $(BIN)/ibid target/pages
	packaging/install.sh $(BIN) target/pages "$(DESTDIR)" "$(PREFIX)"

bench:
	@scripts/setup.sh bench
	cargo build --release --package ibid --package ibid-host
	cargo bench --package ibid-bench
	scripts/bench.py --bin $(BIN) --out $(OUT)/bench $(ARGS)

reduction:
	@scripts/setup.sh reduction
	cargo build --release --package ibid --package ibid-host
	scripts/reduction.py --bin $(BIN) --out $(OUT)/reduction $(ARGS)

amplification:
	@scripts/setup.sh build
	AMPLIFICATION_GIB=$(GIB) cargo bench --package ibid-bench --bench amplification

ageing deletion cleaning memory cold hostile:
	@scripts/setup.sh bench
	cargo build --release --package ibid --package ibid-host
	scripts/$@.py --bin $(BIN) --out $(OUT)/bench $(ARGS)

console-speed: $(CONSOLE)
	@scripts/setup.sh test console
	cargo build --release --package ibid
	scripts/console_speed.py --bin $(BIN) --out $(OUT)/bench $(ARGS)

lab:
	@scripts/setup.sh build
	cargo build --release --package ibid --package ibid-host
	$(BIN)/ibid-host lab run all --scale $(SCALE) --out $(OUT)/lab $(ARGS)

# L12 and L13 at the published sizes: two arrays, 4 ms apart, and a mediator.
lab-pair:
	@scripts/setup.sh build
	cargo build --release --package ibid --package ibid-host
	$(BIN)/ibid-host lab run L12 L13 --scale $(SCALE) --repeat $(REPEAT) --out $(OUT)/lab-pair $(ARGS)

book:
	@scripts/setup.sh book
	scripts/book.py --mdbook $(OUT)/mdbook/bin/mdbook --out $(OUT)/book

lint:
	@scripts/setup.sh lint console
	cargo fmt --all --check
	$(OUT)/ruff/bin/ruff check scripts tests
	$(OUT)/ruff/bin/ruff format --check scripts tests
	cd web && npm run --silent lint
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy
	@if command -v cargo-deny >/dev/null; then cargo deny --offline check licenses bans sources; fi

serve: $(CONSOLE)
	@scripts/setup.sh build
	cargo build --release --package ibid
	@mkdir -p $(DATA)
	$(BIN)/ibid serve --data $(DATA) $(ARGS)

soak:
	@scripts/setup.sh test
	cargo build --release --package ibid --package ibid-host
	tests/run.py --bin $(BIN) --out $(OUT)/tests --full

crash-campaign:
	@scripts/setup.sh build
	cargo build --release --package ibid-sim
	$(BIN)/ibid-sim crash --runs $(CRASHES) --seed $(SEED) --jobs $$(nproc) --progress $(OUT)/crash-campaign-$(REVISION)
	$(BIN)/ibid-sim exhaustive --jobs $$(nproc)
	$(BIN)/ibid-sim streams --runs 10000 --seed $(SEED) --jobs $$(nproc)

datastore-soak:
	@scripts/setup.sh test
	cargo build --release --package ibid --package ibid-host --package ibid-sim
	$(BIN)/ibid-sim datastore --hosts 64 --operations 10000 --seed $(or $(SEED),1)
	$(BIN)/ibid-sim datastore --hosts 16 --operations 1000 --seed $(or $(SEED),1) --no-ats --fault-interval 4000
	tests/run.py datastore --bin $(BIN) --out $(OUT)/tests --full

pod-soak:
	@scripts/setup.sh demo
	cargo build --release --package ibid --package ibid-host
	scripts/pod_soak.py --bin $(BIN) --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

pod-torture:
	@scripts/setup.sh demo
	cargo build --release --package ibid --package ibid-host
	scripts/pod_torture.py --bin $(BIN) --secs $(SECS) --seed $(SEED) $(ARGS)

pod-soak-linux:
	@scripts/setup.sh test
	cargo build --release --package ibid --package ibid-host
	scripts/pod_soak_linux.py --bin $(BIN) --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

pods-model:
	@scripts/setup.sh build
	cargo build --release --package ibid-pods-model
	$(BIN)/pods-model campaign

arrays-campaign:
	@scripts/setup.sh build
	cargo build --release --package ibid-arrays-sim
	$(BIN)/arrays-sim run --histories $(HISTORIES) --seed $(SEED) --jobs $$(nproc) $(ARGS)

fresh:
	@scripts/setup.sh fresh
	$(if $(filter 0,$(shell id -u)),,sudo) scripts/fresh.py --out $(OUT)/fresh $(ARGS)

fuzz:
	@scripts/setup.sh build
	@for t in $$(cargo +nightly fuzz list); do cargo +nightly fuzz run $$t -- -max_total_time=$(SECS) || exit 1; done
