// Command size writes which packages the kelson binary consists of. It builds kelson with a symbol
// table, reads it with go tool nm, and adds up the sizes of symbols by groups of packages.
//
//	size -source . -docs docs/internals/size.md
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// groups are prefixes of import paths, of which the longest decides, and what the table calls them.
var groups = map[string]string{
	"kelson.dev":                                 "Kelson",
	"k8s.io/kubernetes":                          "Kubernetes' own packages: validation, strategies, controllers, scheduler",
	"k8s.io/kubernetes/pkg/kubelet":              "the kubelet",
	"github.com/google/cadvisor":                 "the kubelet",
	"github.com/opencontainers":                  "the kubelet",
	"github.com/containerd":                      "the kubelet",
	"k8s.io/cri-api":                             "the kubelet",
	"k8s.io/cri-client":                          "the kubelet",
	"k8s.io/kubelet":                             "the kubelet",
	"k8s.io/api":                                 "types of Kubernetes' API",
	"k8s.io/kube-aggregator":                     "types of Kubernetes' API",
	"k8s.io/metrics":                             "types of Kubernetes' API",
	"k8s.io/client-go":                           "client-go",
	"k8s.io/client-go/kubernetes":                "client-go: clients by type",
	"k8s.io/client-go/kubernetes/fake":           "client-go: fake clients",
	"k8s.io/client-go/applyconfigurations":       "client-go: apply configurations",
	"k8s.io/client-go/informers":                 "client-go: informers and listers by type",
	"k8s.io/client-go/listers":                   "client-go: informers and listers by type",
	"k8s.io/apiserver":                           "k8s.io/apiserver",
	"k8s.io/apiextensions-apiserver":             "k8s.io/apiserver",
	"k8s.io/apimachinery":                        "k8s.io/apimachinery, structured-merge-diff, kube-openapi",
	"k8s.io/kube-openapi":                        "k8s.io/apimachinery, structured-merge-diff, kube-openapi",
	"sigs.k8s.io/structured-merge-diff":          "k8s.io/apimachinery, structured-merge-diff, kube-openapi",
	"k8s.io/kubectl":                             "kubectl and Kustomize",
	"k8s.io/cli-runtime":                         "kubectl and Kustomize",
	"sigs.k8s.io/kustomize":                      "kubectl and Kustomize",
	"github.com/google/cel-go":                   "CEL",
	"github.com/antlr4-go":                       "CEL",
	"cel.dev":                                    "CEL",
	"google.golang.org":                          "gRPC, protobuf, OpenTelemetry, etcd's client",
	"github.com/golang/protobuf":                 "gRPC, protobuf, OpenTelemetry, etcd's client",
	"github.com/grpc-ecosystem":                  "gRPC, protobuf, OpenTelemetry, etcd's client",
	"go.opentelemetry.io":                        "gRPC, protobuf, OpenTelemetry, etcd's client",
	"go.etcd.io":                                 "gRPC, protobuf, OpenTelemetry, etcd's client",
	"k8s.io":                                     "other modules of Kubernetes",
	"sigs.k8s.io":                                "other modules of Kubernetes",
	"github.com/google/go-containerregistry":     "images",
	"github.com/docker":                          "images",
	"kelson.dev/kubernetes/openapispec":          "embedded: OpenAPI documents",
	"k8s.io/kubectl/pkg/util/i18n":               "embedded: kubectl's translations",
	"kelson.dev/console":                         "embedded: the console",
	"sigs.k8s.io/kustomize/kyaml/openapi":        "embedded: Kustomize's OpenAPI document",
	"k8s.io/kubernetes/pkg/generated/openapi":    "generated OpenAPI definitions in Go",
	"k8s.io/apiserver/pkg/generated/openapi":     "generated OpenAPI definitions in Go",
	"k8s.io/kubernetes/pkg/apis":                 "Kubernetes' internal types: conversion, defaults, validation",
	"k8s.io/kubernetes/pkg/scheduler":            "Kubernetes' scheduler",
	"k8s.io/kubernetes/pkg/controller":           "Kubernetes' controllers",
	"k8s.io/kubernetes/pkg/registry":             "Kubernetes' strategies and storages",
	"k8s.io/kubernetes/pkg/printers":             "Kubernetes' strategies and storages",
	"k8s.io/kubernetes/plugin/pkg/admission":     "Kubernetes' admission plugins",
	"k8s.io/kubernetes/plugin/pkg/auth":          "Kubernetes' admission plugins",
	"k8s.io/pod-security-admission":              "Kubernetes' admission plugins",
	"k8s.io/dynamic-resource-allocation":         "Kubernetes' scheduler",
	"k8s.io/component-base":                      "other modules of Kubernetes",
	"github.com/prometheus":                      "Prometheus",
	"github.com/google/gnostic-models":           "gnostic",
	"golang.org/x":                               "golang.org/x",
	"vendor/golang.org/x":                        "Go's runtime and standard library",
	"github.com/google/gnostic-models/openapiv3": "gnostic",
}

type group struct {
	code, data int64
}

func main() {
	source := flag.String("source", ".", "Kelson's source")
	docs := flag.String("docs", "", "page whose part is replaced by the table")
	binary := flag.String("binary", "", "a kelson with symbol table; the default builds one")
	top := flag.Int("top", 0, "also print this many packages, by size")
	flag.Parse()
	if err := run(*source, *docs, *binary, *top); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(source, docs, binary string, top int) error {
	if binary == "" {
		dir, err := os.MkdirTemp("", "kelson-size-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "kelson")
		build := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./cmd/kelson")
		build.Dir, build.Env, build.Stderr = source, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build kelson: %w", err)
		}
	}
	nm := exec.Command("go", "tool", "nm", "-size", binary)
	nm.Stderr = os.Stderr
	symbols, err := nm.Output()
	if err != nil {
		return fmt.Errorf("read symbols: %w", err)
	}
	packages := map[string]*group{}
	lines := bufio.NewScanner(bytes.NewReader(symbols))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // address size type name
		if len(fields) < 4 {
			continue
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		name := packageOf(strings.Join(fields[3:], " "))
		p := packages[name]
		if p == nil {
			p = &group{}
			packages[name] = p
		}
		switch fields[2] {
		case "T", "t":
			p.code += size
		case "R", "r", "D", "d":
			p.data += size
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if top > 0 {
		names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int { return cmp.Compare(packages[b].total(), packages[a].total()) })
		for _, name := range names[:min(top, len(names))] {
			fmt.Printf("%7.2f %7.2f MB %s\n", mb(packages[name].code), mb(packages[name].data), name)
		}
	}
	table, err := report(binary, packages)
	if err != nil {
		return err
	}
	fmt.Print(table)
	if docs == "" {
		return nil
	}
	return writeSection(docs, table)
}

func (g *group) total() int64 { return g.code + g.data }

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// packageOf returns the import path in the name of a symbol.
func packageOf(symbol string) string {
	for _, prefix := range []string{"type:.eq.", "type:.hash.", "type:.namedata.", "type:.importpath.", "type:", "go:itab.", "go:"} {
		symbol = strings.TrimPrefix(symbol, prefix)
	}
	symbol = strings.TrimLeft(symbol, "*[]")
	symbol, _, _ = strings.Cut(symbol, "[")
	symbol, _, _ = strings.Cut(symbol, "(")
	symbol, _, _ = strings.Cut(symbol, ",")
	slash := strings.LastIndex(symbol, "/")
	dot := strings.Index(symbol[slash+1:], ".")
	if dot < 0 {
		return "other"
	}
	return symbol[:slash+1+dot]
}

// groupOf returns the group of a package.
func groupOf(name string) string {
	for prefix := name; prefix != "" && prefix != "."; prefix = parent(prefix) {
		if g, ok := groups[prefix]; ok {
			return g
		}
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return "Go's runtime and standard library"
	}
	return "other modules"
}

func parent(path string) string {
	return path[:max(0, strings.LastIndex(path, "/"))]
}

func report(binary string, packages map[string]*group) (string, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sizes := map[string]int64{}
	var loaded int64
	for _, s := range file.Sections {
		if s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 {
			sizes[s.Name] = int64(s.Size)
			loaded += int64(s.Size)
		}
	}
	sums, count := map[string]*group{}, map[string]int{}
	var code int64
	for name, p := range packages {
		g := groupOf(name)
		if sums[g] == nil {
			sums[g] = &group{}
		}
		sums[g].code += p.code
		sums[g].data += p.data
		count[g]++
		code += p.code
	}
	// The table of functions, with lines and stack maps, has no symbols of its own. It grows with
	// the code.
	table := float64(sizes[".gopclntab"]) / float64(max(code, 1))
	var b strings.Builder
	fmt.Fprintf(&b, "The program has %.0f MB: %.0f MB of machine code, %.0f MB of tables about it, %.0f MB of constant data and types.\n\n",
		mb(loaded), mb(sizes[".text"]), mb(sizes[".gopclntab"]), mb(loaded-sizes[".text"]-sizes[".gopclntab"]))
	b.WriteString("| packages | number | code, MB | its tables, MB | data, MB | together, MB |\n|---|--:|--:|--:|--:|--:|\n")
	total := func(g *group) float64 { return mb(g.code)*(1+table) + mb(g.data) }
	for _, name := range slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Compare(total(sums[b]), total(sums[a])) }) {
		g := sums[name]
		if total(g) >= 0.1 {
			fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f | %.1f | %.1f |\n", name, count[name], mb(g.code), mb(g.code)*table, mb(g.data), total(g))
		}
	}
	return b.String(), nil
}

const (
	begin = "<!-- bench/size -->\n"
	end   = "<!-- end of bench/size -->\n"
)

// writeSection replaces the part of a page between the markers.
func writeSection(file, table string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("write docs: %s has no part between %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+table+"\n"+end+after), 0o644)
}
