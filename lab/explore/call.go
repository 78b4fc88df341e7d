package explore

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// call describes a request of the operator.
type call struct {
	verb        string // of Kubernetes' request info; apply for server-side apply
	resource    string // the group resource, with the subresource
	object      string // NAMESPACE/NAME, or NAME
	write       bool
	watch       bool
	list        bool
	watchList   bool // a watch with the parameter sendInitialEvents
	initial     bool // a watch that begins with the events of a list, and a bookmark after them
	passThrough bool // not a step: discovery, streams to pods
	cached      bool // the response may be older than the newest state; see cachedRead
	atLeast     uint64
	page        string // the token of a later page of a list
	from        uint64 // the revision after which a watch begins
}

func (c call) label() string { return strings.TrimSpace(c.verb + " " + c.resource + " " + c.object) }

// background lists resources that clients write for people or for coordination, such as Events and
// Leases. Their writes are not points of faults, and do not count as changes of the state.
var background = sets.New("events", "events.events.k8s.io", "leases.coordination.k8s.io")

// point reports whether faults can happen at the call.
func (c call) point() bool { return c.write && !background.Has(c.resource) && !isReview(c.resource) }

// isReview reports whether a resource, such as TokenReview, stores nothing and only returns an
// answer.
func isReview(resource string) bool {
	group := strings.SplitN(resource, ".", 2)
	return len(group) == 2 && (group[1] == "authorization.k8s.io" || group[1] == "authentication.k8s.io")
}

var requestInfo = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// describe parses a request. It reads the body, and may replace it by a copy.
func describe(r *http.Request) (call, error) {
	info, err := requestInfo.NewRequestInfo(r)
	if err != nil {
		return call{}, err
	}
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	c := call{verb: info.Verb, resource: resource.String()}
	if !info.IsResourceRequest || info.Verb == "proxy" || isStream(info.Subresource) {
		c.passThrough = true
		return c, nil
	}
	if info.Subresource != "" {
		c.resource += "/" + info.Subresource
	}
	name := info.Name
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		c.write = true
	case "get", "list", "watch":
		query := r.URL.Query()
		c.list, c.watch = info.Verb == "list", info.Verb == "watch"
		c.watchList = c.watch && query.Has("sendInitialEvents")
		c.initial = c.watchList && query.Get("sendInitialEvents") == "true"
		c.cached, c.atLeast = cachedRead(info.Verb, query)
		c.page = query.Get("continue")
		if c.watch && !c.initial {
			c.from, _ = strconv.ParseUint(query.Get("resourceVersion"), 10, 64) // 0: none
		}
	}
	if mime, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mime == string(types.ApplyYAMLPatchType) ||
		mime == string(types.ApplyCBORPatchType) {
		c.verb = "apply"
	}
	if info.Verb == "create" && name == "" {
		if name, err = nameInBody(r); err != nil {
			return call{}, err
		}
	}
	c.object = name
	if info.Namespace != "" && (name != "" || c.write) {
		c.object = info.Namespace + "/" + name
	}
	return c, nil
}

func isStream(subresource string) bool {
	switch subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return false
}

// bodyOf returns the body of a request, and replaces it by a copy.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// protobufPrefix begins Kubernetes' protobuf messages.
var protobufPrefix = []byte("k8s\x00")

// nameInBody returns the name of the object in the body of a create: PREFIX* for generateName.
func nameInBody(r *http.Request) (string, error) {
	body, err := bodyOf(r)
	if err != nil || body == nil {
		return "", err
	}
	var meta metav1.PartialObjectMetadata
	if raw, ok := bytes.CutPrefix(body, protobufPrefix); ok {
		// Field 1 of nearly every kind is its metadata.
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err != nil || meta.Unmarshal(unknown.Raw) != nil {
			return "", nil
		}
	} else if json.Unmarshal(body, &meta) != nil {
		return "", nil // the server will refuse it
	}
	if meta.Name == "" && meta.GenerateName != "" {
		return meta.GenerateName + "*", nil
	}
	return meta.Name, nil
}

// acceptJSON makes a request accept only JSON, so that the explorer can parse the events of
// watches. Clients that ask for protobuf or CBOR also accept JSON.
func acceptJSON(r *http.Request) {
	var kept []string
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			media, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
			switch media {
			case "application/vnd.kubernetes.protobuf", "application/cbor", "application/cbor-seq":
				if parameters = strings.Replace(parameters, "stream=watch", "", 1); strings.Trim(parameters,
					"; ") == "" {
					part = "application/json"
				} else {
					part = "application/json;" + strings.Trim(parameters, "; ")
				}
			}
			kept = append(kept, strings.TrimSpace(part))
		}
	}
	if len(kept) > 0 {
		r.Header.Set("Accept", strings.Join(kept, ","))
	}
}
