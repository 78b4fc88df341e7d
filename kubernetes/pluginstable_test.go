package kubernetes_test

import (
	"testing"

	"kelson.dev/apiserver/admission"
	"kelson.dev/kubernetes/plugins"
)

// Every plugin is listed once, and only those that exist can be enabled.
func TestTable(t *testing.T) {
	table := plugins.Table()
	seen := map[string]bool{}
	for _, row := range table {
		if seen[row.Name] {
			t.Errorf("%s is in the table twice", row.Name)
		}
		seen[row.Name] = true
		err := admission.Config{Enable: []string{row.Name}}.Check(table)
		if exists := row.New != nil; (err == nil) != exists {
			t.Errorf("enable %s: %v, exists: %v", row.Name, err, exists)
		}
	}
	for _, row := range admission.Generic() {
		if !seen[row.Name] {
			t.Errorf("the engine's plugin %s is not in the table", row.Name)
		}
	}
}
