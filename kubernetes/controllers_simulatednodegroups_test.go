package kubernetes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
)

// Groups of nodes as on the command line.
func TestParseGroup(t *testing.T) {
	first, err := simulatednodes.ParseGroup("3,cpu=4,example.com/gpu=2,zone=a/b,region=r,label=disk=ssd,label=x=,taint=dedicated=db:NoSchedule,taint=spot:NoExecute")
	require.NoError(t, err)
	second, err := simulatednodes.ParseGroup("1")
	require.NoError(t, err)
	nodes, err := simulatednodes.Nodes(first, second)
	if err != nil || len(nodes) != 4 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i, zone := range []string{"a", "b", "a", ""} {
		n := nodes[i]
		if want := "node-" + string(rune('1'+i)); n.Name != want || n.Labels[corev1.LabelTopologyZone] != zone {
			t.Errorf("node %d: %s in zone %q", i, n.Name, n.Labels[corev1.LabelTopologyZone])
		}
		if n.Annotations[simulatednodes.Annotation] != simulatednodes.AnnotationValue {
			t.Errorf("%s is not marked as simulated", n.Name)
		}
	}
	n := nodes[0]
	if n.Labels["disk"] != "ssd" || n.Labels["x"] != "" || n.Labels[corev1.LabelTopologyRegion] != "r" {
		t.Errorf("labels %v", n.Labels)
	}
	if cpu, gpu, pods := n.Status.Capacity.Cpu(), n.Status.Capacity["example.com/gpu"],
		n.Status.Capacity.Pods(); cpu.Value() != 4 || gpu.Value() != 2 || pods.Value() != 1000 {
		t.Errorf("capacity %v", n.Status.Capacity)
	}
	if len(n.Spec.Taints) != 2 || n.Spec.Taints[0] != (corev1.Taint{Key: "dedicated", Value: "db",
		Effect: "NoSchedule"}) ||
		n.Spec.Taints[1] != (corev1.Taint{Key: "spot", Effect: "NoExecute"}) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
}

// Errors are one line that quotes the invalid value.
func TestBadGroups(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "want a number of nodes first",
		"x":                                  "want a number of nodes first",
		"0":                                  "must be between 1 and 10000",
		"-1":                                 "must be between 1 and 10000",
		"10001":                              "must be between 1 and 10000",
		"3,zone":                             `"zone": want KEY=VALUE`,
		"3,zone=":                            "want KEY=VALUE",
		"3,cpus=4":                           `"cpus": unknown setting`,
		"3,cpu=many":                         `"cpu=many": quantities must match`,
		"3,cpu=-1":                           "must not be negative",
		"3,label=a":                          "want label=KEY=VALUE",
		"3,label=a b=c":                      `label "a b"`,
		"3,zone=a b":                         `label value "a b"`,
		"3,taint=a":                          "want taint=KEY=VALUE:EFFECT",
		"3,taint=a:Never":                    `taint effect "Never": must be NoSchedule`,
		"3,name=Node":                        `name "Node-1"`,
		"3,name=" + strings.Repeat("x", 300): "no more than 253",
	} {
		_, err := simulatednodes.ParseGroup(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q", text, err, want)
		}
	}
	twice := simulatednodes.Group{Count: 1, Name: "a"}
	if _, err := simulatednodes.Nodes(twice, simulatednodes.Group{Node: &corev1.Node{}}); err == nil {
		t.Error("a node without a name is accepted")
	}
	same := &corev1.Node{}
	same.Name = "a-1"
	_, err := simulatednodes.Nodes(twice, simulatednodes.Group{Node: same})
	assert.ErrorContainsf(t, err, "given twice", "the same name twice")
}

// A file of Node manifests.
func TestLoad(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "nodes.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	groups, err := simulatednodes.Load(write(`# two nodes
---
apiVersion: v1
kind: Node
metadata:
  name: big
  labels: {size: big}
status:
  allocatable: {cpu: "7"}
  capacity: {cpu: "8"}
---
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "small"}}
`))
	require.NoError(t, err)
	nodes, err := simulatednodes.Nodes(groups...)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "big" || nodes[0].Status.Allocatable.Cpu().Value() != 7 ||
		nodes[1].Name != "small" {
		t.Errorf("%v, %v", nodes, err)
	}
	for text, want := range map[string]string{
		"": "contains no Node",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n":                         "want Nodes of v1",
		"apiVersion: v1\nkind: Node\nmetadata: {name: x}\nstatus: {capacities: 1}": "unknown field",
		"apiVersion: v1\nkind: Node\nmetadata: {name: X}\n":                        `name "X"`,
		"[": "yaml",
	} {
		_, err := simulatednodes.Load(write(text))
		assert.ErrorContainsf(t, err, want, "%q", text)
	}
	if _, err := simulatednodes.Load("missing.yaml"); err == nil {
		t.Error("a missing file is accepted")
	}
}
