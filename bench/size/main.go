// Command size measures the packages of the kelson program. It adds up the machine code of groups
// of packages, and writes a table to a page.
//
//	size -kelson bin/kelson -docs docs/internals/size.md
package main

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"kelson.dev/test/section"
)

// groups maps prefixes of import paths to the names of groups in the table. The longest prefix of a
// package decides its group.
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

func main() {
	binary := flag.String("kelson", "bin/kelson", "the program, for Linux")
	docs := flag.String("docs", "", "page in which the table is replaced")
	top := flag.Int("top", 0, "also print this many packages, by size")
	flag.Parse()
	if err := run(*binary, *docs, *top); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(binary, docs string, top int) error {
	file, err := elf.Open(binary)
	if err != nil {
		return err
	}
	defer file.Close()
	code, err := codeByPackage(file)
	if err != nil {
		return fmt.Errorf("read the functions of %s: %w", binary, err)
	}
	if top > 0 {
		for _, name := range bySize(code)[:min(top, len(code))] {
			fmt.Printf("%7.2f MB %s\n", mb(code[name]), name)
		}
	}
	table := report(file, code)
	fmt.Print(table)
	if docs == "" {
		return nil
	}
	return section.Replace(docs, begin, end, "\n"+table+"\n")
}

// codeByPackage returns the bytes of machine code of each package, from the table that the runtime
// uses for stack traces. Stripped programs contain this table, too.
func codeByPackage(file *elf.File) (map[string]int64, error) {
	text, table := file.Section(".text"), file.Section(".gopclntab")
	if text == nil || table == nil {
		return nil, errors.New("not a Go program for Linux")
	}
	data, err := table.Data()
	if err != nil {
		return nil, err
	}
	functions, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, err
	}
	code := map[string]int64{}
	for _, f := range functions.Funcs {
		code[packageOf(f.Name)] += int64(f.End - f.Entry)
	}
	return code, nil
}

func bySize(sizes map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// packageOf returns the import path in the name of a function.
func packageOf(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "type:.eq."), "type:.hash.")
	name = strings.TrimLeft(name, "*[]0123456789")
	name, _, _ = strings.Cut(name, "[")
	name, _, _ = strings.Cut(name, "(")
	slash := strings.LastIndex(name, "/")
	dot := strings.Index(name[slash+1:], ".")
	if dot < 0 {
		return "runtime" // functions in assembly
	}
	return name[:slash+1+dot]
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

func report(file *elf.File, code map[string]int64) string {
	var loaded, all int64
	for _, s := range file.Sections {
		if s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_ALLOC != 0 {
			loaded += int64(s.Size)
		}
	}
	groups, number := map[string]int64{}, map[string]int{}
	for name, size := range code {
		groups[groupOf(name)] += size
		number[groupOf(name)]++
		all += size
	}
	text, tables := int64(file.Section(".text").Size), int64(file.Section(".gopclntab").Size)
	var b strings.Builder
	fmt.Fprintf(&b, "The program has %.1f MB: %.1f MB of machine code, %.1f MB of tables about it, and\n%.1f MB of constants, types and embedded files.\n\n",
		mb(loaded), mb(text), mb(tables), mb(loaded-text-tables))
	b.WriteString("| packages | number | code, MB | code and its tables, MB |\n|---|--:|--:|--:|\n")
	for _, name := range bySize(groups) {
		if size := groups[name]; size >= 100_000 {
			fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f |\n", name, number[name], mb(size),
				mb(size)*(1+float64(tables)/float64(all)))
		}
	}
	return b.String()
}

const (
	begin = "<!-- bench/size -->\n"
	end   = "<!-- end of bench/size -->\n"
)
