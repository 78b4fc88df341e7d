package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/assert"
)

// Objects share the memory of equal field sets. Concurrent writers with all verbs do not affect
// each other's managedFields.
func TestConcurrentWritersOwnTheirFields(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	writeHistory := func(name string) string { // the managers and their fields at the end
		path, merge, apply := widgetsPath+"/"+name, "application/merge-patch+json", "application/apply-patch+yaml"
		var last *answer
		for _, step := range [][]string{
			{"POST", widgetsPath + "?fieldManager=maker", widget(name, `{"color":"green","ports":[{"port":1}]}`),
				"application/json"},
			{"PATCH", path + "?fieldManager=painter", `{"spec":{"replicas":2}}`, merge},
			{"PATCH", path + "?fieldManager=applier&force=true", widget(name, `{"color":"green","replicas":3}`), apply},
			{"PATCH", path + "?fieldManager=applier", widget(name, `{"color":"green","replicas":4}`), apply},
			{"PATCH", path + "?fieldManager=painter", `{"metadata":{"labels":{"a":"b"}}}`, merge},
			{"GET", path, "", "application/json"},
		} {
			if last = p.do(step[0], step[1], step[2], "Content-Type", step[3]); last.code > 201 {
				return string(last.body)
			}
		}
		var owners []string
		for _, entry := range last.object().GetManagedFields() {
			owners = append(owners, entry.Manager+" "+entry.FieldsV1.GetRawString())
		}
		slices.Sort(owners) // the server sorts them by time, in seconds
		return strings.Join(owners, "\n")
	}
	want := writeHistory("first")
	for _, part := range []string{"applier", "maker", "painter", `"f:replicas":{}`, `"f:labels"`} {
		if !strings.Contains(want, part) {
			t.Errorf("%s is missing:\n%s", part, want)
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				assert.Equal(t, writeHistory(fmt.Sprintf("w-%d-%d", i, n)), want)
			}
		})
	}
	wg.Wait()
}
