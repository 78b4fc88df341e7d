package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// Config configures a Handler.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Admission may be nil.
	Admission admission.Interface
	// Authorizer decides whether an update or a patch may create an object. nil allows it.
	Authorizer authorizer.UnconditionalAuthorizer
	// Loopback sends requests of the server itself through its whole pipeline; see UpdateStatus.
	// nil: there is no pipeline.
	Loopback http.RoundTripper
	// CatchUp updates the registry with definitions that other servers wrote to the store. It is
	// called for unknown paths. nil: no other server writes to the store.
	CatchUp func(context.Context) error
	// Metrics counts the operations of the verbs; may be nil.
	Metrics *metrics.Verbs
	// MaxBody limits request bodies, in bytes; 0 means 3 MiB, as in kube-apiserver.
	MaxBody int64
	// WatchTimeout is the minimum duration of a watch without timeoutSeconds; the maximum is twice
	// that. 0 means half an hour.
	WatchTimeout time.Duration
	// NoFastPaths turns all fast paths off, so that Kubernetes' libraries do all work; see package
	// fastpath.
	NoFastPaths bool
}

// Handler serves requests on resources and implements [resource.Objects]. Create it with New.
type Handler struct {
	store      *store.Store
	registry   *resource.Registry
	admission  admission.Interface
	authorizer authorizer.UnconditionalAuthorizer
	loopback   http.RoundTripper
	catchUp    func(context.Context) error
	metrics    *metrics.Verbs
	maxBody    int64
	// watchTimeout is Config.WatchTimeout, or its default.
	watchTimeout time.Duration
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool
	crowds      crowds
	workers     workers
	deliveries  deliveries
}

// New returns a Handler. It need not be closed.
func New(cfg Config) *Handler {
	return &Handler{
		store:        cfg.Store,
		registry:     cfg.Registry,
		admission:    cfg.Admission,
		authorizer:   cfg.Authorizer,
		loopback:     cfg.Loopback,
		catchUp:      cfg.CatchUp,
		metrics:      cfg.Metrics,
		maxBody:      cmp.Or(cfg.MaxBody, 3<<20),
		watchTimeout: cmp.Or(cfg.WatchTimeout, defaultWatchTimeout),
		noFastPaths:  cfg.NoFastPaths,
	}
}

// scope is one request on a resource. Its methods are the verbs and their steps.
type scope struct {
	h   *Handler
	on  target
	in  input
	out output
}

// errNotFoundPath becomes the plain-text 404 that kube-apiserver sends for unknown paths.
var errNotFoundPath = errors.New("404 page not found")

// ServeHTTP serves a request on a resource.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s, err := h.resolve(w, req)
	if err == nil {
		err = s.serveOrRefuse()
	}
	switch {
	case err == nil:
	case err == errNotFoundPath && h.hasRouter(req):
		wire.Error(w, req, routeError(http.StatusNotFound, "404: Page Not Found"))
	case err == errNotFoundPath:
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, store.ErrUnreachable):
		wire.Error(w, req, apierrors.NewTimeoutError("write outcome unknown: "+err.Error(), 0))
	default:
		wire.Error(w, req, err)
	}
}

// impossible is the text of a panic in Kubernetes' libraries. It reports an IntOrString with an
// invalid type, which only protobuf can encode.
const impossible = "impossible IntOrString.Type"

// serveOrRefuse calls serve and turns that panic into BadRequest.
func (s *scope) serveOrRefuse() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || e.Error() != impossible {
				panic(p)
			}
			err = apierrors.NewBadRequest(impossible)
		}
	}()
	return s.serve()
}
