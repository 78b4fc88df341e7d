package apitest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// Each error has Kubernetes' code, reason and message.
func TestRefusals(t *testing.T) {
	p := apitest.New(t)
	a := p.Want(t, 201, "POST", maps, configMap("a", ""))
	uid := apitest.At(a, "metadata", "uid").(string)
	const (
		jsonPatch  = "Content-Type: application/json-patch+json"
		strategic  = "Content-Type: application/strategic-merge-patch+json"
		applyPatch = "Content-Type: application/apply-patch+yaml"
	)
	for _, c := range []struct {
		method, path, body, header string
		code                       int
		reason, message            string
	}{
		{"POST", maps, configMap("a", ""), "", 409, "AlreadyExists", `configmaps "a" already exists`},
		{"POST", maps, configMap("A", ""), "", 422, "Invalid",
			`ConfigMap "A" is invalid: metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of`},
		{"POST", maps, `{}`, "", 422, "Invalid", `name or generateName is required`},
		{"POST", maps, `{"metadata":{"name":"b","namespace":"other"}}`, "", 400, "BadRequest",
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"POST", maps, `{"kind":"Secret","apiVersion":"v1"}`, "", 400, "BadRequest",
			`Secret in version "v1" cannot be handled as a ConfigMap`},
		{"POST", maps, `{"kind":"ConfigMap","apiVersion":"v2"}`, "", 400, "BadRequest",
			`ConfigMap in version "v2" cannot be handled as a ConfigMap`},
		{"POST", maps, `nonsense`, "", 400, "BadRequest",
			"the object provided is unrecognized (must be of type ConfigMap)"},
		{"POST", maps, configMap("b", ""), "Content-Type: text/plain", 415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"POST", maps + "?dryRun=Some", configMap("b", ""), "", 422, "Invalid",
			`CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{"POST", maps + "?fieldValidation=Strict", `{"metadata":{"name":"b"},"nope":1}`, "", 400, "BadRequest",
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "nope"`},
		{"POST", maps, `{"metadata":{"name":"b","resourceVersion":"7"}}`, "", 500, "",
			"resourceVersion should not be set on objects to be created"},
		{"POST", maps + "/a", configMap("a", ""), "", 405, "MethodNotAllowed",
			"the server does not allow this method on the requested resource"},
		{"POST", "/api/v1/configmaps", configMap("a", ""), "", 405, "MethodNotAllowed",
			"the server does not allow this method on the requested resource"},
		{"PUT", maps, configMap("a", ""), "", 405, "MethodNotAllowed",
			"the server does not allow this method on the requested resource"},
		{"GET", maps + "/b", "", "", 404, "NotFound", `configmaps "b" not found`},
		{"GET", maps + "/a", "", "Accept: text/plain", 406, "NotAcceptable",
			"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"PUT", maps + "/b", configMap("b", ""), "", 404, "NotFound", `configmaps "b" not found`},
		{"PUT", maps + "/a", configMap("b", ""), "", 400, "BadRequest",
			"the name of the object (b) does not match the name on the URL (a)"},
		{"PUT", maps + "/a", `{"metadata":{"name":"a","resourceVersion":"1"}}`, "", 409, "Conflict",
			`Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`},
		{"PUT", maps + "/a", `{"metadata":{"name":"a","uid":"other"}}`, "", 409, "Conflict",
			"Precondition failed: UID in precondition: other, UID in object meta: " + uid},
		{"PATCH", maps + "/b", `{}`, mergePatch, 404, "NotFound", `configmaps "b" not found`},
		{"PATCH", maps + "/a", `{}`, "Content-Type: application/json", 415, "UnsupportedMediaType",
			"415: Unsupported Media Type"},
		{"PATCH", maps + "/a", `{`, mergePatch, 400, "BadRequest", "invalid JSON patch"},
		{"PATCH", maps + "/a", `[{"op":"test","path":"/data/x","value":"1"}]`, jsonPatch, 422, "Invalid",
			"the server rejected our request due to an error in our request"},
		{"PATCH", maps + "/a", `{"data":[1]}`, mergePatch, 422, "Invalid", "patch: Invalid value:"},
		{"PATCH", maps + "/a", `{"metadata":{"finalizers":[["a"]]}}`, strategic, 422, "Invalid",
			"patch: Invalid value:"},
		{"PATCH", maps + "/a", `{"metadata":{"labels":"b"}}`, strategic, 422, "Invalid",
			`patch: Invalid value: "map[metadata:map[labels:b]]": cannot restore map from string`},
		{"PATCH", maps + "/a", `{"metadata":{"name":"b"}}`, mergePatch, 400, "BadRequest",
			"the name of the object (b) does not match the name on the URL (a)"},
		{"PATCH", maps + "/a", `{}`, applyPatch, 422, "Invalid",
			`PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
		{"PATCH", maps + "/a?force=true", `{}`, mergePatch, 422, "Invalid", "may not be specified for non-apply patch"},
		{"PATCH", maps + "/a?fieldManager=m", `{"kind":"Secret","apiVersion":"v1"}`, applyPatch, 400, "BadRequest",
			"invalid object type: /v1, Kind=Secret"},
		{"DELETE", maps + "/b", "", "", 404, "NotFound", `configmaps "b" not found`},
		{"DELETE", maps + "/a", `{"propagationPolicy":"Some"}`, "", 422, "Invalid",
			`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some"`},
		{"DELETE", maps + "/a", `{"kind":"Pod","apiVersion":"v1"}`, "", 400, "BadRequest", ""},
	} {
		var header []string
		if c.header != "" {
			header = []string{c.header}
		}
		status := p.Want(t, c.code, c.method, c.path, c.body, header...)
		reason, _ := status["reason"].(string)
		message, _ := status["message"].(string)
		if reason != c.reason && !(c.reason == "" && c.code == 500) || !strings.Contains(message, c.message) ||
			status["status"] != "Failure" || status["code"] != float64(c.code) {
			t.Errorf("%s %s %s:\n%s: %s", c.method, c.path, c.body, reason, message)
		}
	}
	for _, path := range []string{"/api/v1/nothing", "/apis/apps/v9/deployments", "/api/v1/configmaps/a",
		maps + "/a/nothing", "/api/v1/namespaces/x/nodes"} {
		if got := p.Want(t, 404, "GET", path,
			""); got["message"] != "the server could not find the requested resource" {
			t.Errorf("%s: %v", path, got)
		}
	}
	for _, path := range []string{"/nothing", "/apis/nothing/v1/things"} {
		resp := p.Do(t, "GET", path, "")
		if resp.StatusCode != 404 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	big := p.Want(t, 413, "POST", maps, `{"metadata":{"name":"big"},"data":{"x":"`+strings.Repeat("x", 3<<20)+`"}}`)
	if big["reason"] != "RequestEntityTooLarge" || big["message"] != "Request entity too large: limit is 3145728" {
		t.Errorf("%v", big)
	}
}

// Unknown and duplicate fields cause warnings by default, also in patches, and none with
// fieldValidation=Ignore.
func TestFieldValidationWarns(t *testing.T) {
	p := apitest.New(t)
	resp := p.Do(t, "POST", maps, `{"metadata":{"name":"a"},"nope":1,"data":{"x":"1","x":"2"}}`)
	if w := fmt.Sprint(resp.Header["Warning"]); resp.StatusCode != 201 ||
		w != `[299 - "unknown field \"nope\"" 299 - "duplicate field \"data.x\""]` {
		t.Errorf("%d %s", resp.StatusCode, w)
	}
	resp = p.Do(t, "POST", maps+"?fieldValidation=Ignore", `{"metadata":{"name":"b"},"nope":1}`)
	if resp.StatusCode != 201 || resp.Header["Warning"] != nil {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	resp = p.Do(t, "PATCH", maps+"/a", `{"nope":1}`, mergePatch)
	if w := fmt.Sprint(resp.Header["Warning"]); resp.StatusCode != 200 || w != `[299 - "unknown field \"nope\""]` {
		t.Errorf("%d %s", resp.StatusCode, w)
	}
}

// A dry run returns the result or the conflict, and stores nothing.
func TestDryRun(t *testing.T) {
	p := apitest.New(t)
	created := p.Want(t, 201, "POST", maps+"?dryRun=All", configMap("a", ""))
	if apitest.At(created, "metadata", "uid") == nil || apitest.At(created, "metadata", "resourceVersion") != nil {
		t.Errorf("%v", created)
	}
	p.Want(t, 404, "GET", maps+"/a", "")
	a := p.Want(t, 201, "POST", maps, configMap("a", ""))
	p.Want(t, 409, "POST", maps+"?dryRun=All", configMap("a", ""))
	changed := p.Want(t, 200, "PATCH", maps+"/a?dryRun=All", `{"data":{"k":"v"}}`, mergePatch)
	if apitest.At(changed, "data", "k") != "v" ||
		apitest.At(changed, "metadata", "resourceVersion") != apitest.At(a, "metadata", "resourceVersion") {
		t.Errorf("%v", changed)
	}
	if got := p.Want(t, 200, "GET", maps+"/a", ""); got["data"] != nil {
		t.Errorf("%v", got)
	}
}

// Patches without a resourceVersion never conflict, and none of them is lost.
func TestConcurrentPatches(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, configMap("a", ""))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			p.Want(t, 200, "PATCH", maps+"/a", fmt.Sprintf(`{"data":{"k%d":"v"}}`, i), mergePatch)
		})
	}
	wg.Wait()
	got := p.Want(t, 200, "GET", maps+"/a", "")
	assert.Equalf(t, len(got["data"].(map[string]any)), 20, "%v", got["data"])
}

// An update without changes does not write. Only changes of the spec increase the generation.
func TestNoOpUpdate(t *testing.T) {
	p := apitest.New(t)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	body := `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	created := p.Want(t, 201, "POST", deployments, body)
	same := p.Want(t, 200, "PUT", deployments+"/d", body)
	assert.Equalf(t, fmt.Sprint(created), fmt.Sprint(same), "\n%v\n%v", created, same)
	other := p.Want(t, 200, "PATCH", deployments+"/d", `{"metadata":{"labels":{"x":"y"}}}`, mergePatch)
	if apitest.At(other, "metadata", "generation") != 1.0 {
		t.Error("changing labels changed the generation")
	}
	other = p.Want(t, 200, "PATCH", deployments+"/d", `{"spec":{"replicas":4}}`, mergePatch)
	if apitest.At(other, "metadata", "generation") != 2.0 {
		t.Error("changing spec did not change the generation")
	}
}

// Each create with generateName gets another name.
func TestGenerateName(t *testing.T) {
	p := apitest.New(t)
	seen := map[any]bool{}
	for range 20 {
		created := p.Want(t, 201, "POST", maps, `{"metadata":{"generateName":"m-"}}`)
		seen[apitest.At(created, "metadata", "name")] = true
	}
	assert.Equalf(t, len(seen), 20, "%v", seen)
}

// A kind that can be created by PUT.
func TestCreateOnUpdate(t *testing.T) {
	p := apitest.New(t)
	const lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
	created := p.Want(t, 201, "PUT", lease, `{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`)
	// leases require the resourceVersion
	p.Want(t, 422, "PUT", lease, `{"metadata":{"name":"l"},"spec":{"holderIdentity":"you"}}`)
	got := p.Want(t, 200, "PUT", lease, fmt.Sprintf(
		`{"metadata":{"name":"l","resourceVersion":%q},"spec":{"holderIdentity":"you"}}`,
		apitest.At(created, "metadata", "resourceVersion")))
	assert.Equalf(t, apitest.At(got, "spec", "holderIdentity"), "you", "%v", got)
}
