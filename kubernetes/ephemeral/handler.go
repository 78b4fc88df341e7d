package ephemeral

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/node/stage"
)

// The served paths.
const (
	collection = "/planes"
	prefix     = collection + "/"
	saved      = prefix + "bases/"
)

// createRequest is the body of POST /planes.
type createRequest struct {
	// Base is the name of the saved state to start with.
	Base string `json:"base,omitempty"`
	// Fork is the id of the plane whose current state to start with.
	Fork string `json:"fork,omitempty"`
	// Node selects what runs pods.
	Node string `json:"node,omitempty"`
	// Nodes are simulated nodes instead of a single one.
	Nodes []simulatednodes.Group `json:"nodes,omitempty"`
	// Stages script simulated nodes and their pods.
	Stages []*stage.Stage `json:"stages,omitempty"`
	// Workloads runs the controllers that create pods.
	Workloads bool `json:"workloads,omitempty"`
}

// saveRequest is the body of PUT /planes/bases/<name>.
type saveRequest struct {
	Plane string `json:"plane"`
}

// planeInfo describes a plane. Only the response to its creation has the kubeconfig.
type planeInfo struct {
	ID         string    `json:"id"`
	Path       string    `json:"path"`
	URL        string    `json:"url"`
	Base       string    `json:"base,omitempty"`
	Created    time.Time `json:"created"`
	Revision   uint64    `json:"revision"`
	Requests   int       `json:"requestsInHand"`
	Used       time.Time `json:"lastUsed"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
}

// baseInfo describes a base.
type baseInfo struct {
	Name     string    `json:"name"`
	Saved    time.Time `json:"saved"`
	Revision uint64    `json:"revision"`
}

type listAnswer struct {
	Planes []planeInfo `json:"planes"`
	Bases  []baseInfo  `json:"bases"`
}

// maxBody limits the request bodies of POST and PUT, in bytes.
const maxBody = 1 << 20

// baseName matches valid names of bases.
var baseName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$`)

// Paths returns the handlers of the requests that manage planes, for the pipeline of a server,
// which must authenticate and authorize them.
func (p *Planes) Paths() map[string]http.Handler {
	return map[string]http.Handler{collection: p, prefix: p}
}

// Front returns a handler that passes requests for planes to them, and all other requests to next,
// also those that manage planes.
func (p *Planes) Front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if id, ok := planeOf(req); ok {
			p.servePlane(w, req, id)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// planeOf returns the id of the plane that serves a request itself. ok is false for requests that
// manage planes and for other paths.
func planeOf(req *http.Request) (id string, ok bool) {
	rest, below := strings.CutPrefix(req.URL.Path, prefix)
	id, _, deeper := strings.Cut(rest, "/")
	return id, below && rest != "" && !strings.HasPrefix(req.URL.Path, saved) &&
		(deeper || req.Method != http.MethodDelete)
}

// ServeHTTP serves the requests that manage planes and bases.
func (p *Planes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := origins.Check(req); err != nil {
		wire.Error(w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Details: &metav1.StatusDetails{}, Message: "forbidden: " + err.Error(),
		}})
		return
	}
	path := req.URL.Path
	if name, isBase := strings.CutPrefix(path, saved); isBase {
		p.serveBase(w, req, name)
		return
	}
	if path == collection || path == prefix {
		p.serveCollection(w, req)
		return
	}
	if err := p.drop(req.Context(), strings.TrimPrefix(path, prefix)); err != nil {
		fail(w, req, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// servePlane passes a request to a plane, with the original response writer, so that the plane can
// use all of its features.
func (p *Planes) servePlane(w http.ResponseWriter, req *http.Request, id string) {
	found, done := p.begin(id)
	if found == nil {
		// The server can't authenticate the users of a deleted plane. Existing planes respond to
		// anonymous requests, too, so this response reveals nothing.
		fail(w, req, fmt.Errorf("control plane %.64q: %w", id, ErrNotFound))
		return
	}
	defer done()
	found.handler.ServeHTTP(w, req)
}

// below serves the paths below a prefix; the prefix itself is the root.
func below(prefix string, h http.Handler) http.Handler {
	stripped := http.StripPrefix(prefix, h)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == prefix {
			u := *req.URL
			u.Path, u.RawPath = prefix+"/", ""
			req = req.WithContext(req.Context())
			req.URL = &u
		}
		stripped.ServeHTTP(w, req)
	})
}

func (p *Planes) serveCollection(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodPost:
		p.serveCreate(w, req)
	case http.MethodGet, http.MethodHead:
		wire.JSON(w, req, http.StatusOK, p.list(req))
	default:
		notAllowed(w, req, "GET, HEAD, POST")
	}
}

func (p *Planes) serveCreate(w http.ResponseWriter, req *http.Request) {
	var body createRequest
	if err := read(req, &body); err != nil {
		fail(w, req, err)
		return
	}
	created, err := p.create(req.Context(), body)
	if err != nil {
		fail(w, req, err)
		return
	}
	p.mu.Lock()
	info := created.info(req)
	p.mu.Unlock()
	if info.Kubeconfig, err = created.Kubeconfig(info.URL); err != nil {
		_ = p.drop(req.Context(), created.id) // the client does not receive its id
		fail(w, req, err)
		return
	}
	w.Header().Set("Location", info.Path)
	wire.JSON(w, req, http.StatusCreated, info)
}

func (p *Planes) serveBase(w http.ResponseWriter, req *http.Request, name string) {
	switch req.Method {
	case http.MethodPut:
		var body saveRequest
		err := read(req, &body)
		if err == nil && !baseName.MatchString(name) {
			err = fmt.Errorf("%w: base name %q: must be letters, digits, '-', '_' and '.', begin and end with a letter or digit, and have at most 253 characters",
				ErrInvalid, name)
		}
		var b *base
		if err == nil {
			b, err = p.save(name, body.Plane)
		}
		if err != nil {
			fail(w, req, err)
			return
		}
		wire.JSON(w, req, http.StatusOK, b.info())
	case http.MethodDelete:
		if err := p.forget(name); err != nil {
			fail(w, req, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		notAllowed(w, req, "DELETE, PUT")
	}
}

func (p *Planes) list(req *http.Request) listAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := listAnswer{Planes: []planeInfo{}, Bases: []baseInfo{}}
	for _, pl := range p.sorted() {
		answer.Planes = append(answer.Planes, pl.info(req))
	}
	for _, b := range p.bases {
		answer.Bases = append(answer.Bases, b.info())
	}
	slices.SortFunc(answer.Bases, func(a, b baseInfo) int { return strings.Compare(a.Name, b.Name) })
	return answer
}

// info describes a plane with the URL under which req reached the server. The caller holds
// Planes.mu.
func (pl *plane) info(req *http.Request) planeInfo {
	scheme := "https://"
	if req.TLS == nil {
		scheme = "http://"
	}
	path := prefix + pl.id
	return planeInfo{
		ID: pl.id, Path: path, URL: scheme + req.Host + path, Base: pl.base, Created: pl.created.UTC(),
		Revision: pl.Store().Snapshot().Revision(), Requests: pl.inFlight, Used: pl.used.UTC(),
	}
}

func (b *base) info() baseInfo {
	return baseInfo{Name: b.name, Saved: b.saved.UTC(), Revision: b.state.Revision()}
}

// origins rejects requests that a browser sends for a page of another origin. Browsers add client
// certificates automatically, and POST /planes does not need a body or a header that would trigger
// a preflight request.
var origins = http.NewCrossOriginProtection()

func notAllowed(w http.ResponseWriter, req *http.Request, methods string) {
	w.Header().Set("Allow", methods)
	wire.Error(w, req, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "planes"},
		strings.ToLower(req.Method)))
}

// fail responds with err as a Kubernetes Status.
func fail(w http.ResponseWriter, req *http.Request, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Details: &metav1.StatusDetails{}}
	switch {
	case errors.Is(err, ErrNotFound):
		status.Code, status.Reason = http.StatusNotFound, metav1.StatusReasonNotFound
	case errors.Is(err, ErrInvalid):
		status.Code, status.Reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	case errors.Is(err, ErrTooMany):
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	case errors.Is(err, ErrClosed):
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	default:
		status.Code, status.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
	}
	wire.Error(w, req, &apierrors.StatusError{ErrStatus: status})
}

// read decodes a JSON body strictly; an empty body leaves into unchanged.
func read(req *http.Request, into any) error {
	data, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	if len(data) > maxBody {
		return fmt.Errorf("%w: the body has more than %d bytes", ErrInvalid, maxBody)
	}
	if len(data) == 0 {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: body: %v", ErrInvalid, err)
	}
	if decoder.More() {
		return fmt.Errorf("%w: body: more than one JSON value", ErrInvalid)
	}
	return nil
}
