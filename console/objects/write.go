package objects

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"sigs.k8s.io/yaml"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
)

// maxBody bounds a request to change an object, in bytes; it exceeds the limit of API servers.
const maxBody = 4 << 20

// errReadOnly is the response to changes without --write.
var errReadOnly = web.Errorf(http.StatusForbidden, "the console is read-only; start it with --write to permit changes")

// update replaces an object with the YAML in the body. The server validates strictly: unknown and
// duplicate fields are errors. With dryRun=true, nothing is stored. The response has the object as
// the server would store it, and its warnings.
func (s *Server) update(r *http.Request) (any, error) {
	if !s.Write {
		return nil, errReadOnly
	}
	q := r.URL.Query()
	kind, err := s.Cluster.Kind(q.Get("resource"))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, web.Errorf(http.StatusBadRequest, "%v", err)
	}
	query := url.Values{"fieldValidation": {"Strict"}, "fieldManager": {"kelson-console"}}
	if q.Get("dryRun") == "true" {
		query.Set("dryRun", "All")
	}
	resp, err := s.Cluster.Do(r.Context(), cluster.Request{
		Method: http.MethodPut, Path: kind.Path(q.Get("namespace"), q.Get("name")), Query: query,
		Body: bytes.NewReader(data), ContentType: cluster.JSON,
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var object json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil {
		return nil, err
	}
	return map[string]any{"object": object, "warnings": resp.Header.Values("Warning")}, nil
}

// remove deletes an object, in the background as kubectl delete --wait=false does.
func (s *Server) remove(r *http.Request) (any, error) {
	if !s.Write {
		return nil, errReadOnly
	}
	q := r.URL.Query()
	kind, err := s.Cluster.Kind(q.Get("resource"))
	if err != nil {
		return nil, err
	}
	if q.Get("name") == "" {
		// an empty name would delete the collection
		return nil, web.Errorf(http.StatusBadRequest, "name: required")
	}
	options := `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","preconditions":{"uid":` +
		quote(q.Get("uid")) + `}}`
	if q.Get("uid") == "" {
		return nil, web.Errorf(http.StatusBadRequest, "uid: required, so that no other object with the name is deleted")
	}
	resp, err := s.Cluster.Do(r.Context(), cluster.Request{
		Method: http.MethodDelete, Path: kind.Path(q.Get("namespace"), q.Get("name")),
		Body: bytes.NewReader([]byte(options)), ContentType: cluster.JSON,
	})
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return struct{}{}, nil
}

func quote(s string) string {
	data, _ := json.Marshal(s) // strings can always be encoded
	return string(data)
}
