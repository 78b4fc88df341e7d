package crd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// generator extends crdtest's generator with metadata and values that the library may reject.
type generator struct{ crdtest.Generator }

func newGenerator(seed, stream uint64) generator {
	return generator{crdtest.NewGenerator(seed, stream)}
}

// someParts returns a spec and a status, which sometimes violate the schema.
func (a generator) someParts() map[string]any {
	parts := map[string]any{"spec": a.Spec()}
	if a.IntN(2) == 0 {
		parts["status"] = a.Status()
	}
	switch a.IntN(12) {
	case 0:
		parts["spec"] = map[string]any{"count": "many"}
	case 1:
		parts["spec"] = map[string]any{"set": []any{"a", "a"}}
	case 2:
		parts["status"] = map[string]any{"seen": "no"}
	case 3:
		parts["status"] = map[string]any{"conditions": []any{map[string]any{"type": "A"}, map[string]any{"type": "A"}}}
	case 4:
		delete(parts, "spec")
	case 5:
		parts["spec"] = map[string]any{"text": "bad"}
	}
	return parts
}

// TestShortcutMatchesLibrary prepares and validates random writes with the strategy's fast path and
// with the library. Both must change the object in the same way and report the same errors.
func TestShortcutMatchesLibrary(t *testing.T) {
	for name, rule := range map[string]string{"plain": "",
		"with a rule": `"x-kubernetes-validations":[{"rule":"!has(self.text) || self.text != 'bad'","message":"no"}],`} {
		t.Run(name, func(t *testing.T) { shortcutMatchesLibrary(t, rule) })
	}
}

func shortcutMatchesLibrary(t *testing.T, rule string) {
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(crdtest.Definition, `"spec":{"type":"object",`,
		`"spec":{"type":"object",`+rule, 1)), &definition))
	klog.SetLogger(logr.Discard()) // the library logs duplicate list entries
	t.Cleanup(klog.ClearLogger)
	seed := randomtest.Seed(t)
	a := newGenerator(seed, 9)
	k := compile(nil, &definition, 1)
	main, status := &strategy{compiled: k, hub: "v1"}, &strategy{compiled: k, hub: "v1", status: true}
	taken, valid, tries := 0, 0, 8000
	for range tries {
		ctx := request.WithNamespace(t.Context(), a.One("default", "default", "default", "other"))
		warned := &recorder{}
		ctx = warning.WithWarningRecorder(ctx, warned)
		next := crdtest.Widget(a.AnyMetadata(), a.someParts())
		if a.IntN(30) == 0 {
			next.Object["kind"] = "Gadget"
		}
		var old *unstructured.Unstructured
		s := main
		if a.IntN(3) > 0 {
			// Stored objects are valid.
			old = crdtest.Widget(map[string]any{"name": "w", "namespace": "default", "uid": "u",
				"creationTimestamp": "2026-01-02T03:04:05Z", "generation": int64(3),
				"resourceVersion": "7"}, map[string]any{"spec": a.Spec()})
			for name, value := range a.Metadata() {
				if words, ok := value.(map[string]any); ok {
					delete(words, `q"\<é`)
				}
				old.Object["metadata"].(map[string]any)[name] = value
			}
			if a.IntN(2) == 0 {
				old.Object["status"] = a.Status()
			}
			if a.IntN(2) == 0 {
				next.Object["spec"] = old.DeepCopy().Object["spec"]
			}
			if a.IntN(2) == 0 {
				metadata := old.DeepCopy().Object["metadata"].(map[string]any)
				if owners := next.Object["metadata"].(map[string]any)["managedFields"]; owners != nil {
					metadata["managedFields"] = owners
				}
				next.Object["metadata"] = metadata
			}
			if a.IntN(3) == 0 {
				s = status
			}
		}
		before := crdtest.Text(next) + "\nover " + crdtest.Text(old)
		got, want := next.DeepCopy(), next.DeepCopy()
		var gotErr, wantErr error
		done := false
		if old == nil {
			if wantErr = upstream.BeforeCreate(s, ctx, want); wantErr == nil && len(warned.texts) > 0 {
				wantErr = fmt.Errorf("%v", warned.texts)
			}
			errs, ok := s.BeforeCreate(ctx, got)
			gotErr, done = errs.ToAggregate(), ok
		} else {
			if wantErr = upstream.BeforeUpdate(s, ctx, want, old.DeepCopy()); wantErr == nil && len(warned.texts) > 0 {
				wantErr = fmt.Errorf("%v", warned.texts)
			}
			errs, ok := s.BeforeUpdate(ctx, got, old)
			gotErr, done = errs.ToAggregate(), ok
		}
		switch {
		case !done:
			if crdtest.Text(got) != crdtest.Text(next) {
				t.Fatalf("declined, but changed the object\n%s\ninto %s", before, crdtest.Text(got))
			}
			continue
		case gotErr == nil && (wantErr != nil || crdtest.Text(got) != crdtest.Text(want)):
			t.Fatalf("%s\ngot  %s\nwant %s %v", before, crdtest.Text(got), crdtest.Text(want), wantErr)
		case gotErr != nil && (wantErr == nil || !strings.Contains(wantErr.Error(),
			strings.Trim(gotErr.Error(), "[]"))):
			t.Fatalf("%s\ngot  %v\nwant %v", before, gotErr, wantErr)
		}
		if old != nil && !strings.HasSuffix(before, crdtest.Text(old)) {
			t.Fatalf("%s\nchanged the old object into\n%s", before, crdtest.Text(old))
		}
		if taken++; gotErr == nil {
			valid++
		}
	}
	t.Logf("of %d writes %d took the fast path, %d of them valid", tries, taken, valid)
	if taken < tries/10 || valid < tries/20 {
		t.Errorf("of %d writes only %d took the fast path, %d of them valid", tries, taken, valid)
	}
}

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }
