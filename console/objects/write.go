package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, web.Errorf(http.StatusRequestEntityTooLarge, "the object is larger than %d bytes", tooLarge.Limit)
	}
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
	uid, policy := types.UID(q.Get("uid")), metav1.DeletePropagationBackground
	switch {
	case q.Get("name") == "": // would delete the collection
		return nil, web.Errorf(http.StatusBadRequest, "name: required")
	case uid == "":
		return nil, web.Errorf(http.StatusBadRequest, "uid: required, so that no other object with the name is deleted")
	}
	options, err := json.Marshal(metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return nil, err
	}
	resp, err := s.Cluster.Do(r.Context(), cluster.Request{
		Method: http.MethodDelete, Path: kind.Path(q.Get("namespace"), q.Get("name")),
		Body: bytes.NewReader(options), ContentType: cluster.JSON,
	})
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return struct{}{}, nil
}
