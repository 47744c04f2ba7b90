# Targets of the project; `make help` prints them.
GO ?= go
.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the binary ./moldau
	$(GO) build -o moldau ./cmd/moldau

.PHONY: test
test: ## run every unit, model and crash test (what the README names)
	$(GO) test ./...

.PHONY: race
race: ## run the tests under the race detector with assertions on
	$(GO) test -race -tags invariants ./...

.PHONY: vet
vet: ## vet for the platform at hand (a test in internal/arch checks the types on the others)
	$(GO) vet ./...

.PHONY: cross
cross: ## vet and build for every platform, which takes minutes at first
	@for p in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do \
	  echo "$$p"; export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; \
	  $(GO) vet ./... && $(GO) build -o /dev/null ./cmd/moldau || exit 1; done

.PHONY: generate
generate: ## write the generated reference pages under docs/reference
	$(GO) run ./cmd/moldau docs docs/reference

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 20s)
	FUZZTIME=$${FUZZTIME:-20s} ./scripts/fuzz

.PHONY: interop
interop: ## run real Kafka clients and tools against a node (needs Java, Maven, Node, Python)
	./interop/run

.PHONY: bench
bench: ## measure beside Apache Kafka and print the table of docs/benchmarks.md
	./bench/run

.PHONY: long
long: ## run the heavy checks whole and write a dated result file under docs/results
	./scripts/long

.PHONY: ci
ci: ## what continuous integration runs
	./.ci/run
