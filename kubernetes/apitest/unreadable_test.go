package apitest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// An object whose value cannot be read, such as one that no key decrypts, makes reads of itself and
// lists of its resource fail with the cause. Other objects of the resource and other resources can
// be used, and an unsafe deletion removes it.
func TestUnreadableObject(t *testing.T) {
	p := apitest.New(t)
	p.Define(t, scaledDefinition)
	cause := errors.New(`decrypt "x": no key`)
	for resource, kind := range map[string]struct{ path, version, kind string }{
		"secrets":            {"/api/v1/namespaces/default/secrets", "v1", "Secret"},
		"fleets.example.com": {"/apis/example.com/v1/namespaces/default/fleets", "example.com/v1", "Fleet"},
	} {
		t.Run(resource, func(t *testing.T) {
			path := kind.path
			object := func(name string) string {
				return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, kind.version, kind.kind, name)
			}
			p.Want(t, 201, "POST", path, object("other"))
			key := store.Key{Resource: resource, Namespace: "default", Name: "bad"}
			objs, err := p.Store.Commit(t.Context(), store.Op{Key: key, Data: store.Unreadable(key, cause)})
			require.NoError(t, err)
			if err := objs[0].Unreadable(); err == nil || err.Error() != cause.Error() {
				t.Errorf("the cause is %v", err)
			}
			for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io",
				"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
				status := p.Want(t, 500, "GET", path+"/bad", "", "Accept: "+accept)
				assert.Containsf(t, status["message"].(string), cause.Error(), "get as %s", accept)
				list := strings.Replace(accept, "PartialObjectMetadata", "PartialObjectMetadataList", 1)
				status = p.Want(t, 500, "GET", path, "", "Accept: "+list)
				if message := status["message"].(string); status["reason"] != "StorageReadError" ||
					!strings.Contains(message, cause.Error()) {
					t.Errorf("list as %s: %v", accept, status)
				}
			}
			p.Want(t, 500, "PUT", path+"/bad", object("bad"))
			p.Want(t, 500, "PATCH", path+"/bad", `{"metadata":{"labels":{"a":"b"}}}`,
				"Content-Type: application/merge-patch+json")
			p.Want(t, 500, "DELETE", path+"/bad", "")
			p.Want(t, 409, "POST", path, object("bad"))
			p.Want(t, 200, "GET", path+"/other", "")
			p.Want(t, 201, "POST", path, object("new"))
			p.Want(t, 200, "GET", maps, "")

			p.Want(t, 200, "DELETE", path+"/bad?ignoreStoreReadErrorWithClusterBreakingPotential=true", "")
			p.Want(t, 404, "GET", path+"/bad", "")
			p.Want(t, 200, "GET", path, "")
		})
	}
}
