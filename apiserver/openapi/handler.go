package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/resource"
)

// Custom describes the kinds that are not in Kubernetes' own documents. Its methods are safe for
// concurrent use.
type Custom interface {
	// OpenAPIHashes returns every group version with custom kinds, and a hash of everything that
	// its documents depend on.
	OpenAPIHashes() map[schema.GroupVersion]string
	// OpenAPIV3 builds the document of a group version.
	OpenAPIV3(gv schema.GroupVersion) (*spec3.OpenAPI, error)
	// OpenAPIV2 builds the part of the v2 document that a group version adds.
	OpenAPIV2(gv schema.GroupVersion) (*spec.Swagger, error)
}

// Config configures a Handler.
type Config struct {
	Registry *resource.Registry
	// Custom may be nil.
	Custom Custom
	// Others returns the documents of other servers. It is called for each request, and must return
	// a new pointer after a change. A nil function or a nil result adds no documents.
	Others func() *Others
	// Packed is a zip archive of ready-made documents; see kelson.dev/kubernetes/openapispec for
	// its layout. The handler shows its documents of the group versions that the registry serves.
	// "" adds no documents.
	Packed string
	// Title and Version describe the API in the v2 document of a handler without Packed documents.
	Title, Version string
}

// Handler serves the documents. Make it with New.
type Handler struct {
	registry       *resource.Registry
	custom         Custom
	others         func() *Others
	title, version string
	archive        func() (*archive, error)
	base           func() (*base, error)
	current        atomic.Pointer[documents]

	mu     sync.Mutex
	parts  map[schema.GroupVersion]*part // documents of custom kinds
	static func() (map[string]bool, error)
}

// New returns a handler. It reads nothing until the first request.
func New(cfg Config) *Handler {
	h := &Handler{
		registry: cfg.Registry, custom: cfg.Custom, others: cfg.Others, title: cfg.Title, version: cfg.Version,
		archive: sync.OnceValues(func() (*archive, error) { return openArchive(cfg.Packed) }),
		parts:   map[schema.GroupVersion]*part{},
	}
	if h.others == nil {
		h.others = func() *Others { return nil }
	}
	h.base = sync.OnceValues(func() (*base, error) {
		a, err := h.archive()
		if err != nil {
			return nil, err
		}
		return h.newBase(a)
	})
	h.static = sync.OnceValues(h.staticNames)
	return h
}

const (
	jsonType = "application/json"
	// kube-apiserver sets no Content-Type for the index; net/http then detects this one
	indexType = "text/plain; charset=utf-8"
	protoV2   = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protoV3   = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// accepted maps media types in Accept to the types of the responses. Older clients send the names
// with @, which are not valid media types.
func accepted(proto string) map[string]string {
	return map[string]string{
		jsonType: jsonType, proto: proto,
		strings.Replace(proto, ".v1.0+", "@v1.0+", 1): proto,
	}
}

// ServeHTTP answers requests on /openapi/v2, /openapi/v3 and /openapi/v3/<path of a group version>,
// with any method.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a, err := h.archive()
	if err != nil {
		fail(w, err)
		return
	}
	docs := h.documents(a)
	version, path, below := strings.Cut(strings.TrimPrefix(req.URL.Path, "/openapi/"), "/")
	switch {
	case version == "v2" && !below:
		h.serveV2(w, req, docs)
	case version == "v3" && !below:
		sendIndex(w, req, docs.index)
	case version == "v3":
		h.serveV3(w, req, docs, path)
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

func (h *Handler) serveV3(w http.ResponseWriter, req *http.Request, docs *documents, path string) {
	hash, ok := docs.hashes[path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if other := docs.others[path]; other.V3 != nil {
		other.V3.ServeHTTP(w, req)
		return
	}
	mediaType, ok := negotiate(w, req, protoV3)
	if !ok {
		return
	}
	if requested := req.URL.Query().Get("hash"); requested != "" {
		if requested != hash {
			http.Redirect(w, req, relativeURL(path, hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	doc, err := docs.v3(path, mediaType)
	if err != nil {
		w.Header().Del("Cache-Control")
		w.Header().Del("Expires")
		fail(w, err)
		return
	}
	send(w, req, doc, mediaType)
}

func (h *Handler) serveV2(w http.ResponseWriter, req *http.Request, docs *documents) {
	w.Header().Set("Vary", "Accept-Encoding") // also if the document does not exist
	mediaType, ok := negotiate(w, req, protoV2)
	if !ok {
		return
	}
	doc, err := docs.v2[mediaType]()
	if err != nil {
		fail(w, err)
		return
	}
	send(w, req, doc, mediaType)
}

// negotiate returns the media type. If none is acceptable, it writes the response and returns ok ==
// false.
func negotiate(w http.ResponseWriter, req *http.Request, proto string) (string, bool) {
	w.Header().Add("Vary", "Accept")
	accept := req.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	offered := accepted(proto)
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "*" && clause.Type != "application" {
			continue
		}
		if clause.SubType == "*" {
			return jsonType, true
		}
		if mediaType, ok := offered["application/"+clause.SubType]; ok {
			return mediaType, true
		}
	}
	w.WriteHeader(http.StatusNotAcceptable)
	return "", false
}

// send writes a document, the requested range of it, or 304 if the client has it already. The
// document is compressed if the client accepts that.
func send(w http.ResponseWriter, req *http.Request, doc *document, mediaType string) {
	header := w.Header()
	etag := strconv.Quote(doc.etag)
	header.Set("Etag", etag)
	// A response to a request without Accept-Encoding suits all clients.
	if vary := header.Values("Vary"); req.Header.Get("Accept-Encoding") != "" &&
		!slices.Contains(vary, "Accept-Encoding") {
		header.Add("Vary", "Accept-Encoding")
	}
	if match := req.Header.Get("If-None-Match"); match == etag || match == "W/"+etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	zipped := strings.Contains(req.Header.Get("Accept-Encoding"), "gzip")
	read := doc.plain
	if zipped {
		read = doc.gzip
	}
	data, err := read()
	if err != nil {
		header.Del("Etag")
		fail(w, err)
		return
	}
	header.Set("Content-Type", mediaType)
	if !zipped {
		http.ServeContent(w, req, "", undated, bytes.NewReader(data))
		return
	}
	header.Set("Content-Encoding", "gzip")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if req.Method != http.MethodHead {
		_, _ = w.Write(data) // an error means that the connection is closed
	}
}

// undated makes http.ServeContent ignore If-Modified-Since. Several versions of a document can
// exist within a second, the precision of that header, so only the ETag says whether a client has
// the current one. Clients such as kubectl keep documents on disk.
var undated time.Time

// sendIndex writes the index. It is small and not compressed.
func sendIndex(w http.ResponseWriter, req *http.Request, doc *document) {
	data, err := doc.plain()
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", indexType)
	w.Header().Set("Etag", strconv.Quote(doc.etag))
	http.ServeContent(w, req, "", undated, bytes.NewReader(data))
}

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, ErrNoDocument) {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

func relativeURL(path, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

// index returns the document at /openapi/v3.
func index(hashes map[string]string) ([]byte, error) {
	out := handler3.OpenAPIV3Discovery{Paths: make(map[string]handler3.OpenAPIV3DiscoveryGroupVersion, len(hashes))}
	for path, hash := range hashes {
		out.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: relativeURL(path, hash)}
	}
	return json.Marshal(out)
}
