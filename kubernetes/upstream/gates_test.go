package upstream_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"kelson.dev/internal/require"
)

// states returns the feature gates of the linked kube-apiserver, whose packages register them, with
// their stages and defaults.
func states() map[string]string {
	all := map[string]string{}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		stage := string(spec.PreRelease)
		if spec.PreRelease == featuregate.GA {
			stage = "GA"
		}
		state := map[bool]string{true: "on", false: "off"}[spec.Default]
		if spec.LockToDefault {
			state += ",locked"
		}
		all[string(name)] = stage + " " + state
	}
	return all
}

// Each feature gate of kube-apiserver is in gates.txt with its stage, its default and a decision. A
// gate that changes its default must be looked at again.
//
//	linked  only Kubernetes' own code reads it, in packages that kelson links
//	nodes   only kubelet and kube-proxy read it, which kelson-node links
//	ours    kelson's code reads it, because that code implements again what reads it in Kubernetes
//	none    the gate has no effect, for the reason that follows
func TestFeatureGates(t *testing.T) {
	now := states()
	if len(now) < 100 {
		t.Fatalf("only %d feature gates", len(now))
	}
	type row struct{ state, decision, reason string }
	table := map[string]row{}
	for _, r := range rows(t, "gates.txt") {
		if len(r) < 4 {
			t.Errorf("gates.txt: %q has not the form: name, stage, default, decision, reason", r)
			continue
		}
		table[r[0]] = row{r[1] + " " + r[2], r[3], strings.Join(r[4:], " ")}
	}
	if *update {
		var b strings.Builder
		b.WriteString("# The feature gates of kube-apiserver: name, stage, default, decision, reason. go test ./kubernetes/upstream -update\n" +
			"# writes the first three; TestFeatureGates explains the decisions.\n")
		for _, name := range slices.Sorted(maps.Keys(now)) {
			r := table[name]
			if r.decision == "" {
				r.decision = "?"
			}
			b.WriteString(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", name, now[name], r.decision, r.reason)) + "\n")
		}
		require.NoError(t, os.WriteFile("gates.txt", []byte(b.String()), 0o644))
		return
	}
	copied, named := readByCopies(t), namedByUs(t)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		r, found := table[name]
		switch {
		case !found:
			t.Errorf("%s (%s) is new: what does it change?", name, now[name])
			continue
		case r.state != now[name]:
			t.Errorf("%s: was %s, and is %s", name, r.state, now[name])
		}
		switch readers := copied[name]; {
		case strings.Contains(r.state, "locked"): // it always has its default
		case (r.decision == "linked" || r.decision == "nodes") && r.reason == "" && len(readers) > 0:
			t.Errorf("%s: the decision has no reason, but these originals of copies.txt read it: %s", name,
				strings.Join(readers, ", "))
		case r.decision == "ours" && !named[name]:
			t.Errorf("%s: the decision is ours, but no file names it", name)
		case r.decision == "none" && r.reason == "":
			t.Errorf("%s: no reason", name)
		case !slices.Contains([]string{"linked", "nodes", "ours", "none"}, r.decision):
			t.Errorf("%s: decide: linked, nodes, ours, or none with a reason; read by %s", name,
				strings.Join(readers, ", "))
		}
	}
	for name := range table {
		if now[name] == "" {
			t.Errorf("gates.txt: %s is not a feature gate of this version of Kubernetes", name)
		}
	}
}

// readByCopies returns the originals of copies.txt that read each feature gate.
func readByCopies(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for o := range copies(t) {
		ast.Inspect(declarationsOf(t, o.path)[o.name], func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && strings.HasSuffix(x.Name, "features") {
				all[s.Sel.Name] = append(all[s.Sel.Name], o.path+" "+o.name)
			}
			return true
		})
	}
	for _, readers := range all {
		slices.Sort(readers)
	}
	return all
}

// namedByUs returns the feature gates that kelson's own code names.
func namedByUs(t *testing.T) map[string]bool {
	t.Helper()
	var source []byte
	for _, root := range []string{"../../apiserver", "../../kubernetes", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			source = append(source, data...)
			return err
		})
		require.NoError(t, err)
	}
	all := map[string]bool{}
	for name := range states() {
		all[name] = bytes.Contains(source, []byte("eatures."+name)) || bytes.Contains(source, []byte("With"+name)) ||
			bytes.Contains(source, []byte(`"`+name+`"`))
	}
	return all
}
