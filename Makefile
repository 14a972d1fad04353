# The two commands to know: `make demo` shows weir at work, `make test` proves it.
# Both install what they need on a Debian machine that has Go, make and root, and
# keep everything that they start below .run/, on ports of their own.

SHELL := /bin/bash

FUZZTIME ?= 30s
KILLS    ?= 10
MYSQL_KILLS ?= 20
WEIR_SEEDS ?= 5000
FIRST_SEED ?= 0
CHAOS_MINUTES ?= 20
CHAOS_RUNS ?= 10

.PHONY: help build check lint unit test demo demo-stop demo-kill interop bench bench-peers bench-report golden fuzz sim model chaos chaos-kill-each chaos-mysql soak clean

help:
	@echo 'make build      bin/weir, one static binary'
	@echo 'make demo       PostgreSQL -> weir -> a bucket and a search index, on real data, compared row by row'
	@echo 'make demo-kill  the same with KILLS=$(KILLS) times SIGKILL at random moments (SEED=N repeats a run)'
	@echo 'make demo-stop  ends what the demo has started'
	@echo 'make test       unit tests with the race detector, scenarios on real services, the demo with two kills'
	@echo 'make check      format, vet, lint, unit tests with the race detector'
	@echo 'make interop    real foreign clients against weir: a table of client and feature'
	@echo 'make bench      figures beside the machine'"'"'s limits and kfake: memory, start, rates, change data capture'
	@echo 'make bench-peers   the same work beside Apache Kafka, Connect and Debezium, under an hour (RESUME=1 goes on;'
	@echo '                   SCENARIO=all adds what takes longer)'
	@echo 'make bench-report  e2e/bench/RESULTS.md from the stored results'
	@echo 'make golden     real peers write the golden test data anew (RECORDER=name picks some)'
	@echo 'make fuzz       every fuzz target for FUZZTIME=$(FUZZTIME)'
	@echo 'make model      spin checks the models of replication and of the write-ahead log, and that each broken rule is found'
	@echo 'make chaos      three brokers in network namespaces, killed, paused and cut off at random for CHAOS_MINUTES=$(CHAOS_MINUTES) (SEED=N)'
	@echo 'make chaos-kill-each   CHAOS_RUNS=$(CHAOS_RUNS) runs in a row of kill -9 of each node in turn'
	@echo 'make sim        whole clusters of brokers under faults, WEIR_SEEDS=$(WEIR_SEEDS) runs from FIRST_SEED=$(FIRST_SEED) on'
	@echo 'make chaos-mysql   sysbench on MySQL and MariaDB with twenty times SIGKILL and DDL between (MYSQL_KILLS=N)'
	@echo 'make soak       what takes too long for make test'

build:
	CGO_ENABLED=0 go build -o bin/weir ./cmd/weir

demo: build
	@e2e/services/install.sh demo
	@e2e/demo/demo.sh run

demo-kill: build
	@e2e/services/install.sh demo
	@KILLS=$(KILLS) e2e/demo/demo.sh run

demo-stop:
	@e2e/demo/demo.sh stop

test:
	@e2e/test.sh

unit:
	@e2e/test.sh unit

check: lint unit

lint:
	@test -z "$$(gofmt -l $$(go list -f '{{.Dir}}' ./...))" || { gofmt -l $$(go list -f '{{.Dir}}' ./...); echo 'run gofmt -w on these'; exit 1; }
	go vet ./...
	go tool -modfile=.ci/lint/go.mod golangci-lint run ./...

# TARGET=cluster tries three nodes that are one cluster, TARGET=kafka Apache Kafka; CLIENTS='kcat sarama' tries these only.
interop: build
	@e2e/services/install.sh demo
	@e2e/interop/interop.sh $(TARGET)

# SCENARIO=name picks one or several, BENCH_SECONDS and BENCH_ROUNDS make runs shorter.
bench: build
	@e2e/services/install.sh demo
	@e2e/bench/bench.sh limits $(SCENARIO)

bench-peers: build
	@e2e/services/install.sh test
	@e2e/bench/bench.sh peers $(SCENARIO)

bench-report:
	@e2e/bench/bench.sh report

# e2e/golden/README.md tells what each recorder writes.
golden:
	@e2e/services/install.sh test
	@e2e/golden/golden.sh $(RECORDER)

# Each target has the machine to itself for FUZZTIME; what it finds is written to
# the package's testdata and belongs into a commit.
fuzz:
	@set -e; for dir in $$(go list -f '{{.Dir}}' ./...); do \
	  for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go 2>/dev/null | sed 's/^func //' | sort -u); do \
	    echo "$$target in $${dir#$(CURDIR)/}"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$dir; \
	  done; \
	done

# core/model has the models; run.sh there tells what is checked.
model:
	@core/model/run.sh

# TARGET=kafka does the same to Apache Kafka.
chaos: build
	@e2e/chaos/chaos.sh random $$(($(CHAOS_MINUTES) * 60))

chaos-kill-each: build
	@e2e/chaos/chaos.sh kill-each $(CHAOS_RUNS)

# Two processes, half of the seeds each; every run is the same again with WEIR_SEED=N go test -run TestCluster ./core/coretest.
sim:
	@mkdir -p .run && go test -c -o .run/coretest.test ./core/coretest
	@cd core/coretest; half=$$((($(WEIR_SEEDS) + 1) / 2)); \
	run() { WEIR_SEED=$$1 WEIR_SEEDS=$$2 nice ../../.run/coretest.test -test.run 'TestCluster$$' -test.v -test.timeout 0 | \
	  grep -v '^=== \|^ *--- PASS: TestCluster/'; return $${PIPESTATUS[0]}; }; \
	run $(FIRST_SEED) $$half & first=$$!; run $$(($(FIRST_SEED) + half)) $$(($(WEIR_SEEDS) - half)); second=$$?; wait $$first && exit $$second

# The rest of the kills in e2e are made by `make test`.
chaos-mysql:
	@WEIR_E2E_KILLS=$(MYSQL_KILLS) e2e/test.sh e2e 'MySQL'

soak: build
	@e2e/services/install.sh test
	@KILLS=60 DEMO_DIR=$$(readlink -f .run)/soak DEMO_PORT=29290 DEMO_RATE=300 e2e/demo/demo.sh run
	@DEMO_DIR=$$(readlink -f .run)/soak DEMO_PORT=29290 e2e/demo/demo.sh stop
	@$(MAKE) chaos-mysql
	@$(MAKE) model
	@$(MAKE) fuzz FUZZTIME=5m

clean:
	rm -rf bin
