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

	"kelson.dev/apiserver/store/storetest"
)

// someMetadata is what clients, managers and servers put into metadata, and what they should not.
func (a author) someMetadata() map[string]any {
	m := a.metadata()
	m["namespace"], m["uid"], m["creationTimestamp"], m["generation"] = "default", "u", "2026-01-02T03:04:05Z", int64(3)
	m["resourceVersion"] = "7"
	if a.IntN(2) == 0 {
		entry := map[string]any{"manager": a.one("ann", strings.Repeat("x", 129), "b\x01"), "operation": a.one("Update", "Apply", "Update", "Upsert"),
			"apiVersion": "example.com/v1", "fieldsType": a.one("FieldsV1", "FieldsV1", "FieldsV1", "FieldsV2"), "time": "2026-01-02T03:04:05Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{}}}
		if a.IntN(3) == 0 {
			entry["subresource"] = a.one("status", strings.Repeat("s", 300))
		}
		m["managedFields"] = []any{entry}
	}
	switch a.IntN(24) {
	case 0:
		m["name"] = a.one("Not_A_Name", "a/b", "..")
	case 1:
		m["namespace"] = a.one("other", "Default")
	case 2:
		m["uid"] = "v"
	case 3:
		m["labels"] = map[string]any{a.one("-", "ok/ok", "a/b/c"): a.one("!", "x")}
	case 4:
		m["annotations"] = map[string]any{"A_b/-": "x", "long": strings.Repeat("x", 300_000*a.IntN(2))}
	case 5:
		m["finalizers"] = []any{a.one("plain", "example.com/a", "not a name"), "example.com/b"}
	case 6:
		delete(m, a.one("uid", "creationTimestamp", "namespace", "generation", "name"))
	case 7:
		m["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	case 8:
		m["deletionGracePeriodSeconds"] = int64(0)
	case 9:
		m["generateName"] = a.one("w-", "W_")
	case 10:
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": a.one("Pod", "Event"), "name": "p", "uid": "1"}}
	case 11:
		m["creationTimestamp"] = "2025-01-02T03:04:05Z"
	case 12:
		m["selfLink"] = "/x"
	case 13:
		m["generation"] = int64(9)
	}
	return m
}

// someParts has now and then what the schema forbids.
func (a author) someParts() map[string]any {
	parts := map[string]any{"spec": a.spec()}
	if a.IntN(2) == 0 {
		parts["status"] = a.status()
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

// CRD-01, CRD-02: what is done to a write without asking the library is what that does.
func TestShortcutsAreTheLibrarysWays(t *testing.T) {
	for name, rule := range map[string]string{"plain": "", "with a rule": `"x-kubernetes-validations":[{"rule":"!has(self.text) || self.text != 'bad'","message":"no"}],`} {
		t.Run(name, func(t *testing.T) { shortcutsAreTheLibrarysWays(t, rule) })
	}
}

func shortcutsAreTheLibrarysWays(t *testing.T, rule string) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(strings.Replace(ownedDefinition, `"spec":{"type":"object",`, `"spec":{"type":"object",`+rule, 1)), &definition); err != nil {
		t.Fatal(err)
	}
	klog.SetLogger(logr.Discard()) // the library says there what it finds twice
	t.Cleanup(klog.ClearLogger)
	seed := storetest.Seed(t)
	a := newAuthor(seed, 9)
	k := compile(nil, &definition, 1)
	main, status := &strategy{compiled: k, hub: "v1"}, &strategy{compiled: k, hub: "v1", status: true}
	taken, valid, tries := 0, 0, 8000
	for range tries {
		ctx := request.WithNamespace(t.Context(), a.one("default", "default", "default", "other"))
		warned := &recorder{}
		ctx = warning.WithWarningRecorder(ctx, warned)
		next := widgetOf(a.someMetadata(), a.someParts())
		if a.IntN(30) == 0 {
			next.Object["kind"] = "Gadget"
		}
		var old *unstructured.Unstructured
		s := main
		if a.IntN(3) > 0 {
			// What is stored was valid.
			old = widgetOf(map[string]any{"name": "w", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": int64(3),
				"resourceVersion": "7"}, map[string]any{"spec": a.spec()})
			for name, value := range a.metadata() {
				if words, ok := value.(map[string]any); ok {
					delete(words, `q"\<é`)
				}
				old.Object["metadata"].(map[string]any)[name] = value
			}
			if a.IntN(2) == 0 {
				old.Object["status"] = a.status()
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
		before := text(next) + "\nover " + text(old)
		got, want := next.DeepCopy(), next.DeepCopy()
		var gotErr, wantErr error
		done := false
		if old == nil {
			if wantErr = upstream.BeforeCreate(s, ctx, want); wantErr == nil && len(warned.said) > 0 {
				wantErr = fmt.Errorf("%v", warned.said)
			}
			errs, ok := s.BeforeCreate(ctx, got)
			gotErr, done = errs.ToAggregate(), ok
		} else {
			if wantErr = upstream.BeforeUpdate(s, ctx, want, old.DeepCopy()); wantErr == nil && len(warned.said) > 0 {
				wantErr = fmt.Errorf("%v", warned.said)
			}
			errs, ok := s.BeforeUpdate(ctx, got, old)
			gotErr, done = errs.ToAggregate(), ok
		}
		switch {
		case !done:
			if text(got) != text(next) {
				t.Fatalf("changed, but not done:\n%s\ninto %s", before, text(got))
			}
			continue
		case gotErr == nil && (wantErr != nil || text(got) != text(want)):
			t.Fatalf("of %s\ncame %s\nwant %s %v", before, text(got), text(want), wantErr)
		case gotErr != nil && (wantErr == nil || !strings.Contains(wantErr.Error(), strings.Trim(gotErr.Error(), "[]"))):
			t.Fatalf("of %s\ncame %v\nwant %v", before, gotErr, wantErr)
		}
		if old != nil && !strings.HasSuffix(before, text(old)) {
			t.Fatalf("%s\nthe old object has become\n%s", before, text(old))
		}
		if taken++; gotErr == nil {
			valid++
		}
	}
	t.Logf("of %d writes %d went the short way, %d of them were valid", tries, taken, valid)
	if taken < tries/10 || valid < tries/20 {
		t.Errorf("of %d writes only %d went the short way, %d of them were valid", tries, taken, valid)
	}
}

type recorder struct{ said []string }

func (r *recorder) AddWarning(_, text string) { r.said = append(r.said, text) }
