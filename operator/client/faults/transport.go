package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Transport passes HTTP requests to another transport, except those that a rule fails. Its rules
// match by Resource or Path, and by the events of watches.
//
// An [Error] of the API becomes a response with its code and Status; for an event, the watch ends
// with an ERROR event, as when a server has compacted its history (Expired). Any other error, such
// as Cut, is returned as an error of the connection.
//
// Watches request JSON, so that their events can be read; clients that prefer another encoding also
// accept JSON. Bookmarks are not events.
type Transport struct {
	Rules
	inner http.RoundTripper
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport without rules that passes requests to inner, or to
// http.DefaultTransport if it is nil.
func NewTransport(inner http.RoundTripper) *Transport {
	if inner == nil {
		inner = http.DefaultTransport
	}
	return &Transport{inner: inner, Rules: Rules{refused: notForTransport}}
}

// notForTransport returns why a rule does not apply to calls of a Transport; "" if it applies.
func notForTransport(c Call) string {
	if c.Kind != "" {
		return "rules of a Transport match by Resource; requests have no Kind"
	}
	return ""
}

// Wrap returns a transport with the rules of t that passes requests to inner. It is for the method
// Wrap of rest.Config:
//
//	config.Wrap(faulty.Wrap)
func (t *Transport) Wrap(inner http.RoundTripper) http.RoundTripper { return wrapped{t, inner} }

type wrapped struct {
	transport *Transport
	inner     http.RoundTripper
}

func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	return w.transport.roundTrip(w.inner, r)
}

// WrappedRoundTripper returns the transport below, for clients that look for the http.Transport.
func (w wrapped) WrappedRoundTripper() http.RoundTripper { return w.inner }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.roundTrip(t.inner, r)
}

func (t *Transport) roundTrip(inner http.RoundTripper, r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	call, err := CallOf(r)
	if err != nil {
		return nil, err
	}
	if call.Verb == Watch {
		acceptJSON(r.Header)
	}
	rule := t.decide(call)
	err = rule.wait(r.Context())
	if err == nil && rule.err != nil && !rule.after {
		err = rule.err(call)
	} else if err == nil {
		resp, err := inner.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if rule.err != nil {
			resp.Body.Close()
			return refuse(r, rule.err(call))
		}
		if call.Verb == Watch && resp.StatusCode == http.StatusOK &&
			strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			resp.Body = newStream(r.Context(), t, call, resp.Body)
		}
		return resp, nil
	}
	if r.Body != nil {
		r.Body.Close()
	}
	return refuse(r, err)
}

// refuse returns an error of the API as a response, and any other error as a connection error.
func refuse(r *http.Request, err error) (*http.Response, error) {
	var api apierrors.APIStatus
	if err == nil || !errors.As(err, &api) {
		return nil, err
	}
	status := api.Status()
	body, err := json.Marshal(withKind(status))
	if err != nil {
		return nil, err
	}
	code := int(status.Code)
	header := http.Header{"Content-Type": {"application/json"}}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return &http.Response{Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
}

func withKind(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return s
}

// CallOf returns the Call of a request to an API server. It may replace the body by an equal one.
func CallOf(r *http.Request) (Call, error) {
	verb := Verb(strings.ToLower(r.Method))
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// The API of a server can be below a path, as the API of a throwaway plane is.
	call := Call{}
	for len(path) > 0 && path[0] != "api" && path[0] != "apis" {
		path = path[1:]
	}
	switch {
	case len(path) >= 3 && path[0] == "api":
		path = path[2:]
	case len(path) >= 4 && path[0] == "apis":
		call.Resource = "." + path[1]
		path = path[3:]
	default:
		return Call{Verb: verb, Path: r.URL.Path}, nil
	}
	watching := r.URL.Query().Get("watch")
	watch := watching == "true" || watching == "1"
	if path[0] == "watch" && len(path) > 1 {
		watch, path = true, path[1:]
	}
	if path[0] == "namespaces" && len(path) > 2 && path[2] != "status" && path[2] != "finalize" {
		call.Namespace, path = path[1], path[2:]
	}
	call.Resource = path[0] + call.Resource
	if len(path) > 1 {
		call.Name = path[1]
	}
	if len(path) > 2 {
		call.Subresource = strings.Join(path[2:], "/")
	}
	content, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case watch:
			call.Verb = Watch
		case call.Name == "":
			call.Verb = List
		default:
			call.Verb = Get
		}
	case http.MethodPost:
		call.Verb = Create
	case http.MethodPut:
		call.Verb = Update
	case http.MethodPatch:
		call.Verb = Patch
		if content == "application/apply-patch+yaml" || content == "application/apply-patch+cbor" {
			call.Verb = Apply
		}
	case http.MethodDelete:
		call.Verb = Delete
		if call.Name == "" {
			call.Verb = DeleteAllOf
		}
	default:
		call.Verb = verb
	}
	var err error
	if call.Verb == Create && call.Name == "" && r.Body != nil {
		call.Name, err = nameInBody(r)
	}
	return call, err
}

// nameInBody returns the name of the object in the body of a create, in JSON or protobuf; "" if it
// has none.
func nameInBody(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var meta metav1.PartialObjectMetadata
	if raw, ok := bytes.CutPrefix(body, []byte("k8s\x00")); ok {
		// The first field of every kind of Kubernetes with a name is its metadata.
		var unknown runtime.Unknown
		if unknown.Unmarshal(raw) != nil || meta.Unmarshal(unknown.Raw) != nil {
			return "", nil
		}
		return meta.Name, nil
	}
	if json.Unmarshal(body, &meta) != nil {
		return "", nil // the server refuses it
	}
	return meta.Name, nil
}

// acceptJSON requests JSON instead of protobuf and CBOR.
func acceptJSON(header http.Header) {
	var kept []string
	for _, accept := range header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			media, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
			switch media {
			case "application/vnd.kubernetes.protobuf", "application/cbor", "application/cbor-seq":
				media, parameters = "application/json",
					strings.Trim(strings.Replace(parameters, "stream=watch", "", 1), "; ")
			}
			if parameters != "" {
				media += ";" + parameters
			}
			kept = append(kept, media)
		}
	}
	if len(kept) > 0 {
		header.Set("Accept", strings.Join(kept, ","))
	}
}
