# make test is all that is needed: it looks after the servers that the tests want.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

# Every go.mod of the repository; a test fails when one is missing here.
MODULES := . examples/orm guard/blobguard/azbucket guard/blobguard/gcsbucket integration/bench integration/faults

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Packages to test; some of one module: make test PKG=./lock/... MODULES=.
PKG := ./...

.PHONY: setup test fuzz lint fmt tidy bench soak faults modules

setup: ## say which servers the tests need and, on Debian as root, install them
	scripts/setup

test: ## all tests of all modules under the race detector
	scripts/test "$(PKG)" $(MODULES)

fuzz: ## each fuzz target of all modules for a while: make fuzz FUZZTIME=1m
	scripts/fuzz $(MODULES)

lint: ## what CI checks beside the tests
	for m in $(MODULES); do ( cd $$m; echo "lint: $$m"; \
		test -z "$$(gofmt -l . | tee /dev/stderr)"; \
		go vet ./...; \
		$(STATICCHECK) ./...; \
		go mod tidy -diff ); done

fmt:
	gofmt -w .

tidy:
	for m in $(MODULES); do ( cd $$m; go mod tidy ); done

bench: ## benchmarks beside the code, then the comparison with etcd's own mutex: make bench BENCH='-short -dir /dev/shm'
	go test -run '^$$' -bench . -benchmem ./guard/...
	cd integration/bench; go run . $(BENCH)

# How long the last part of the soak takes, five minutes at least: make soak SOAK_FOR=1h
SOAK_FOR ?= 10m

soak: ## the long forms of tests that are short in CI: 15 s of late writers at an S3 server, objects of 1 GiB in little memory, and what 200 sessions leave behind
	scripts/setup
	FENCEDLOCK_SOAK=1 FENCEDLOCK_REQUIRE_SERVERS=1 go test -count=1 -v -timeout 20m -run 'TestStress|TestLargeObjects' ./guard/blobguard/
	go run ./integration/soak -for $(SOAK_FOR)

# How long the fault run takes, and what else it is told: make faults FAULTS_FOR=1h FAULTS='-seed 42 -mode guarded'
FAULTS_FOR ?= 5m

faults: ## processes against a failing etcd and failing storages, and two controls without guards
	scripts/setup
	cd integration/faults; go run . -for $(FAULTS_FOR) $(FAULTS)

modules: ## print the list
	@printf '%s\n' $(MODULES)
