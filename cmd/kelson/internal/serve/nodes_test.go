package serve

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
)

// --nodes takes groups and files; a bad value is one line that names the flag.
func TestNodesFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Node\nmetadata: {name: big}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		node  controlplane.Node
		nodes []string
		count int
		error string
	}{
		{node: controlplane.NodeNone},
		{node: controlplane.NodeSimulated, nodes: []string{"3"}, count: 3},
		{node: controlplane.NodeSimulated, nodes: []string{"2,zone=a/b", "1,zone=c", file}, count: 4},
		{node: controlplane.NodeSimulated, nodes: []string{"0"}, error: "--nodes \"0\": 0 nodes: must be between"},
		{node: controlplane.NodeSimulated, nodes: []string{""}, error: "--nodes \"\": want a number of nodes first"},
		{node: controlplane.NodeSimulated, nodes: []string{"2,zones=a"},
			error: "--nodes \"2,zones=a\": \"zones\": unknown setting"},
		{node: controlplane.NodeSimulated, nodes: []string{"missing.yaml"},
			error: "--nodes open missing.yaml: no such file"},
		{node: controlplane.NodeSimulated, nodes: []string{file, file}, error: "--nodes: node \"big\": given twice"},
		{node: controlplane.NodeSimulated, nodes: []string{"6000", "6000"},
			error: "--nodes: 12000 nodes: at most 10000"},
		{node: controlplane.NodeProcess, nodes: []string{"3"}, error: "--nodes needs --node=simulated"},
		{node: controlplane.NodeNone, nodes: []string{"3"}, error: "--nodes needs --node=simulated"},
	} {
		var cfg controlplane.Config
		err := (&Options{Node: string(test.node), nodes: test.nodes}).cluster(&cfg, io.Discard)
		if (err == nil) != (test.error == "") ||
			err != nil && (!strings.Contains(err.Error(), test.error) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v: %v, want %q", test.nodes, err, test.error)
			continue
		}
		if nodes, _ := simulatednodes.Nodes(cfg.Nodes...); err == nil && len(nodes) != test.count {
			t.Errorf("%v: %d nodes, want %d", test.nodes, len(nodes), test.count)
		}
	}
}

// --stages takes files and folders; a bad Stage is one line that names the file.
func TestStagesFlag(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "stages.yaml")
		if err := os.WriteFile(file, []byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec: "+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("{resourceRef: {kind: Pod}}")
	for _, test := range []struct {
		node  controlplane.Node
		stage string
		error string
	}{
		{node: controlplane.NodeSimulated, stage: good},
		{node: controlplane.NodeSimulated, stage: filepath.Dir(good)},
		{node: controlplane.NodeNone, stage: good, error: "--stages needs --node=simulated"},
		{node: controlplane.NodeSimulated, stage: "missing.yaml", error: "--stages stat missing.yaml"},
		{node: controlplane.NodeSimulated, stage: t.TempDir(), error: "contains no Stage"},
		{node: controlplane.NodeSimulated, stage: write("{resourceRef: {kind: Pod}, weights: 1}"),
			error: `unknown field "weights"`},
		{node: controlplane.NodeSimulated, stage: write("{resourceRef: {kind: Pod}, next: {statusTemplate: '{{'}}"),
			error: `stage "s": step 1: template:`},
	} {
		var cfg controlplane.Config
		err := (&Options{Node: string(test.node), stages: []string{test.stage}}).cluster(&cfg, io.Discard)
		if (err == nil) != (test.error == "") ||
			err != nil && (!strings.Contains(err.Error(), test.error) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", test.stage, err, test.error)
		}
		if err == nil && len(cfg.Stages) != 1 {
			t.Errorf("%s: %d Stages", test.stage, len(cfg.Stages))
		}
	}
}
