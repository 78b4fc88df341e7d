package discovery

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
)

// Config configures a [Handler].
type Config struct {
	// Registry has the kinds. Each request gets its current set.
	Registry *resource.Registry
	// Others returns the group versions of other servers to list in addition; nil means none. It is
	// called for each request and must return another pointer whenever the group versions change.
	Others func() *Others
	// Priorities order the groups and versions that Others does not order; nil means
	// CustomPriorities.
	Priorities PriorityFunc
}

// Handler serves discovery. Make it with New.
type Handler struct {
	cfg     Config
	scheme  *runtime.Scheme
	codecs  serializer.CodecFactory
	custom  serializer.CodecFactory // encodes documents of custom kinds
	current atomic.Pointer[documents]
}

// shared returns the scheme and codecs of the documents. They are immutable, so all control planes
// of a process share them.
var shared = sync.OnceValues(func() (*runtime.Scheme, serializer.CodecFactory) {
	scheme := runtime.NewScheme()
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, v1)
	scheme.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{},
		&metav1.APIResourceList{})
	utilruntime.Must(apidiscoveryv2.AddToScheme(scheme))
	return scheme, serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
})

// sharedCustom returns the codecs for documents of custom kinds, which kube-apiserver does not
// encode as CBOR.
var sharedCustom = sync.OnceValue(func() serializer.CodecFactory {
	scheme, _ := shared()
	return serializer.NewCodecFactory(scheme)
})

// New returns a handler.
func New(cfg Config) *Handler {
	if cfg.Others == nil {
		cfg.Others = func() *Others { return nil }
	}
	if cfg.Priorities == nil {
		cfg.Priorities = CustomPriorities
	}
	scheme, codecs := shared()
	return &Handler{cfg: cfg, scheme: scheme, codecs: codecs, custom: sharedCustom()}
}

// ServeHTTP serves GET on /api, /api/<version>, /apis, /apis/<group> and /apis/<group>/<version>.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimSuffix(req.URL.Path, "/")
	root := path == "/api" || path == "/apis"
	// kube-apiserver's routes accept only GET. Its handlers of /apis and of the groups below accept
	// any method.
	routed := path == "/api" || path == "/apis/apiregistration.k8s.io" || h.builtin(path)
	if routed && req.Method != http.MethodGet {
		h.fail(h.codecs, w, req, wire.RouteError(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
		return
	}
	codecs := h.codecs
	// the document of a version of custom kinds
	if !root && !routed && strings.Count(path, "/") == 3 {
		codecs = h.custom
	}
	restrictions := negotiation.EndpointRestrictions(negotiation.DefaultEndpointRestrictions)
	if root {
		restrictions = rootRestrictions{}
	}
	media, info, err := negotiation.NegotiateOutputMediaType(req, codecs, restrictions)
	if err != nil {
		types, _ := negotiation.MediaTypesForSerializer(h.codecs)
		switch {
		case routed && !wire.Accepts(req.Header.Get("Accept"), types):
			err = wire.RouteError(http.StatusNotAcceptable,
				"406: Not Acceptable\n\nAvailable representations: "+strings.Join(types, ", "))
		case !root && !h.has(path):
			h.missing(w, req)
			return
		}
		h.fail(codecs, w, req, err)
		return
	}
	key := documentKey{path: path, mediaType: info.MediaType, pretty: info.Serializer == info.PrettySerializer}
	if root && media.Convert != nil {
		key.aggregate = media.Convert.Version
	}
	if key.aggregate != "" {
		w.Header().Set("Vary", "Accept")
	}

	var doc *encoded
	if path == "/api" && key.aggregate == "" {
		if versions := coreVersions(h.documents(), req); len(versions.Versions) > 0 {
			// not cached: it contains the request's host
			doc, err = encode(versions, info.Serializer)
		}
	} else {
		doc, err = h.documents().get(h, key, info.Serializer)
	}
	switch {
	case err != nil:
		h.fail(codecs, w, req, apierrors.NewInternalError(err))
	case doc == nil:
		h.missing(w, req)
	default:
		h.send(w, req, key, doc)
	}
}

// missing responds that a path has no document: with a Status below /api and the built-in groups,
// where kube-apiserver has a router, and with plain text elsewhere.
func (h *Handler) missing(w http.ResponseWriter, req *http.Request) {
	group, _, below := strings.Cut(strings.TrimPrefix(req.URL.Path, "/apis/"), "/")
	inRouter := below && slices.ContainsFunc(h.cfg.Registry.Current().All(), func(res *resource.Resource) bool {
		return res.Group == group && routed(res)
	})
	if inRouter || strings.HasPrefix(req.URL.Path, "/api/") {
		h.fail(h.codecs, w, req, wire.RouteError(http.StatusNotFound, "404: Page Not Found"))
		return
	}
	http.Error(w, "404 page not found", http.StatusNotFound)
}

// builtin reports whether a path is that of a version of a group with routed kinds.
func (h *Handler) builtin(path string) bool {
	group, version, ok := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	if rest, core := strings.CutPrefix(path, "/api/"); core {
		group, version, ok = "", rest, true
	}
	return ok && slices.ContainsFunc(h.cfg.Registry.Current().All(), func(res *resource.Resource) bool {
		_, serves := res.Serves(version)
		return res.Group == group && serves && routed(res)
	})
}

// routed reports whether kube-apiserver's router has the paths of a kind.
func routed(res *resource.Resource) bool { return !res.Behavior.DispatchByVerb }

// has reports whether there is a legacy document at a path.
func (h *Handler) has(path string) bool {
	doc, err := h.documents().document(h, documentKey{path: path})
	return err == nil && doc != nil
}

// rootRestrictions allow the legacy and the aggregated document, the two forms of /api and /apis.
type rootRestrictions struct{}

func (rootRestrictions) AllowsMediaTypeTransform(_, _ string, gvk *schema.GroupVersionKind) bool {
	return gvk == nil || gvk.Group == apidiscoveryv2.GroupName && gvk.Kind == "APIGroupDiscoveryList" &&
		gvk.Version == "v2"
}
func (rootRestrictions) AllowsServerVersion(string) bool { return false }
func (rootRestrictions) AllowsStreamSchema(string) bool  { return false }

func (h *Handler) send(w http.ResponseWriter, req *http.Request, key documentKey, doc *encoded) {
	contentType := key.mediaType
	if key.aggregate != "" {
		contentType += ";g=apidiscovery.k8s.io;v=" + key.aggregate + ";as=APIGroupDiscoveryList"
		etag := strconv.Quote(doc.etag)
		w.Header().Set("ETag", etag)
		w.Header().Set("Cache-Control", "public")
		if req.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(doc.data)))
	w.WriteHeader(http.StatusOK)
	if req.Method != http.MethodHead {
		_, _ = w.Write(doc.data) // the only possible error is a closed connection
	}
}

// documents returns the documents of the registry's current set and of other servers.
func (h *Handler) documents() *documents {
	for {
		set, others, have := h.cfg.Registry.Current(), h.cfg.Others(), h.current.Load()
		if have != nil && have.set.Generation >= set.Generation && have.others == others {
			return have
		}
		if next := newDocuments(set, others, h.cfg.Priorities); h.current.CompareAndSwap(have, next) {
			return next
		}
	}
}

func (h *Handler) fail(codecs serializer.CodecFactory, w http.ResponseWriter, req *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{}, w, req)
}

// coreVersions returns the legacy document at /api. It has no apiVersion because it predates
// versions of this document.
func coreVersions(d *documents, req *http.Request) *metav1.APIVersions {
	out := &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: req.Host}},
	}
	for _, g := range d.groups {
		for _, v := range g.versions {
			if g.name == "" {
				out.Versions = append(out.Versions, v.name)
			}
		}
	}
	return out
}
