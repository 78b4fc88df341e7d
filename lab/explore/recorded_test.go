package explore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/history"
)

// recordShops writes a history: a user creates, changes and deletes a Shop, and its operator writes
// its status; the user also creates another Shop, and changes it together with the first.
func recordShops(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	w, err := history.NewWriter(&file)
	if err == nil {
		err = w.Resource(history.Resource{Group: "example.com", Version: "v1", Resource: "shops", Kind: "Shop",
			Singular: "shop", Namespaced: true})
	}
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	revision := uint64(0)
	put := func(name string, after time.Duration, metadata, rest string) {
		revision++
		at = at.Add(after)
		key := history.Key{Resource: "shops.example.com", Namespace: "default", Name: name}
		if err == nil && rest == "" {
			err = w.Delete(key, revision, at)
		} else if err == nil {
			err = w.Put(key, revision, at, fmt.Appendf(nil,
				`{"apiVersion":"example.com/v1","kind":"Shop","metadata":{"name":%q,"namespace":"default","uid":"u-%s"%s},%s}`, name, name, metadata, rest))
		}
	}
	put("a", 0, "", `"spec":{"size":1}`)
	put("a", time.Minute, `,"finalizers":["x/y"]`, `"spec":{"size":1}`)
	put("b", time.Minute, "", `"spec":{"size":1}`)
	put("a", time.Minute, `,"finalizers":["x/y"]`, `"spec":{"size":2}`)
	put("b", time.Millisecond, "", `"spec":{"size":2}`)
	put("a", time.Minute, `,"finalizers":["x/y"]`, `"spec":{"size":2},"status":{"ready":true}`)
	put("a", time.Minute, `,"finalizers":["x/y"],"deletionTimestamp":"2026-11-23T10:05:00Z"`, `"spec":{"size":2}`)
	put("a", time.Second, "", "")
	if err == nil {
		err = w.Flush()
	}
	name := filepath.Join(t.TempDir(), "incident.history")
	if err == nil {
		err = os.WriteFile(name, file.Bytes(), 0o644)
	}
	require.NoError(t, err)
	return name
}

// The writes of users in a history become inputs; those of the operator do not.
func TestRecorded(t *testing.T) {
	file := recordShops(t)
	inputs, err := explore.Recorded(file, "shop")
	require.NoError(t, err)
	var names []string
	for _, i := range inputs {
		names = append(names, i.String())
	}
	want := []string{"create Shop default/a", "create Shop default/b", "change Shop default/a, Shop default/b",
		"delete Shop default/a"}
	assert.Slice(t, names, want)
	_, err = explore.Recorded(file, "ship")
	assert.ErrorContains(t, err, `0 resources are called "ship"; it has shops.example.com`)
}

// An exploration repeats a history that explore.yaml names.
func TestExploresRecorded(t *testing.T) {
	dir := project(t, "inputs: [{history: incident.history, resources: [shops]}]\n")
	content, err := os.ReadFile(recordShops(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "incident.history"), content, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config/crd/bases/shops.yaml"),
			[]byte(strings.Replace(shopDefinition, "{type: object}",
				"{type: object, x-kubernetes-preserve-unknown-fields: true}", 1)), 0o644)
	}
	require.NoError(t, err)
	s, err := explore.Project(dir, eachConfigMap(nil).Operator)
	require.NoError(t, err)
	alarms, steps := explore.ReplayPlan(t, s, "no faults")
	if got := strings.Join(steps, "\n"); len(alarms) > 0 ||
		!strings.Contains(got, "input: change Shop default/a, Shop default/b") {
		t.Errorf("%v\n%s", alarms, got)
	}
	_, err = explore.Project(project(t, "inputs: [{history: incident.history}]\n"), nil)
	assert.ErrorContains(t, err, "history needs resources")
}
