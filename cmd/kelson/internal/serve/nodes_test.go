package serve

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
)

// --nodes takes groups and files; a bad value is one line that names the flag.
func TestNodesFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Node\nmetadata: {name: big}\n"), 0o600))
	for _, test := range []struct {
		node  string
		nodes []string
		count int
		error string
	}{
		{node: nodeNone},
		{node: nodeSimulated, nodes: []string{"3"}, count: 3},
		{node: nodeSimulated, nodes: []string{"2,zone=a/b", "1,zone=c", file}, count: 4},
		{node: nodeSimulated, nodes: []string{"0"}, error: "--nodes \"0\": 0 nodes: must be between"},
		{node: nodeSimulated, nodes: []string{""}, error: "--nodes \"\": want a number of nodes first"},
		{node: nodeSimulated, nodes: []string{"2,zones=a"},
			error: "--nodes \"2,zones=a\": \"zones\": unknown setting"},
		{node: nodeSimulated, nodes: []string{"missing.yaml"},
			error: "--nodes open missing.yaml: no such file"},
		{node: nodeSimulated, nodes: []string{file, file}, error: "--nodes: node \"big\": given twice"},
		{node: nodeSimulated, nodes: []string{"6000", "6000"},
			error: "--nodes: 12000 nodes: at most 10000"},
		{node: nodeProcess, nodes: []string{"3"}, error: "--nodes needs --node=simulated"},
		{node: nodeNone, nodes: []string{"3"}, error: "--nodes needs --node=simulated"},
	} {
		var cfg controlplane.Config
		err := (&Options{Node: test.node, nodes: test.nodes}).cluster(&cfg, io.Discard)
		if (err == nil) != (test.error == "") ||
			err != nil && (!strings.Contains(err.Error(), test.error) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v: %v, want %q", test.nodes, err, test.error)
			continue
		}
		node, _ := cfg.Node.(controlplane.Simulated)
		if nodes, _ := simulatednodes.Nodes(node.Groups...); err == nil && len(nodes) != test.count {
			t.Errorf("%v: %d nodes, want %d", test.nodes, len(nodes), test.count)
		}
	}
}

// --stages takes files and folders; a bad Stage is one line that names the file.
func TestStagesFlag(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "stages.yaml")
		err := os.WriteFile(file, []byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec: "+text), 0o600)
		require.NoError(t, err)
		return file
	}
	good := write("{resourceRef: {kind: Pod}}")
	for _, test := range []struct {
		node  string
		stage string
		error string
	}{
		{node: nodeSimulated, stage: good},
		{node: nodeSimulated, stage: filepath.Dir(good)},
		{node: nodeNone, stage: good, error: "--stages needs --node=simulated"},
		{node: nodeSimulated, stage: "missing.yaml", error: "--stages stat missing.yaml"},
		{node: nodeSimulated, stage: t.TempDir(), error: "contains no Stage"},
		{node: nodeSimulated, stage: write("{resourceRef: {kind: Pod}, weights: 1}"),
			error: `unknown field "weights"`},
		{node: nodeSimulated, stage: write("{resourceRef: {kind: Pod}, next: {statusTemplate: '{{'}}"),
			error: `stage "s": step 1: template:`},
	} {
		var cfg controlplane.Config
		err := (&Options{Node: test.node, stages: []string{test.stage}}).cluster(&cfg, io.Discard)
		if (err == nil) != (test.error == "") ||
			err != nil && (!strings.Contains(err.Error(), test.error) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", test.stage, err, test.error)
		}
		if err == nil {
			if node, ok := cfg.Node.(controlplane.Simulated); !ok || len(node.Stages) != 1 {
				t.Errorf("%s: %v", test.stage, cfg.Node)
			}
		}
	}
}
