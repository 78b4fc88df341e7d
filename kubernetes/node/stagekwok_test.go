package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"kelson.dev/kubernetes/node/stage"
)

// kwok returns the folder of KWOK's Stages. They are part of the module, which the Go tool keeps in
// its cache; the test is skipped where it can't be downloaded.
func kwok(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/kwok@v0.8.0")
	cmd.Dir = t.TempDir() // outside of any module
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		t.Skipf("KWOK's module is not available: %v", err)
	}
	return filepath.Join(module.Dir, "kustomize", "stage")
}

// Unmodified Stages of KWOK, with KWOK's own test data: which Stages match an object, their weights
// and delays, and what they do.
func TestKWOKsOwnTestData(t *testing.T) {
	root := kwok(t)
	inputs, err := filepath.Glob(filepath.Join(root, "*", "*", "testdata", "*.input.yaml"))
	if err != nil || len(inputs) < 10 {
		t.Fatalf("%d inputs, %v", len(inputs), err)
	}
	for _, input := range inputs {
		folder := filepath.Dir(filepath.Dir(input))
		name, _ := filepath.Rel(root, input)
		t.Run(strings.TrimSuffix(name, ".input.yaml"), func(t *testing.T) {
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			if data, err = yaml.YAMLToJSON(data); err != nil {
				t.Fatal(err)
			}
			var kind struct{ APIVersion, Kind string }
			if err := json.Unmarshal(data, &kind); err != nil {
				t.Fatal(err)
			}
			o, err := stage.NewObject(data, kind.APIVersion, kind.Kind)
			if err != nil {
				t.Fatal(err)
			}
			var lifecycle stage.Lifecycle
			for _, s := range stagesOf(t, folder) {
				p, err := stage.Compile(s)
				if err != nil {
					t.Fatal(err)
				}
				if version, name := p.Kind.ToAPIVersionAndKind(); version == kind.APIVersion && name == kind.Kind {
					lifecycle = append(lifecycle, p)
				}
			}
			want, err := os.ReadFile(strings.TrimSuffix(input, ".input.yaml") + ".output.yaml")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, want, played(t, lifecycle, o))
		})
	}
}

// stagesOf reads the Stages of a folder. Some folders also have files without Stages.
func stagesOf(t *testing.T, folder string) (all []*stage.Stage) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base == "storage-class.yaml" || base == "kustomization.yaml" {
			continue
		}
		stages, err := stage.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stages...)
	}
	return all
}

// played returns what a lifecycle does to an object, in the form of KWOK's test data.
func played(t *testing.T, lifecycle stage.Lifecycle, o *stage.Object) any {
	t.Helper()
	now := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)
	candidates, _ := lifecycle.Candidates(t.Context(), o)
	stages := []any{}
	for _, p := range candidates {
		result := map[string]any{"stage": p.Name}
		if shortest, longest, ok := p.DelayRange(t.Context(), o, now); ok {
			result["delay"] = []time.Duration{shortest}
			if longest != shortest {
				result["delay"] = []time.Duration{shortest, longest}
			}
		}
		if weight, ok := p.Weight(t.Context(), o); ok {
			result["weight"] = weight
		}
		actions, err := p.Actions(o, placeholders())
		if err != nil {
			t.Fatal(err)
		}
		next := []any{}
		for _, a := range actions {
			next = append(next, written(a, o))
		}
		if p.Immediate {
			next = append(next, map[string]any{"kind": "immediate"})
		}
		result["next"] = next
		stages = append(stages, result)
	}
	all := map[string]any{"apiGroup": o.GetAPIVersion(), "kind": o.GetKind(), "name": o.GetName(), "stages": stages}
	if o.GetNamespace() != "" {
		all["namespace"] = o.GetNamespace()
	}
	return all
}

func written(a stage.Action, o *stage.Object) map[string]any {
	switch {
	case a.Event != nil:
		return map[string]any{"kind": "event", "type": a.Event.Type, "reason": a.Event.Reason,
			"message": a.Event.Message}
	case a.Delete:
		return map[string]any{"kind": "delete"}
	}
	out := map[string]any{"kind": "patch", "type": a.Type, "data": json.RawMessage(a.Data)}
	if a.Other {
		out["kind"] = "apply"
	} else if o.GetKind() == "Pod" || o.GetKind() == "Node" {
		// KWOK's test has no Go types, for which it makes strategic patches
		if a.Type == types.StrategicMergePatchType {
			out["type"] = types.MergePatchType
		}
	}
	if a.Subresource != "" {
		out["subresource"] = a.Subresource
	}
	if a.User != "" {
		out["impersonation"] = a.User
	}
	return out
}

// placeholders are the functions that KWOK's test replaces, with the same results.
func placeholders() stage.Functions {
	text := func(name string, args []any) string {
		if len(args) == 0 {
			return name
		}
		var texts []string
		for _, arg := range args {
			texts = append(texts, fmt.Sprintf("%#v", arg))
		}
		return fmt.Sprintf("%s(%s)", name, strings.Join(texts, ", "))
	}
	all := stage.Functions{}
	for _, name := range []string{"NodeIP", "NodeName", "NodePort", "PodIP", "NodeIPWith", "PodIPWith", "Now", "now",
		"Version"} {
		all[name] = func(args ...any) any { return "<" + text(name, args) + ">" }
	}
	for _, name := range []string{"NodeIPsWith", "PodIPsWith"} {
		all[name] = func(args ...any) any {
			return []any{"<0 of " + text(name, args) + ">", "<1 of " + text(name, args) + ">"}
		}
	}
	return all
}

func compare(t *testing.T, want []byte, got any) {
	t.Helper()
	var wanted, had any
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &had); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(want, &wanted); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(wanted, had) {
		shown, _ := yaml.Marshal(had)
		t.Errorf("got\n%s\nwant\n%s", shown, want)
	}
}

// All Stages of KWOK compile, including those without test data.
func TestAllOfKWOKsStagesCompile(t *testing.T) {
	root := kwok(t)
	folders, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, folder := range folders {
		if filepath.Base(folder) == "rbac" {
			continue
		}
		count += len(stagesOf(t, folder))
	}
	if count < 18 {
		t.Errorf("only %d Stages", count)
	}
}
