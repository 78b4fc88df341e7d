# Every target uses the go command. build, run, test and check need Go, git, make and gzip; race also needs a C compiler.
# CONTRIBUTING.md lists what other targets need, and which tests are skipped when. Times are for two cores. The first
# build compiles Kubernetes' packages and takes several minutes; later builds take seconds.

GO      ?= go
KELSON  := bin/kelson
# Modules outside of the workspace that make check vets; vet also fails if a go.sum is out of date.
APART   := cmd/kelson-node cmd/kelson-dns examples/sql-apiserver test/adapter/multicluster release
MODULES := . internal apiserver operator operator/adapter examples bench test/conformance $(APART)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB)
# Without a network: the URL (file:///…) of a folder that cmd/indexdb of golang.org/x/vulndb wrote.
VULNDB      ?= https://vuln.go.dev
# Like upstream's build, the linker sets the version of the linked-in kubectl. The commit stays empty for kubectl and for
# the server, so that their versions match.
STAMP   := k8s.io/component-base/version
KUBERNETES := $(shell sed -nE 's|^\tk8s.io/kubernetes (v[^ ]+).*|\1|p' go.mod)
LDFLAGS := -s -w -X $(STAMP).gitVersion=$(KUBERNETES) -X $(STAMP).gitMajor=1 -X $(STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) \
	-X $(STAMP).gitTreeState=clean -X $(STAMP).gitCommit=
# All targets but race build without cgo, as Kubernetes' releases do: the programs need no libc, are smaller and start
# faster, and Go's own code resolves names of hosts and users. One setting for all targets, because package net, and with
# it nearly every package, is compiled a second time for the other. Operators that make run builds inherit it.
export CGO_ENABLED := 0
# The go command runs git status for each program that it builds. Without locks, that leaves .git as it is: tests that
# list the repository's folder depend on its time, and would run again.
export GIT_OPTIONAL_LOCKS := 0
# In targets that compile much, the compiler, the linker and vet hardly collect garbage, and with few processors each of
# them uses one: together they take a third less processor time and up to 400 MiB more memory each. Only these tools get
# the settings; with -exec, the go command would not keep the results of tests. staticcheck is one process; it takes half
# the time and 900 MiB more.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
FAST       := -toolexec 'env GOGC=1000$(if $(filter 1 2 3 4,$(PROCESSORS)), GOMAXPROCS=1)'
SPARING    := GOGC=400
# More test programs than processors run at once, because they often wait.
ATONCE     := -p $(shell echo $$((2 * $(PROCESSORS))))
# make fuzz searches these folders for fuzz targets and runs each for FUZZTIME.
FUZZ     ?= apiserver kubernetes toolchain operator test cmd
FUZZTIME ?= 30s
TESTED  := ./... ./internal/... ./apiserver/... ./operator/... ./operator/adapter/... ./examples/...
# make test runs the tests with it. .ci/run sets it to "go run ./test/programs rerun", which runs failed programs a
# second time, alone, and reports both results.
TESTER  ?= $(GO) test

# No target is a file.
.PHONY: $(shell sed -nE 's/^([a-z][a-z -]*):.*/\1/p' Makefile)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# kelson envtest writes a small program, which kelson embeds.
DROPIN := cmd/kelson/internal/dropin

# If the program has not changed, neither does its file, and test results stay cached.
envtest-program:
	@mkdir -p bin && program=$(DROPIN)/programs/program-$$($(GO) env GOOS)-$$($(GO) env GOARCH).gz && \
		$(GO) build $(FAST) -buildvcs=false -ldflags '-s -w' -o bin/envtest-program ./$(DROPIN)/program && \
		gzip -9 -n -c bin/envtest-program >bin/envtest-program.gz && \
		{ cmp -s bin/envtest-program.gz $$program || { rm -f $(DROPIN)/programs/program-*; cp bin/envtest-program.gz $$program; }; }

# The go command sets the time of a binary even if it has not changed; then the old time is restored.
build: envtest-program ## build bin/kelson, and bin/kubectl, which is a link to it
	@mkdir -p bin
	@{ $(GO) tool buildid $(KELSON) >bin/kelson.id && touch -r $(KELSON) bin/kelson.id; } 2>/dev/null || true
	$(GO) build $(FAST) -ldflags '$(LDFLAGS)' -o $(KELSON) ./cmd/kelson
	@[ "$$($(GO) tool buildid $(KELSON))" != "$$(cat bin/kelson.id)" ] || touch -r bin/kelson.id $(KELSON)
	@[ bin/kubectl -ef $(KELSON) ] || ln -sf $(notdir $(KELSON)) bin/kubectl

release: envtest-program ## build bin/kelson as released: compiled with a profile, which saves a twelfth of its CPU time; the first build takes six minutes
	@mkdir -p bin
	$(GO) build $(FAST) -pgo=cmd/kelson/release.pgo -ldflags '$(LDFLAGS)' -o $(KELSON) ./cmd/kelson

# make dist PLATFORMS=linux/amd64 builds for one platform. VERSION is by default the commit's tag.
DIST      := bin/dist
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
VERSION   ?=
DISTRIBUTE = bin/release -source . -platforms '$(PLATFORMS)' -version '$(VERSION)' -ldflags '$(LDFLAGS)'

release-program:
	@mkdir -p bin
	cd release && GOWORK=off $(GO) build -o ../bin/release .

dist: release-program ## build a release of the newest commit in bin/dist, for all platforms: ten minutes for each the first time
	$(DISTRIBUTE) -out $(DIST)

dist-check: dist ## build the release again, with an empty build cache; both must be equal, bit for bit
	@cache=$$(mktemp -d) && GOCACHE=$$cache $(DISTRIBUTE) -out $(DIST)-again; built=$$?; rm -rf $$cache; exit $$built
	diff -r $(DIST) $(DIST)-again
	rm -rf $(DIST)-again

# The newest version on the module proxy.
KREW := sigs.k8s.io/krew/cmd/krew@v0.4.3

bin/peers/krew:
	@mkdir -p bin/peers
	cd / && GOBIN=$(CURDIR)/bin/peers GOFLAGS=-mod=mod $(GO) install $(KREW)

krew: build bin/peers/krew ## install the kubectl plugin with Krew, from its manifest; builds Krew first
	KREW=$(abspath bin/peers/krew) $(GO) test -count=1 -v -run Krew ./cmd/kelson

dist-test: bin/peers/krew ## follow the tutorial with the release in bin/dist, run the action, and install with Krew; make dist builds it
	KELSON_RELEASE=$(abspath $(DIST)) $(GO) test -count=1 -v -run 'Release' ./cmd/kelson
	cd release && KREW=$(abspath bin/peers/krew) KELSON_RELEASE=$(abspath $(DIST)) GOWORK=off $(GO) test -count=1 -v .

profile: build ## record the profile for make release again: about two minutes
	rm -rf bin/profiles && mkdir -p bin/profiles
	$(GO) build -o bin/figures ./bench/figures
	bin/figures -kelson $(KELSON) -sides 1 -profiles bin/profiles -merged cmd/kelson/release.pgo

run: build ## run the example operator on its own control plane until an At has run its command and is DONE
	$(KELSON) dev examples/cnat --node=process --until 'at/example-at:{.status.phase}=DONE' --timeout 2m

UNTIL-cronjob          := cronjob.batch.demo.welcome.domain/cronjob-sample:{.status.conditions[?(@.type=="Scheduled")].status}=True
UNTIL-projectconfig    := kube-public/configmap/cluster-name:{.data.name}=here
UNTIL-foobar           := foo/foo-sample:{.status.bars}=3
UNTIL-pizza            := pizza/pizza-sample:{.status.cost}=450
UNTIL-demo             := demo/demo-sample:{.status.phase}=Shown
UNTIL-home             := home/home-sample:{.status.seen}=bar
UNTIL-welcome          := welcome/welcome-sample:{.status.availableReplicas}=2
UNTIL-simpledeployment := simpledeployment/simpledeployment-sample:{.status.readyReplicas}=3

run-cronjob run-demo run-foobar run-home run-pizza run-projectconfig run-welcome run-simpledeployment: run-%: build ## another example, until its sample is in the expected state
	$(KELSON) dev examples/$* --until '$(UNTIL-$*)' --timeout 2m

run-ingress-manager: build ## run the ingress-manager, which uses no framework, until a Service with the annotation ingress/http has its Ingress
	$(KELSON) dev examples/ingress-manager --until 'ingress/web:{.spec.rules[0].host}=web.example.com' --timeout 2m

run-cnat-kube-apiserver: ## cnat's test on kube-apiserver, in which the test acts as the scheduler and the kubelet; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) run ./test/against -- $(GO) test -count=1 -v -run OnAServer ./examples/cnat/...

run-ingress-manager-kube-apiserver: ## the ingress-manager's test on kube-apiserver; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) run ./test/against -- $(GO) test -count=1 -v -run OnAServer ./examples/ingress-manager/...

run-pizza-apiserver: ## run the custom API server of pizzas alone; its log names the kubeconfig
	cd examples/pizza-apiserver && $(GO) run . --standalone

test-sql-apiserver: ## the example over SQLite, which is a separate module outside of the workspace
	cd examples/sql-apiserver && GOWORK=off $(GO) test ./...

test-sql-apiserver-postgres: ## the same example over PostgreSQL, which must be installed (apt-get install postgresql)
	cd examples/sql-apiserver && NEED_POSTGRES=1 GOWORK=off $(GO) test -count=1 -v -run Postgres .

run-pizza-apiserver-kube-apiserver: ## the custom API server of pizzas as an APIService of kube-apiserver; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) run ./test/against -- $(GO) test -count=1 -v -run OnAServer ./examples/pizza-apiserver

scaffold-apiserver-kube-apiserver: build ## a scaffolded custom API server, run by kelson dev --kubeconfig behind kube-apiserver: three minutes after the builds
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	KELSON=$(CURDIR)/$(KELSON) $(GO) run ./test/against -- test/scaffold/apiserver.sh

bench-customserver: ## custom API servers: the library against k8s.io/sample-apiserver, behind one kube-apiserver: about twelve minutes after the builds; writes its part of docs/internals/benchmarks.md
	@mkdir -p bin/peers bin/customserver
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -ldflags '-s -w' -o bin/customserver/ ./bench/customserver/ours ./bench/customserver/sample ./bench/customserver/floor
	$(GO) run ./test/against -- $(GO) run ./bench/customserver -docs docs/internals/benchmarks.md

operator-kube-apiserver: ## the operator library and its adapter on kube-apiserver; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) run ./test/against -- $(GO) test -count=1 -run 'Story|Injected|RolledBack|FieldSelectors|ReconcilerOf' ./operator/... ./operator/adapter/...

test: build ## the tests of all modules but bench and test/conformance; CONTRIBUTING.md lists what is skipped when
	KELSON=$(abspath $(KELSON)) $(TESTER) $(FAST) $(ATONCE) -vet=off -timeout 40m $(TESTED)

# make stress STRESSED='./lab/... ./apiserver/store' RUNS=5 STRESSFLAGS='-short -processors 1'
STRESSED    ?= $(TESTED)
RUNS        ?= 20
STRESSFLAGS ?=

stress: build ## every test program RUNS (20) times with 1, 2 and 8 processors, on a machine that is busy; STRESSED names packages. All of them take hours
	rm -rf bin/stress
	KELSON=$(abspath $(KELSON)) $(GO) run ./test/programs stress -runs $(RUNS) $(STRESSFLAGS) $(STRESSED)

count: ## count the test programs, and those that link packages of k8s.io/kubernetes
	@$(GO) run ./test/programs count $(TESTED)

test-no-fast-paths: ## the suites of the API with all fast paths off (docs/design/fastpaths.md): about two minutes after the builds
	KELSON_NO_FAST_PATHS=1 $(GO) test ./kubernetes/apitest/... ./apiserver/crd/... ./kubernetes/builtin/...

race: build ## make test with the race detector: about twenty minutes
	KELSON=$(abspath $(KELSON)) CGO_ENABLED=1 $(GO) test -race -timeout 40m $(TESTED)

vet-darwin: ## vet the whole program for macOS: compiles Kubernetes for it, as make dist does
	GOOS=darwin GOARCH=arm64 $(GO) vet -trimpath -pgo=$(CURDIR)/cmd/kelson/release.pgo ./cmd/kelson/...

vet-windows: ## vet the whole program for Windows: compiles Kubernetes for it, as make dist does
	GOOS=windows GOARCH=amd64 $(GO) vet -trimpath -pgo=$(CURDIR)/cmd/kelson/release.pgo ./cmd/kelson/...

# The programs in test and bench run only on Linux.
PORTABLE := ./cmd/... ./console/... ./kubernetes/... ./lab/... ./toolchain/... ./internal/... ./apiserver/... ./operator/... ./operator/adapter/... ./examples/...

platforms: ## check that everything but test and bench compiles for macOS and Windows, with its tests: half a minute
	$(GO) run ./test/platforms darwin/arm64,windows/amd64 $(PORTABLE)

# The projects of this repository.
GENERATED := $(sort $(dir $(wildcard examples/*/PROJECT))) test/generators/shop

check: check-code ## checks of every change: generated files, tidy modules, format, vet, staticcheck, architecture, short tests
	KELSON=$(abspath $(KELSON)) $(GO) test $(FAST) $(ATONCE) -vet=off -short . $(TESTED)

check-code: build tidy-check ## make check without the short tests, which make test contains
	@for dir in $(GENERATED); do echo $(KELSON) generate --check $$dir; $(KELSON) generate --check $$dir || exit 1; done
	$(GO) run ./toolchain/internal/reference -check docs/reference
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "gofmt: the files above"; exit 1; }
	$(GO) vet $(FAST) $(TESTED) ./bench/...
	$(GO) run ./test/platforms darwin/arm64,windows/amd64 $(PORTABLE)
	$(SPARING) $(GO) run $(STATICCHECK) $(TESTED) ./bench/...
	for m in $(APART); do (cd $$m && export GOWORK=off && $(GO) vet $(FAST) ./... && $(SPARING) $(GO) run $(STATICCHECK) ./...) || exit 1; done

lint: build ## golangci-lint on all modules and on new projects: four minutes with a warm cache, half an hour the first time; .golangci.yml has the linters
	$(GO) run $(GOLANGCI) run $(TESTED) ./bench/...
	for m in $(APART) test/conformance; do (cd $$m && GOWORK=off $(GO) run $(GOLANGCI) run ./...) || exit 1; done
	KELSON=$(abspath $(KELSON)) test/scaffold/each.sh $(GO) run $(GOLANGCI) run

vulncheck: build ## govulncheck on all modules and on new projects; VULNDB names another database than https://vuln.go.dev
	test/vulncheck.sh $(GO) run $(GOVULNCHECK) $(TESTED) ./bench/...
	for m in $(APART); do (cd $$m && GOWORK=off $(CURDIR)/test/vulncheck.sh $(GO) run $(GOVULNCHECK) ./...) || exit 1; done
	KELSON=$(abspath $(KELSON)) test/scaffold/each.sh $(CURDIR)/test/vulncheck.sh $(GO) run $(GOVULNCHECK) ./...

generate: build ## regenerate all generated files
	$(GO) generate ./...
	@for dir in $(GENERATED); do echo $(KELSON) generate $$dir; $(KELSON) generate $$dir || exit 1; done
	$(GO) run ./toolchain/internal/reference docs/reference

console-types: ## check the types of the console's page with TypeScript; needs Node.js and npm
	@mkdir -p bin/types
	npm install --silent --no-audit --no-fund --prefix bin/types typescript@7.0.2 preact@11.2.0 htm@3.1.1
	bin/types/node_modules/.bin/tsc -p console/jsconfig.json

console-kube-apiserver: build ## the console's tests on kube-apiserver and kelson dev; needs Chromium; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	KELSON=$(abspath $(KELSON)) $(GO) run ./test/against -- $(GO) test -count=1 -v -run 'OnAServer|DevelopmentLoop' ./console

screens: build ## screenshots of the console with no problem, eight, 10,000 objects and a stopped server, and its memory, into bin/screens: three minutes; needs Chromium
	KELSON=$(abspath $(KELSON)) KELSON_SCREENSHOTS=$(CURDIR)/bin/screens $(GO) test -count=1 -v -run Screens ./console

why: build ## what kelson why and the console say first in frequent situations, and wrong answers of the past, on kelson serve and kube-apiserver; builds the server first
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) test -count=1 -v -run 'ChangesNothing|DryRunIsNoChange|Retain|Folded' ./operator/trace
	KELSON=$(abspath $(KELSON)) $(GO) test -count=1 -v -run 'WhySituations|WhyOfOwners|WhyThrough|MirroredStatus|DiffSince' ./cmd/kelson
	KELSON=$(abspath $(KELSON)) $(GO) test -count=1 -v -run 'Unreachable' ./console
	$(GO) test -count=1 -v ./console/now ./console/internal/traces
	KELSON=$(abspath $(KELSON)) $(GO) run ./test/against -- $(GO) test -count=1 -v -run 'WhySituations' ./cmd/kelson

orca: build ## Orca, a screen reader, reads the console in Chromium: two minutes; CONTRIBUTING.md lists the packages
	KELSON=$(abspath $(KELSON)) test/orca/run.sh

faults: ## the store under kills, power loss, failing calls and flipped bits, 40 times as long as in make test, and the order of events in 17,500 rounds: about four minutes
	KELSON_FAULTS=40 $(GO) test -timeout 60m -v -run 'Killed|PowerLoss|FailingCalls|FlippedBits|EveryCall' ./apiserver/store/disk
	KELSON_FAULTS=5 $(GO) test -timeout 60m -v -run 'EventsPrecedeResponses|ImmediateDeletion' ./kubernetes/controlplane

faults-etcd: build ## stores and servers over etcd members that are killed, paused and cut off, 10 times as long as in make test: about ten minutes
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/etcd
	KELSON=$(abspath $(KELSON)) KELSON_FAULTS=10 $(GO) test -timeout 60m -v -run 'Faults|CutOff|Killed' ./test/etcd

fuzz: ## every fuzz target for FUZZTIME (30s), in sequence; the first run compiles everything again, with coverage counters
	@grep -rn '^func Fuzz' --include=*_test.go $(FUZZ) | sed -E 's|^(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort | \
	while read dir target; do \
		echo "$$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s ./$$dir || exit 1; \
	done

attack: build ## bounded attacks of one client on kelson serve and, where it can be built, kube-apiserver: ten minutes after the builds; writes its part of docs/reference/security.md
	@mkdir -p bin/peers
	-$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/attack ./test/attack
	bin/attack -kelson $(KELSON) -peers bin/peers -docs docs/reference/security.md

bench: release ## figures against kube-apiserver and etcd: about twelve minutes after the builds; writes docs/internals/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/figures ./bench/figures
	bin/figures -kelson $(KELSON) -peers bin/peers -docs docs/internals/benchmarks.md

bench-etcd: release ## the same over etcd: one server and one member, three servers and three members, of each kind: a quarter of an hour after the builds; writes its part of docs/internals/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/figures ./bench/figures
	bin/figures -etcd -kelson $(KELSON) -peers bin/peers -docs docs/internals/benchmarks.md

bench-envtest: release ## the programs of kelson envtest against kube-apiserver and etcd, run by envtest: a minute after the builds; writes its part of docs/internals/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/dropin ./bench/dropin
	bin/dropin -kelson $(KELSON) -peers bin/peers -docs docs/internals/benchmarks.md

bench-planes: build ## a thousand control planes in one process, a hundred tests in parallel, and a scaffolded project's test, against envtest: two minutes after the builds; writes its part of docs/internals/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/planes ./bench/planes
	bin/planes -kelson $(KELSON) -peers bin/peers -docs docs/internals/benchmarks.md

bench-nodes: release ## 10,000 simulated pods on 100 nodes, against KWOK on kube-apiserver: about five minutes after the builds; prints the rows of docs/internals/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/bench-nodes ./bench/nodes
	$(GO) build -o bin/against ./test/against
	cd / && GOBIN=$(CURDIR)/bin/peers GOFLAGS=-mod=mod $(GO) install sigs.k8s.io/kwok/cmd/kwok@v0.8.0
	bin/bench-nodes -kelson $(KELSON)
	bin/bench-nodes -kelson $(KELSON) -stages
	bin/against -- bin/bench-nodes -kwok bin/peers/kwok
	bin/bench-nodes -kelson $(KELSON) -rows rest,deployments

# A smaller cluster: make bench-scale SCALE='-scale-nodes 500 -scale-pods 15000'
bench-scale: release ## 5,000 simulated nodes with 150,000 pods, at rest and with churn: up to fifteen minutes after the build; prints rows of docs/internals/benchmarks.md
	$(GO) build -o bin/bench-nodes ./bench/nodes
	bin/bench-nodes -kelson $(KELSON) -rows scale $(SCALE)

bench-history: release ## size and speed of histories, and the overhead of kelson serve --history on writes: about six minutes after the builds; prints the rows of docs/internals/benchmarks.md
	$(GO) test ./lab/history -run xxx -bench . -count 3
	$(GO) build -o bin/figures ./bench/figures
	for round in 1 2; do for args in "" "--history 24h"; do \
		echo "kelson serve $$args" && bin/figures -kelson $(KELSON) -run '(create|status|patch)-cr-(16|64)' -sides 1 -kelson-args "$$args" || exit 1; \
	done; done

bench-million: release ## load, list and restart with a million objects: about five minutes
	$(GO) build -o bin/figures ./bench/figures
	bin/figures -kelson $(KELSON) -million

# make differential SEEDS=20 compares with 20 seeds, beginning with SEED. Only a run with seed 1 alone writes the page.
SEED  ?= 1
SEEDS ?= 1

differential: build ## compare the answers of kube-apiserver and Kelson to the same requests: about eight minutes for each of SEEDS, after the builds; writes docs/internals/differential.md
	@mkdir -p bin/peers
	@mkdir -p bin/components
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/components/ ./bench/components/kube-controller-manager
	$(GO) run ./test/differential -kelson $(KELSON) -peers bin/peers -components bin/components -seed $(SEED) -seeds $(SEEDS) -limit $$((20 * $(SEEDS)))m \
		$(if $(filter 1-1,$(SEED)-$(SEEDS)),-docs docs/internals/differential.md -attributes test/admission/attributes/kube-apiserver.json)

takeover: build ## Kubernetes' own kube-controller-manager and kube-scheduler beside kelson serve --controllers=-*, then a cloud-controller-manager: about a minute after the builds
	@mkdir -p bin/components
	$(GO) build -o bin/components/ ./bench/components/...
	$(GO) run ./test/takeover -kelson $(KELSON) -components bin/components

bench-operator: release ## the operator library against client-go and controller-runtime: about 40 minutes with the builds; writes its part of docs/internals/benchmarks.md
	@mkdir -p bin/peers bin/bench
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -ldflags '-s -w' -o bin/bench/ ./bench/operator/ours ./bench/operator/theirs
	$(GO) run ./bench/operator -kelson $(KELSON) -peers bin/peers -sides bin/bench -docs docs/internals/benchmarks.md

bench-adapter: release ## other projects' programs on the operator library's adapter and on controller-runtime: about half an hour with the builds; writes its part of docs/internals/benchmarks.md
	for name in cluster-api cainjector jobset lws; do test/adapter/project.sh $$name build || exit; done
	$(GO) run ./bench/adapter -kelson $(KELSON) -docs docs/internals/benchmarks.md

explore-corpus: build ## find bugs of real operators with kelson explore: a quarter of an hour; writes docs/internals/explore.md
	KELSON=$(abspath $(KELSON)) $(GO) test -count=1 -timeout 120m -v -run TestCorpus ./bench/explore/corpus -docs=$(CURDIR)/docs/internals/explore.md

explore-kubernetes: ## explore Kubernetes' own controllers, up to three minutes each, half an hour in all; writes docs/internals/explore.md
	$(GO) test -count=1 -timeout 60m -v -run TestControllers ./bench/explore/kubernetes -for 3m -docs $(CURDIR)/docs/internals/explore.md

explore-versions: build ## explore operators on releases of controller-runtime and client-go since 2022, each with a bug that kelson explore must find: a few minutes for the first build
	@rm -rf bin/versions && cp -r bench/explore/versions bin/versions
	@find bin/versions -name '*.go.txt' | while read -r file; do mv "$$file" "$${file%.txt}"; done
	@for dir in bin/versions/*/; do \
		echo "$$dir:"; GOWORK=off $(KELSON) explore $$dir --generate=false --for 20s >bin/explore.log 2>&1; \
		grep -q 'secrets default/web-cert: is missing' bin/explore.log || { cat bin/explore.log; exit 1; }; \
		grep '^explored' bin/explore.log | tail -1; \
	done

bench-explore: build ## plans a minute, processor time, time to the first plan and memory of kelson explore on two operators: three minutes; writes its table of docs/internals/explore.md
	$(GO) build -o bin/bench-explore ./bench/explore/lane
	bin/bench-explore -kelson $(KELSON) -docs docs/internals/explore.md bench/explore/fleet examples/cnat

explore-campaign: ## explore the operator of bench/explore/fleet with 2,380 plans; fails if that takes five minutes
	KELSON_EXPLORE_PLANS=2380 KELSON_EXPLORE_FOR=5m $(GO) test -count=1 -timeout 10m -v -run '^TestExplore$$' ./bench/explore/fleet/internal/controller

EXPLORED = welcome demo foobar home pizza projectconfig simpledeployment cronjob cnat ingress-manager

explore-examples: build ## explore the ten examples' operators for a minute each, ingress-manager as a process: about fifteen minutes; an alarm is a failure
	@failed=0; for name in $(EXPLORED); do \
		echo "$$name:"; $(KELSON) explore examples/$$name --generate=false --for 1m >bin/explore.log 2>&1 || failed=1; \
		grep -v '^explored' bin/explore.log; grep '^explored' bin/explore.log | tail -1; \
	done; exit $$failed

explore-determinism: ## run plans of five operators 1,000 times each, and compare their histories byte for byte: six minutes
	for package in ./lab/explore ./bench/explore/fleet/internal/controller ./examples/cnat/internal/controller; do \
		KELSON_EXPLORE_REPEAT=1000 $(GO) test -count=1 -timeout 20m -v -run 'TestEqualPlansGiveEqualRuns|^TestExplore$$' $$package || exit 1; done

explore-operators: build ## explore the operators of other projects in the folder OPERATORS, two minutes each after the builds, with the flags in its operators.yaml (see test/explore); writes the table of docs/internals/explore.md
	$(GO) run ./test/explore -kelson $(KELSON) -docs docs/internals/explore.md $(OPERATORS)

soak-server: build ## the memory of kelson serve under 30 requests a second with 50 watches, compared with what its objects need: twenty minutes
	$(GO) build -o bin/soak ./test/soak
	bin/soak -kelson $(KELSON)

soak-operator: ## the operator library on a faulty server: two replicas and its informers, ten minutes each
	KELSON_SOAK=10m $(GO) test -timeout 40m -v -run Soak ./operator/internal/soak
	KELSON_SOAK=10m $(GO) test -timeout 40m -v -run Soak ./operator/informer

size: build ## measure the sizes of the packages in the program; writes docs/internals/size.md
	$(GO) run ./bench/size -kelson $(KELSON) -docs docs/internals/size.md

bench-store: ## compare storage engines with group commit: about three minutes
	$(GO) test -run '^$$' -bench . ./bench/storebench

kelson-node: ## build bin/kelson-node, which runs Kubernetes' kubelet and kube-proxy: about three minutes the first time
	cd cmd/kelson-node && GOWORK=off $(GO) build -ldflags '$(LDFLAGS)' -o ../../bin/kelson-node .

kelson-dns: ## build bin/kelson-dns, CoreDNS for clusters with containers: half a minute the first time
	cd cmd/kelson-dns && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o ../../bin/kelson-dns .

nodes: build kelson-node kelson-dns ## pods in containers on this machine, as root: five minutes after the builds
	cd cmd/kelson-node && GOWORK=off $(GO) test ./internal/...
	KELSON=$(abspath $(KELSON)) KELSON_NODE=$(abspath bin/kelson-node) $(GO) test -count=1 -v -timeout 30m ./test/nodes

nodes-ha: build kelson-node ## three servers, three members of etcd and two nodes, each killed, as root: ten minutes after the builds
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/etcd
	KELSON=$(abspath $(KELSON)) KELSON_NODE=$(abspath bin/kelson-node) KELSON_ETCD=$(abspath bin/peers/etcd) $(GO) test -count=1 -v -timeout 30m -run TestSeveralServers ./test/nodes

bench-cluster: build kelson-node ## a cluster on one machine against Kubernetes' components: memory, and time until a pod is ready, as root: six minutes after the builds; writes docs/internals/benchmarks.md
	@mkdir -p bin/peers bin/components
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/components/ ./bench/components/kube-controller-manager ./bench/components/kube-scheduler
	KELSON=$(abspath $(KELSON)) KELSON_NODE=$(abspath bin/kelson-node) KELSON_DOCS=$(abspath docs/internals/benchmarks.md) $(GO) test -count=1 -v -timeout 30m -run TestMeasureCluster ./test/nodes

nodes-kube-apiserver: build kelson-node ## an operator as a pod on kube-apiserver with its own controller manager and scheduler, as root: five minutes after the builds
	@mkdir -p bin/peers bin/components
	$(GO) build -o bin/peers/ ./bench/peers/...
	$(GO) build -o bin/components/ ./bench/components/kube-controller-manager ./bench/components/kube-scheduler
	KELSON=$(abspath $(KELSON)) KELSON_NODE=$(abspath bin/kelson-node) $(GO) test -count=1 -v -timeout 30m -run OnKubeAPIServer ./test/nodes

conformance: build ## Kubernetes' own conformance specs of sig-api-machinery: about 18 minutes after the builds; writes docs/internals/conformance.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/etcd
	cd test/conformance && GOWORK=off $(GO) build -o ../../bin/peers/wardle k8s.io/sample-apiserver
	cd test/conformance && GOWORK=off $(GO) run . -kelson $(abspath $(KELSON)) -docs $(abspath docs/internals/conformance.md)

conformance-nodes: build kelson-node kelson-dns ## all conformance specs of Kubernetes with two real nodes, as root: an hour after the builds; writes docs/internals/conformance.md
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/etcd
	cd test/conformance && GOWORK=off $(GO) run ./nodes -bin $(abspath bin) -dns $(abspath bin/kelson-dns) -docs $(abspath docs/internals/conformance.md)

controller-runtime: build ## run controller-runtime's own test suites on this control plane: about six minutes
	test/controller-runtime/run.sh

adapter-controller-runtime: build ## run controller-runtime's own test suites on the operator library's adapter: about six minutes
	test/adapter/controller-runtime.sh

adapter-cluster-api: build ## run the suites of Cluster API's core manager on the operator library's adapter: about fifteen minutes
	test/adapter/project.sh cluster-api

adapter-projects: build ## run the suites of JobSet, LeaderWorkerSet and cert-manager's CA injectors on the operator library's adapter: about fifteen minutes
	for name in cainjector jobset lws; do test/adapter/project.sh $$name || exit; done

adapter-multicluster: build ## a controller of multicluster-runtime on the operator library's adapter, in two clusters: seconds after the builds
	cd test/adapter/multicluster && KELSON=$(abspath $(KELSON)) GOWORK=off $(GO) test -count=1 -v .

test-cmd: build ## Kubernetes' own shell suites of kubectl, test/cmd: about ten minutes; writes its part of docs/internals/conformance.md
	test/cmd/run.sh

aggregation: build ## Kubernetes' sample API server as a process behind kelson serve: a minute after the builds
	@mkdir -p bin/peers
	$(GO) build -o bin/peers/ ./bench/peers/etcd
	cd test/conformance && GOWORK=off $(GO) build -o ../../bin/peers/wardle k8s.io/sample-apiserver
	KELSON=$(abspath $(KELSON)) $(GO) test -count=1 -v -run Wardle ./cmd/kelson

kube-aggregator: ## kube-aggregator's own tests that send HTTP requests, on this aggregator and its discovery: a minute after the builds
	test/kubeaggregator/run.sh

helm: build ## Helm with a chart with hooks, and with the chart of a scaffolded custom API server: two minutes after the build of Helm
	test/helm/run.sh

scaffold: build ## the tutorial's steps, from kelson init to a deployed operator, on kelson serve and kube-apiserver (bin/peers): about ten minutes
	test/scaffold/run.sh

kustomize: build ## kustomizations, applied with the linked-in kubectl and built with Kustomize
	test/kustomize/run.sh

client-go: build ## run client-go's informers and leader election over a port
	test/clients/run.sh

client-node: build ## run the JavaScript client from npm; needs Node.js
	test/client-node/run.sh

generators: ## compare the generators' output for real projects with controller-gen's: two minutes after the downloads
	KELSON_GENERATORS=1 $(GO) test -timeout 30m -v -run Projects ./bench/generators

operators: build ## run the generators on public projects as they are: a minute after the clones; writes docs/internals/operators.md; SOURCES is a folder with clones
	$(GO) run ./test/operators -kelson $(KELSON) -docs docs/internals/operators.md

projects: build bin/peers/helm bin/peers/controller-gen ## run kelson generate, vet and package in public projects as they are, and compare their charts with their installers through Helm: a few minutes after the clones; writes docs/internals/projects.md; SOURCES is a folder with clones
	$(GO) run ./test/projects -kelson $(KELSON) -helm bin/peers/helm -controller-gen bin/peers/controller-gen -docs docs/internals/projects.md

bin/peers/helm:
	@mkdir -p bin/peers
	GOBIN=$(CURDIR)/bin/peers GOWORK=off $(GO) install -ldflags '-s -w' helm.sh/helm/v4/cmd/helm@v4.3.2

bin/peers/controller-gen:
	@mkdir -p bin/peers
	GOBIN=$(CURDIR)/bin/peers GOWORK=off $(GO) install sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0

operators-dev: build ## run public operators with kelson dev until each has reconciled a sample: an hour the first time, as it compiles them; writes docs/internals/operators-dev.md; SOURCES is a folder with clones
	$(GO) run ./test/operators -dev -kelson $(KELSON) -docs docs/internals/operators-dev.md

bench-generators: build ## time of a run and of an edit, against controller-gen: a minute; writes its part of docs/internals/benchmarks.md
	$(GO) run ./bench/generators/speed -kelson $(KELSON) -docs docs/internals/benchmarks.md

cluster-api: build ## run Cluster API's own test suites on this control plane
	test/cluster-api/run.sh

# VERSION is a variable of make dist, too.
kubernetes-version: ## change the version of Kubernetes to VERSION (v1.38.0) everywhere: a minute with the modules in the cache; then follow docs/reference/upgrades.md
	$(GO) run ./kubernetes/linked/move '$(VERSION)'

tidy: ## tidy go.mod and go.sum of every module
	for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) mod tidy) || exit 1; done

# The workspace hides a go.mod or go.sum that is out of date. go mod tidy also reads modules that no build needs; without
# a network, those that are not in the cache cannot be checked.
tidy-check: ## check that go.mod and go.sum of every module are tidy: seconds; part of make check
	@mkdir -p bin
	@for m in $(MODULES); do \
		(cd $$m && GOWORK=off $(GO) mod tidy -diff) >bin/tidy.log 2>&1 && continue; \
		grep -q '^diff current/' bin/tidy.log || { echo "SKIPPED: tidy-check of $$m: $$(tail -1 bin/tidy.log)"; continue; }; \
		cat bin/tidy.log; echo "$$m: go.mod and go.sum are not tidy: run make tidy"; exit 1; \
	done

clean: ## remove build output
	rm -rf bin
