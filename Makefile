# Everything that people and CI run. Each target installs what it needs and is missing: as root
# through apt, otherwise it prints the command to type. `make help` lists the targets.

CARGO ?= cargo
# Where `make run` listens.
LISTEN ?= 127.0.0.1:8080
# The versions of PHP to build for, such as 8.2,8.4; tests use the first. A path of a php-config names
# a PHP that is no package. Without it tools/php.sh finds one.
PHP ?=
ifneq ($(PHP),)
export PHP_CONFIG := $(shell tools/php.sh config)
endif
# The program that `make e2e` drives; built first if it is one of ours.
PROFILE ?= release

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET_DIR)/release/howdah
DEBUG := $(TARGET_DIR)/debug/howdah
# Optimised, but not as one piece: built in a third of the time.
QUICK := $(TARGET_DIR)/quick/howdah
export PATH := $(PATH):$(HOME)/.cargo/bin

# To build; to run the demo; to compare with others; to check. X.Y is each version of PHP.
BUILD_PACKAGES := gcc libc6-dev phpX.Y-dev libphpX.Y-embed
DEMO_PACKAGES := phpX.Y-opcache phpX.Y-sqlite3 phpX.Y-mbstring phpX.Y-gd
TEST_PACKAGES := apache2 ca-certificates curl haproxy phpX.Y-cgi phpX.Y-cli phpX.Y-curl phpX.Y-fpm phpX.Y-mysql spawn-fcgi \
	libapache2-mod-phpX.Y nginx nodejs media-types openssl python3 procps \
	redis-server strace
LINT_PACKAGES := g++ shellcheck phpX.Y-cli python3
# For the packages, their tests, the image for containers, and its tests.
DEB_PACKAGES := debhelper git python3
REPOSITORY_PACKAGES := apt-utils gpg gpg-agent gpgv
# To build for arm64 elsewhere, and to run that.
ARM64_PACKAGES := g++-aarch64-linux-gnu gcc-aarch64-linux-gnu mmdebstrap qemu-user-static
TEST_LIMITS_PACKAGES := e2fsprogs mmdebstrap qemu-system-x86
TEST_DEB_PACKAGES := $(DEB_PACKAGES) $(REPOSITORY_PACKAGES) iproute2 lintian mmdebstrap
RPM_PACKAGES := binutils git python3 rpm
TEST_RPM_PACKAGES := $(RPM_PACKAGES) iproute2 mmdebstrap shellcheck
TARBALL_PACKAGES := binutils git python3
OCI_PACKAGES := dpkg-dev mmdebstrap python3 umoci
TEST_OCI_PACKAGES := $(OCI_PACKAGES) crun iproute2 python3-venv runc

.PHONY: help run run-setup build generate quick test test-build test-setup test-packages test-rust test-php test-tools test-demo test-differential \
	test-fastcgi test-cache test-trixie lint e2e bench fuzz mutants deb test-deb test-arm64 test-limits rpm test-rpm tarball test-tarball oci test-oci release clean cargo
.NOTPARALLEL:

help:
	@echo 'make run      build Howdah and serve the site in demo/ on http://$(LISTEN)/'
	@echo 'make quick    formatting, clippy and unit tests, for after a change'
	@echo 'make generate writes the schema, tables and example of the configuration'
	@echo 'make test     all tests but those in a browser'
	@echo 'make test-trixie  those that depend on PHP, in a root of Debian 13 (takes root)'
	@echo 'make lint     formatting, clippy, and the rules of this project'
	@echo 'make e2e      real applications in a real browser, and frameworks in worker mode'
	@echo 'make bench    measures Howdah beside its peers (BENCH=--quick for a look; see docs/benchmarks.md)'
	@echo 'make fuzz     each fuzz target for a short while (FUZZ_SECONDS=60)'
	@echo 'make mutants  mutation tests of one crate (CRATE=wire)'
	@echo 'make build    the optimised programs, in $(TARGET_DIR)/release (PHP=8.2,8.4 for these versions)'
	@echo 'make deb      the Debian packages, in $(TARGET_DIR)/packages (PHP=8.2,8.4 for these versions; ARCH=arm64)'
	@echo 'make rpm      the RPM packages, in the same place; those with PHP run with the PHP of this system'
	@echo 'make tarball  an archive of the server for other systems, with the source of the program that runs PHP'
	@echo 'make oci      the image for containers, from the Debian packages'
	@echo 'make test-limits  limits of sites under systemd, in a virtual machine (takes root)'
	@echo 'make test-deb, make test-oci   tests of both in systems of their own (SUITES="bookworm trixie noble")'
	@echo 'make test-arm64  builds the Debian packages for arm64, and runs them with qemu (takes root)'
	@echo 'make test-rpm, make test-tarball   tests of both in directories of their own (test-rpm takes root for some)'
	@echo 'make release  everything of a release, with checksums, and an apt repository signed with HOWDAH_SIGNING_KEY'
	@echo 'make clean    remove what was built; the data of the demo stays'

run: run-setup
	@tools/build.sh quick
	@tools/run-demo.sh $(QUICK) $(LISTEN)

# Everything at once: whoever has built for minutes is not to hear of more packages then.
run-setup: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(DEMO_PACKAGES)

build: cargo
	@tools/require.sh $(BUILD_PACKAGES)
	@tools/build.sh release

# What a change breaks first. One profile for clippy and one for the tests: both keep what has not changed.
quick: cargo
	@tools/require.sh $(BUILD_PACKAGES)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace -- -D warnings
	$(CARGO) test --locked --workspace --lib --bins --quiet
	tools/lint.py

# The parts of documents that tables generate, which `make lint` checks, and what is made from the tables of the
# configuration's keys, which tests compare.
generate: cargo
	tools/generate.py
	GENERATE=1 $(CARGO) test --locked --quiet -p howdah-config --test keys

# Counted together, with the tests that could not run here.
test:
	@tools/require.sh python3
	@tools/ci.py test-rust test-tools test-demo test-differential test-fastcgi test-cache

# The programs and all tests.
test-build: test-packages
	$(CARGO) test --locked --workspace --no-run

# The programs are built for one test of each: so they have the features that all tests together ask for, and
# `make test` builds them and what they are made of once.
test-setup: test-packages
	$(CARGO) test --locked --workspace --no-run --test kill --test faults

test-packages: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(DEMO_PACKAGES) $(TEST_PACKAGES)

# Most tests wait for processes of theirs half of the time.
test-rust test-php: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test-rust: test-packages
	$(CARGO) test --locked --workspace --no-fail-fast

# The tests that depend on the version of PHP.
test-php: test-packages
	$(CARGO) test --locked --no-fail-fast -p howdah-php -p howdah

# The same with the PHP of Debian 13, in a root of it.
test-trixie: cargo
	@tools/require.sh python3
	tests/in_debian.py trixie tools/ci.py test-php test-demo test-differential

test-tools:
	python3 tests/lint_test.py
	python3 tests/ci_test.py
	python3 tests/peers/test_ports.py
	python3 tests/php_test.py
	python3 tests/in_debian_test.py
	python3 tests/differential/test_differ.py
	python3 tests/tools/test_profile_agreement.py
	python3 tests/cache/suite/test_run.py
	python3 tests/htaccess/test_runner.py
	python3 tests/migration/test_tables.py
	python3 tests/migration/test_apache_rows.py
	python3 tests/migration/test_fpm_rows.py
	python3 tests/e2e/test_compare.py
	python3 tests/published/test_published.py
	python3 bench/test_bench.py
	python3 packaging/test_tools.py
	packaging/test_oci.py

test-demo: test-setup
	tests/demo_test.py --howdah $(DEBUG)
	tests/migration/run --howdah $(DEBUG)
	tests/import/run --howdah $(DEBUG)
	tests/octane_test.py --howdah $(DEBUG)
	tests/hestia_test.py --howdah $(DEBUG)
	tests/published/run --howdah $(DEBUG)

test-differential: test-setup
	tests/differential/run --howdah $(DEBUG)
	tests/htaccess/run --howdah $(DEBUG)

test-fastcgi: test-setup
	tests/fastcgi/run --howdah $(DEBUG)

test-cache: test-setup
	tests/cache/suite/run --howdah $(DEBUG)

# The C side needs PHP's headers to be built, and a lint of it as well.
lint: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(LINT_PACKAGES)
	$(CARGO) fmt --all --check
	@if [ -e fuzz/Cargo.toml ]; then $(CARGO) fmt --manifest-path fuzz/Cargo.toml --all --check; fi
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@if [ -e fuzz/Cargo.toml ]; then $(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET_DIR) --tests -- -D warnings; fi
	tools/lint.py
	@tools/lint.py --list shell | xargs shellcheck
	@tools/lint.py --list php | xargs -n 1 php -l | grep -v '^No syntax errors' | { ! grep .; }
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --locked check bans licenses sources && \
		if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny --locked check --disable-fetch advisories; \
		else echo 'the list of known vulnerabilities cannot be fetched; dependencies are not compared with it'; fi; \
	else echo 'cargo-deny is not installed; licences, bans and vulnerabilities of dependencies are not checked'; fi

e2e: cargo
	@tools/require.sh $(BUILD_PACKAGES)
	@tools/build.sh $(PROFILE)
	tests/e2e/run --howdah $(TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/howdah $(E2E)

# What it needs of the peers it installs itself, because that depends on what it is asked for.
bench: build
	bench/run --howdah $(RELEASE) $(BENCH)

fuzz: cargo
	@tools/require.sh $(BUILD_PACKAGES)
	tools/fuzz.sh

# The mutants that no test noticed are in $(TARGET_DIR)/mutants.out/missed.txt; see .cargo/mutants.toml.
mutants: cargo
	@[ -n '$(CRATE)' ] || { echo 'Name a crate, as in: make mutants CRATE=wire' >&2; exit 1; }
	@$(CARGO) mutants --version >/dev/null 2>&1 || { \
	    echo 'cargo-mutants is missing. Install it: cargo install --locked cargo-mutants' >&2; exit 1; }
	$(CARGO) mutants -p howdah-$(CRATE) --output $(TARGET_DIR) $(MUTANTS)

deb: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(DEB_PACKAGES)
	packaging/deb $(if $(ARCH),--arch $(ARCH))

test-deb: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(TEST_DEB_PACKAGES)
	packaging/test $(SUITES)

test-arm64: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(DEB_PACKAGES) $(ARM64_PACKAGES) iproute2
	packaging/deb --arch arm64 --profile quick --out $(TARGET_DIR)/packages-arm64
	packaging/test_arm64.py --php $(shell tools/php.sh version) --packages $(TARGET_DIR)/packages-arm64

test-limits: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(TEST_LIMITS_PACKAGES)
	@tools/build.sh quick
	packaging/test_limits.py --programs $(TARGET_DIR)/quick --php $(shell tools/php.sh version)

rpm: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(RPM_PACKAGES)
	packaging/rpm

test-rpm: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(TEST_RPM_PACKAGES)
	@tools/build.sh quick
	packaging/test_rpm.py --programs $(TARGET_DIR)/quick

tarball: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(TARBALL_PACKAGES)
	packaging/tarball

test-tarball: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(TARBALL_PACKAGES) shellcheck
	@tools/build.sh quick
	packaging/test_tarball.py --programs $(TARGET_DIR)/quick --build

oci: deb
	@tools/require.sh $(OCI_PACKAGES)
	packaging/oci --php $(shell tools/php.sh version)

test-oci: oci
	@tools/require.sh $(TEST_OCI_PACKAGES)
	packaging/schemas
	HOWDAH=$(TARGET_DIR)/packaging/release/howdah packaging/test_oci.py $(wildcard $(TARGET_DIR)/packages/*.oci.tar)

release: cargo
	@tools/require.sh $(BUILD_PACKAGES) $(DEB_PACKAGES) $(OCI_PACKAGES) $(REPOSITORY_PACKAGES) $(RPM_PACKAGES)
	packaging/release $(if $(SUITES),--suites "$(SUITES)") $(if $(ARCH),--arch $(ARCH))

clean: cargo
	$(CARGO) clean
	rm -rf .build fuzz/target

cargo:
	@command -v $(CARGO) >/dev/null || { \
	    echo 'Rust is missing. Install it as https://rustup.rs says, then try again.' >&2; exit 1; }
