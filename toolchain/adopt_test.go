package toolchain_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/adopt"
)

// project writes a txtar archive to a new directory.
func adoptProject(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, f.Data, 0o644))
	}
	return dir
}

// text returns the calls as "SOURCE FOLDER: ARGUMENTS", with the project's folder as DIR.
func text(dir string, calls []adopt.Call) []string {
	var all []string
	for _, c := range calls {
		rel, _ := filepath.Rel(dir, c.Dir)
		all = append(all, c.Source+" "+rel+": "+strings.ReplaceAll(strings.Join(c.Args, " "), dir, "DIR"))
	}
	return all
}

// The cases use the forms that public projects use.
func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		archive       string
		want, unknown []string
		removed       []string
	}{
		"kubebuilder": {archive: `
-- Makefile --
ifeq (,$(shell go env GOBIN))
GOBIN=$(shell go env GOPATH)/bin
else
GOBIN=$(shell go env GOBIN)
endif
CRD_OPTIONS ?= "crd:trivialVersions=true"
.PHONY: manifests
manifests: controller-gen ## Generate
	$(CONTROLLER_GEN) rbac:roleName=manager-role $(CRD_OPTIONS) webhook paths="./..." output:crd:artifacts:config=config/crd/bases
generate: controller-gen
	@"$(CONTROLLER_GEN)" object:headerFile="hack/boilerplate.go.txt" paths="./..."
LOCALBIN ?= $(shell pwd)/bin
CONTROLLER_GEN ?= $(LOCALBIN)/controller-gen
controller-gen: $(CONTROLLER_GEN)
$(CONTROLLER_GEN): $(LOCALBIN)
	$(call go-install-tool,$(CONTROLLER_GEN),sigs.k8s.io/controller-tools/cmd/controller-gen,$(CONTROLLER_TOOLS_VERSION))
	test -s $(LOCALBIN)/controller-gen || GOBIN=$(LOCALBIN) go install sigs.k8s.io/controller-tools/cmd/controller-gen
define go-install-tool
	controller-gen crd paths=./never
endef
`, want: []string{
			"Makefile:9 .: rbac:roleName=manager-role crd:trivialVersions=true webhook paths=./... output:crd:artifacts:config=config/crd/bases",
			"Makefile:11 .: object:headerFile=hack/boilerplate.go.txt paths=./...",
		}},
		"folders and included files": {archive: `
-- Makefile --
ROOT:=$(shell dirname $(realpath $(firstword $(MAKEFILE_LIST))))
GEN := $(abspath tools/bin/controller-gen-v0.20.0)
include make/*.mk
generate:
	cd api; $(GEN) \
		crd:generateEmbeddedObjectMeta=true,maxDescLen=0 \
		object:headerFile=$(ROOT)/hack/header.txt \
		$(DIRS:%=paths=./%/...) output:crd:dir="../config/crd"
	(cd other && go run -mod=mod sigs.k8s.io/controller-tools/cmd/controller-gen@v0.16.0 object 'paths=./...')
	$(GEN) --version
	echo controller-gen crd paths=./no
-- make/dirs.mk --
DIRS = v1 v2
`, want: []string{
			"Makefile:5 api: crd:generateEmbeddedObjectMeta=true,maxDescLen=0 object:headerFile=DIR/hack/header.txt paths=./v1/... paths=./v2/... output:crd:dir=../config/crd",
			"Makefile:9 other: object paths=./...",
		}},
		"a script that the Makefile runs": {archive: `
-- Makefile --
CRD_DIR ?= config/crds
crds:
	./hack/generate.sh deploy $(CRD_DIR)
-- hack/generate.sh --
#!/usr/bin/env bash
SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )
CRD_DIR="${2}"
OUT=${OUT:-"${CRD_DIR}/bases"}
cd "${SCRIPT_DIR}"/../
# controller-gen crd paths=./comment
go run sigs.k8s.io/controller-tools/cmd/controller-gen crd \
  paths="./apis/..." \
  output:crd:artifacts:config="${OUT}"
`, want: []string{"hack/generate.sh:7 .: crd paths=./apis/... output:crd:artifacts:config=config/crds/bases"}},
		"scripts in hack": {archive: `
-- Makefile --
all:
	go test ./...
-- hack/update.sh --
SCRIPT_ROOT=$(dirname "${BASH_SOURCE}")/..
$GOTOOL sigs.k8s.io/controller-tools/cmd/controller-gen object:headerFile=${SCRIPT_ROOT}/hack/header.txt paths="./apis/..."
controller-gen crd paths=./apis/... output:none
controller-gen object crd output:crd:stdout paths=./more/... > deploy/crds.yaml 2>&1
-- hack/header.txt --
`, want: []string{
			"hack/update.sh:2 .: object:headerFile=DIR/hack/../hack/header.txt paths=./apis/...",
			"hack/update.sh:4 .: object crd output:crd:stdout paths=./more/...",
		}},
		"directives": {archive: `
-- apis/doc.go --
package apis

//go:generate go tool -modfile=../go.tools.mod controller-gen crd object:headerFile="../hack/header.txt" paths="./..." output:crd:artifacts:config=crds
`, want: []string{"apis/doc.go:3 apis: crd object:headerFile=../hack/header.txt paths=./... output:crd:artifacts:config=crds"}},
		"files that it removes": {archive: `
-- Makefile --
clean:
	rm -rf config/crd/a.yaml
crds:
	controller-gen crd paths=./... output:crd:dir=config/crd
	rm config/crd/b.yaml
`, want: []string{"Makefile:4 .: crd paths=./... output:crd:dir=config/crd"}, removed: []string{"config/crd/b.yaml"}},
		"in a container": {archive: `
-- Makefile --
CONTROLLER_GEN=docker run --rm -v $(shell pwd):/project tools controller-gen
crds:
	$(CONTROLLER_GEN) crd paths=./... output:crd:dir=config/crd
tools:
	docker build . -t controller-gen
`, want: []string{"Makefile:3 .: crd paths=./... output:crd:dir=config/crd"}},
		"arguments from a program's output": {archive: `
-- Makefile --
dirs := $(shell ls -d */)
crds:
	controller-gen crd $(dirs:%=paths=./%...) output:crd:dir=config/crd
`, unknown: []string{"Makefile:3 .: crd $(…) output:crd:dir=config/crd"}},
		"functions with alternatives": {archive: `
-- Makefile --
HEADER := hack/a-header.txt
crds:
	controller-gen crd paths=$(or $(API_DIR),"./api/...") output:crd:dir=$(or $(OUT),$(if $(HEADER),config,other))/crd
	controller-gen object:headerFile=$(subst a-,,$(HEADER)) paths=$(if $(PATHS),$(PATHS),./...)
	controller-gen rbac:roleName=$(if $(shell git describe),a,b) paths=./...
`, want: []string{
			"Makefile:3 .: crd paths=./api/... output:crd:dir=config/crd",
			"Makefile:4 .: object:headerFile=hack/header.txt paths=./...",
		}, unknown: []string{"Makefile:5 .: rbac:roleName=$(…) paths=./..."}},
		"a Taskfile, which is not read": {archive: `
-- Taskfile.yml --
version: '3'
vars:
  CONTROLLER_GEN: "{{.LOCALBIN}}/controller-gen-{{.VERSION}}"
tasks:
  manifests:
    cmd: '{{.CONTROLLER_GEN}} rbac:roleName=manager-role crd paths=./... output:crd:dir={{.CRDS}}/bases'
  generate:
    cmds:
      - go tool controller-gen object paths="./..."
      - go install sigs.k8s.io/controller-tools/cmd/controller-gen@latest
-- hack/update.sh --
controller-gen crd paths=./api/...
`, want: []string{"hack/update.sh:1 .: crd paths=./api/..."}, unknown: []string{
			"Taskfile.yml:6 .: rbac:roleName=manager-role crd paths=./... output:crd:dir={{.CRDS}}/bases",
			`Taskfile.yml:9 .: object paths="./..."`,
		}},
		"its own list": {archive: `
-- .kelson.yaml --
controllerGen:
- dir: api
  args: ["crd:maxDescLen=0", "paths=./..."]
-- Makefile --
crds:
	controller-gen crd paths=./...
`, want: []string{".kelson.yaml api: crd:maxDescLen=0 paths=./..."}},
		"an empty list": {archive: `
-- .kelson.yaml --
controllerGen: []
-- Makefile --
crds:
	controller-gen crd paths=./...
`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := adoptProject(t, tc.archive)
			plan, err := adopt.Find(dir)
			require.NoError(t, err)
			if got := text(dir, plan.Calls); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			for i, name := range plan.Removed {
				plan.Removed[i], _ = filepath.Rel(dir, name)
			}
			assert.Slicef(t, plan.Removed, tc.removed, "removed")
			assert.Slicef(t, text(dir, plan.Unknown), tc.unknown, "unknown")
		})
	}
}

func TestInvalidFile(t *testing.T) {
	for archive, want := range map[string]string{
		"-- .kelson.yaml --\ncontrolerGen: []\n":                         `unknown field "controlerGen"`,
		"-- .kelson.yaml --\ncontrollerGen:\n- args: [\"crd:max=3\"]\n":  `controller-gen argument "crd:max=3"`,
		"-- .kelson.yaml --\ncontrollerGen:\n- args: [\"crds:a=b\"]\n":   `controller-gen argument "crds:a=b"`,
		"-- .kelson.yaml --\ncontrollerGen:\n- args: [\"crd\", \"x\"]\n": `controller-gen argument "x"`,
		"-- .kelson.yaml --\ncontrollerGen:\n- args: [\"paths={./a\"]\n": `controller-gen argument "paths={./a"`,
	} {
		_, err := adopt.Find(adoptProject(t, archive))
		assert.ErrorContainsf(t, err, want, "%q", archive)
	}
}

// A pattern of folders includes the modules below it. Each module gets its own options; all use the
// outputs of the call.
func TestOptions(t *testing.T) {
	dir := adoptProject(t, `
-- go.mod --
module example.com/m
-- hack/h.txt --
-- pkg/p.go --
package pkg
-- api/go.mod --
module example.com/m/api
-- vendor/x/go.mod --
module x
`)
	call := adopt.Call{Source: "Makefile:1", Dir: dir, Args: []string{
		"crd:maxDescLen=100,allowDangerousTypes=true", "object:headerFile=hack/h.txt,year=2026",
		"rbac:roleName=r,fileName=roles.yaml", "webhook",
		"paths=./...", "output:crd:dir=out/crd", "output:webhook:none",
	}}
	runs, err := call.Options()
	if err != nil || len(runs) != 2 {
		t.Fatal(runs, err)
	}
	for i, want := range []string{"", "api"} {
		o, base := runs[i], filepath.Join(dir, want)
		if o.Dir != base || !slices.Equal(o.Paths, []string{base + "/..."}) ||
			!slices.Equal(o.Generators, []string{"crd", "object", "rbac"}) {
			t.Errorf("run %d: %s %s %s", i, o.Dir, o.Paths, o.Generators)
		}
		if o.Descriptions.PerField != 100 || o.Descriptions.Size != -1 || !o.AllowFloats || !o.Lenient || !o.KeepEqual {
			t.Errorf("run %d: %+v", i, o)
		}
		if s := o.Settings["crd"]; s.Output != filepath.Join(dir, "out/crd") || s.HeaderFile != "-" {
			t.Errorf("crd: %+v", s)
		}
		if s := o.Settings["object"]; s.HeaderFile != filepath.Join(dir, "hack/h.txt") || s.Year != "2026" {
			t.Errorf("object: %+v", s)
		}
		if s := o.Settings["rbac"]; s.Output != filepath.Join(dir, "config/rbac") || s.RoleName != "r" ||
			s.FileName != "roles.yaml" {
			t.Errorf("rbac: %+v", s)
		}
	}
	for args, want := range map[string]string{
		"crd":                        "needs paths=",
		"crd paths=./nowhere/...":    "path ./nowhere/...: no such folder",
		"crd paths=k8s.io/api/...":   "path k8s.io/api/...: the package is not in module example.com/m",
		"crd paths=example.com/more": "path example.com/more: the package is not in module example.com/m",
	} {
		if runs, err := (adopt.Call{Source: "Makefile:1", Dir: dir, Args: strings.Fields(args)}).Options(); err == nil || len(runs) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", args, runs, err)
		}
	}
	call.Args = []string{"crd", "paths=example.com/m/pkg;k8s.io/api/...;./nowhere"}
	runs, err = call.Options()
	if len(runs) != 1 || !slices.Equal(runs[0].Paths, []string{"example.com/m/pkg"}) || err == nil ||
		strings.Count(err.Error(), "Makefile:1: path") != 2 {
		t.Errorf("the other paths of a call: %v, %v", runs, err)
	}
}

// An output without a generator applies to generators that kelson generate names separately.
func TestOutputsOfOtherGenerators(t *testing.T) {
	for args, want := range map[string]map[string]string{
		"paths=./... output:crd:dir=/abs":              {"crd": "/abs"},
		"paths=./... output:dir=all output:rbac:dir=r": {"crd": "all", "rbac": "r", "webhook": "all"},
		"webhook paths=./... output:crd:dir=c":         {"crd": "c", "webhook": "config/webhook"},
		"crd paths=./... output:dir=all":               {"crd": "all"},
		"crd paths=./... output:crd:stdout":            {"crd": ""},
	} {
		parsed, err := adopt.Parse(strings.Fields(args))
		if err != nil {
			t.Fatal(args, err)
		}
		have := map[string]string{}
		for name, set := range parsed.Settings {
			have[name] = set.Output
		}
		if !maps.Equal(have, want) {
			t.Errorf("%s: %v, want %v", args, have, want)
		}
	}
}

// Files that a recipe moves after it generated them are written at their new places.
func TestMovedFiles(t *testing.T) {
	dir := adoptProject(t, `
-- crds/keep.txt --
-- Makefile --
OUT := deploy
other:
	mv a.yaml b.yaml
crds:
	controller-gen crd paths=./... output:crd:dir=config/crd
	mv config/crd/shop_pizzas.yaml $(OUT)/pizza.yaml
	@mv -f config/crd/*.yaml crds
	mv config/crd/x.go config/crd/y.yaml $(shell elsewhere)
`)
	plan, err := adopt.Find(dir)
	require.NoError(t, err)
	var got []string
	for _, m := range plan.Moved {
		got = append(got, strings.ReplaceAll(m.From+" "+m.To, dir+"/", ""))
	}
	want := []string{"config/crd/shop_pizzas.yaml deploy/pizza.yaml", "config/crd/*.yaml crds/*"}
	assert.Slicef(t, got, want, "moves")
}

// kubebuilder's Makefiles pass the current year.
func TestCurrentYear(t *testing.T) {
	dir := adoptProject(t, `
-- Makefile --
YEAR ?= $(shell date +%Y)
code:
	controller-gen object:headerFile=hack/header.txt,year=$(YEAR) paths=./...
	controller-gen object:headerFile=hack/header.txt,year=$(shell date +'%Y') paths=./api/...
	controller-gen object:headerFile=hack/header.txt,year=$(shell date +%s) paths=./...
`)
	plan, err := adopt.Find(dir)
	if err != nil || len(plan.Calls) != 2 || len(plan.Unknown) != 1 {
		t.Fatalf("%+v %v", plan, err)
	}
	for _, call := range plan.Calls {
		year, err := strconv.Atoi(call.Args[0][strings.LastIndex(call.Args[0], "=")+1:])
		if err != nil || time.Since(time.Date(year, 7, 1, 0, 0, 0, 0, time.UTC)).Abs() > 366*24*time.Hour {
			t.Errorf("%s", call.Args)
		}
	}
}
