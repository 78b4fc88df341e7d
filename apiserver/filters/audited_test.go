package filters_test

import (
	"regexp"
	"testing"

	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/assert"
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
	id := get(c, "/version", "Audit-ID: of the client").Header().Get("Audit-Id")
	assert.Equalf(t, id, "of the client", "Audit-Id")
	id = get(c, "/version", "Audit-ID: ").Header().Get("Audit-Id")
	assert.Equalf(t, len(id), 36, "empty Audit-ID in the request: %q", id)
}
