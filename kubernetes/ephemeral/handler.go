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
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/rest/wire"
)

// The paths.
const (
	collection = "/planes"
	prefix     = collection + "/"
	saved      = prefix + "bases/"
)

// createRequest is the body of POST.
type createRequest struct {
	// Base is the name of a saved state to begin with.
	Base string `json:"base,omitempty"`
	// Fork is the id of a plane whose present state to begin with.
	Fork string `json:"fork,omitempty"`
	// Node says what runs pods.
	Node string `json:"node,omitempty"`
}

// saveRequest is the body of PUT.
type saveRequest struct {
	Plane string `json:"plane"`
}

// planeInfo is how a plane is shown. The kubeconfig comes with its creation only.
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

// baseInfo is how a base is shown.
type baseInfo struct {
	Name     string    `json:"name"`
	Saved    time.Time `json:"saved"`
	Revision uint64    `json:"revision"`
}

type listAnswer struct {
	Planes []planeInfo `json:"planes"`
	Bases  []baseInfo  `json:"bases"`
}

// maxBody bounds what POST and PUT read.
const maxBody = 64 << 10

// baseName is what bases may be called.
var baseName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$`)

// ServeHTTP answers /planes and everything below.
func (p *Planes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	name, isBase := strings.CutPrefix(path, saved)
	id, isPlane := strings.CutPrefix(path, prefix)
	id, _, deeper := strings.Cut(id, "/")
	switch {
	case path == collection || path == prefix:
		p.serveCollection(w, req)
	case isBase:
		p.serveBase(w, req, name)
	case isPlane && !deeper && req.Method == http.MethodDelete:
		p.administrators(w, req, func() {
			if err := p.drop(req.Context(), id); err != nil {
				fail(w, req, err)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	default:
		p.servePlane(w, req, id)
	}
}

// servePlane hands a request on to a plane. The response writer is handed on as it is: what can be done with it, a plane can do.
func (p *Planes) servePlane(w http.ResponseWriter, req *http.Request, id string) {
	found, done := p.begin(id)
	if found == nil {
		// The server does not know the users of a plane that was dropped. Planes answer anonymous requests, so this tells nothing.
		fail(w, req, fmt.Errorf("control plane %.64q: %w", id, ErrNotFound))
		return
	}
	defer done()
	found.handler.ServeHTTP(w, req)
}

// below serves the paths below a prefix, and the prefix itself as the root.
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
	p.administrators(w, req, func() {
		switch req.Method {
		case http.MethodPost:
			var body createRequest
			if err := read(req, &body); err != nil {
				fail(w, req, err)
				return
			}
			made, err := p.create(req.Context(), body)
			if err != nil {
				fail(w, req, err)
				return
			}
			p.mu.Lock()
			info := made.info(req)
			p.mu.Unlock()
			if info.Kubeconfig, err = made.Kubeconfig(info.URL); err != nil {
				_ = p.drop(req.Context(), made.id) // nobody will know of it
				fail(w, req, err)
				return
			}
			w.Header().Set("Location", info.Path)
			wire.JSON(w, req, http.StatusCreated, info)
		case http.MethodGet, http.MethodHead:
			wire.JSON(w, req, http.StatusOK, p.list(req))
		default:
			notAllowed(w, req, "GET, HEAD, POST")
		}
	})
}

func (p *Planes) serveBase(w http.ResponseWriter, req *http.Request, name string) {
	p.administrators(w, req, func() {
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
	})
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

// info shows a plane to who reached the server as req did; Planes.mu is held.
func (pl *plane) info(req *http.Request) planeInfo {
	scheme := "https://"
	if req.TLS == nil {
		scheme = "http://"
	}
	path := prefix + pl.id
	return planeInfo{
		ID: pl.id, Path: path, URL: scheme + req.Host + path, Base: pl.base, Created: pl.created.UTC(),
		Revision: pl.Store().Snapshot().Revision(), Requests: pl.inHand, Used: pl.used.UTC(),
	}
}

func (b *base) info() baseInfo {
	return baseInfo{Name: b.name, Saved: b.saved.UTC(), Revision: b.state.Revision()}
}

// origins refuses what a browser sends for a page of another origin. A browser adds a client certificate by itself, and creating a plane needs
// no body and no header that would make it ask first.
var origins = http.NewCrossOriginProtection()

// administrators lets members of system:masters through.
func (p *Planes) administrators(w http.ResponseWriter, req *http.Request, allowed func()) {
	if err := origins.Check(req); err != nil {
		refused(w, req, http.StatusForbidden, metav1.StatusReasonForbidden, "forbidden: "+err.Error())
		return
	}
	who, ok, err := p.cfg.Authenticator.AuthenticateRequest(req)
	switch {
	case err != nil:
		wire.Error(w, req, apierrors.NewUnauthorized("Unauthorized"))
	case !ok:
		forbidden(w, req, user.Anonymous)
	case !slices.Contains(who.User.GetGroups(), user.SystemPrivilegedGroup):
		forbidden(w, req, who.User.GetName())
	default:
		allowed()
	}
}

func forbidden(w http.ResponseWriter, req *http.Request, name string) {
	refused(w, req, http.StatusForbidden, metav1.StatusReasonForbidden,
		fmt.Sprintf("forbidden: User %q cannot %s path %q: only members of %s may", name, strings.ToLower(req.Method), req.URL.Path, user.SystemPrivilegedGroup))
}

func refused(w http.ResponseWriter, req *http.Request, code int32, reason metav1.StatusReason, message string) {
	wire.Error(w, req, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Details: &metav1.StatusDetails{}, Message: message,
	}})
}

func notAllowed(w http.ResponseWriter, req *http.Request, methods string) {
	w.Header().Set("Allow", methods)
	wire.Error(w, req, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "planes"}, strings.ToLower(req.Method)))
}

// fail says what went wrong in Kubernetes' way.
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

// read decodes a JSON body strictly; none at all is an empty object.
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
