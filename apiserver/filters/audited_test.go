package filters_test

import (
	"regexp"
	"testing"

	"kelson.dev/apiserver/filters"
)

// Even without an audit log, each response has an audit ID: the client's, or a new UUID.
func TestAuditID(t *testing.T) {
	c := filters.New(filters.Config{})
	seen := map[string]bool{}
	for _, path := range []string{"/version", "/healthz", "/nothing", "/api/v1/watch"} {
		id := get(c, path).Header().Get("Audit-Id")
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).
			MatchString(id) || seen[id] {
			t.Errorf("%s: Audit-Id %q", path, id)
		}
		seen[id] = true
	}
	if id := get(c, "/version", "Audit-ID: of the client").Header().Get("Audit-Id"); id != "of the client" {
		t.Errorf("Audit-Id %q", id)
	}
	if id := get(c, "/version", "Audit-ID: ").Header().Get("Audit-Id"); len(id) != 36 {
		t.Errorf("empty Audit-ID in the request: %q", id)
	}
}
