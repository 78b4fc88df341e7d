package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"

	"kelson.dev/apiserver/resource"
)

// mediaCBORSequence is the media type of a stream of CBOR items (RFC 8742).
const mediaCBORSequence = "application/cbor-seq"

// Format is the representation that a client requested.
type Format struct {
	// Media is one of resource.MediaJSON, MediaYAML, MediaProtobuf and MediaCBOR.
	Media string
	// Pretty requests indented JSON.
	Pretty bool
	// As is the kind of meta.k8s.io to which the response is converted; zero means none.
	As schema.GroupVersionKind
}

// Bare returns the media type of the bare encodings of a format.
func (f Format) Bare() string {
	if f.Media == resource.MediaYAML {
		return resource.MediaJSON
	}
	return f.Media
}

// Allow lists the representations of an endpoint in addition to JSON, YAML and CBOR.
type Allow struct {
	Protobuf bool
	// Transform allows as=Table (JSON and YAML only) and as=PartialObjectMetadata(List).
	Transform bool
	// NoTable excludes as=Table even if Transform is set: reviews have no columns.
	NoTable bool
}

// AllowsMediaTypeTransform applies the rule of kube-apiserver's RequestScope.
func (a Allow) AllowsMediaTypeTransform(kind, sub string, as *schema.GroupVersionKind) bool {
	if as == nil {
		return a.Protobuf || sub != "vnd.kubernetes.protobuf"
	}
	gv := as.GroupVersion()
	if !a.Transform || (gv != metav1.SchemeGroupVersion && gv != metav1beta1.SchemeGroupVersion) {
		return false
	}
	switch as.Kind {
	case "Table":
		return !a.NoTable && kind == "application" && (sub == "json" || sub == "yaml")
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return true
	}
	return false
}

// AllowsServerVersion accepts the version of the meta group.
func (Allow) AllowsServerVersion(version string) bool { return version == "v1" }

// AllowsStreamSchema accepts the only kind of stream.
func (Allow) AllowsStreamSchema(s string) bool { return s == "watch" }

// media returns the supported media types, the default first.
var media = func() []runtime.SerializerInfo {
	info := func(media, sub string, stream bool) runtime.SerializerInfo {
		i := runtime.SerializerInfo{MediaType: media, MediaTypeType: "application", MediaTypeSubType: sub}
		if stream {
			i.StreamSerializer = &runtime.StreamSerializerInfo{}
		}
		return i
	}
	return []runtime.SerializerInfo{
		info(resource.MediaJSON, "json", true),
		info(resource.MediaYAML, "yaml", false),
		info(resource.MediaProtobuf, "vnd.kubernetes.protobuf", true),
		info(resource.MediaCBOR, "cbor", true),
	}
}()

// Negotiate returns the representation of a response, or a 406 error.
func Negotiate(req *http.Request, allow Allow) (Format, error) {
	f, _, ok := negotiate(req, req.Header.Get("Accept"), allow)
	if !ok {
		return Format{}, negotiation.NewNotAcceptableError(MediaTypes(false))
	}
	return f, nil
}

// NegotiateStream returns the representation of a stream of watch events, or a 406 error. YAML
// cannot be streamed.
func NegotiateStream(req *http.Request, allow Allow) (Format, error) {
	// The media type of a watch in CBOR is application/cbor-seq, and clients may ask for that name.
	accept := strings.ReplaceAll(req.Header.Get("Accept"), mediaCBORSequence, resource.MediaCBOR)
	f, stream, ok := negotiate(req, accept, allow)
	if !ok || !stream {
		return Format{}, negotiation.NewNotAcceptableError(names(Allow{Protobuf: true}, true))
	}
	return f, nil
}

func negotiate(req *http.Request, accept string, allow Allow) (f Format, stream, ok bool) {
	switch accept {
	case "", "*/*", "application/json":
		return Format{Media: resource.MediaJSON, Pretty: pretty(req)}, true, true
	default:
		opts, ok := negotiation.NegotiateMediaTypeOptions(accept, media, allow)
		if !ok {
			return Format{}, false, false
		}
		f := Format{Media: opts.Accepted.MediaType, Pretty: opts.Pretty || pretty(req)}
		if opts.Convert != nil {
			f.As = *opts.Convert
		}
		return f, opts.Accepted.StreamSerializer != nil, true
	}
}

// MediaTypes returns the media types of responses of built-in kinds, as kube-apiserver's router
// lists them; for lists it adds those of watches.
func MediaTypes(stream bool) []string {
	if stream {
		return listTypes
	}
	return objectTypes
}

var (
	objectTypes = slices.Clip(names(Allow{Protobuf: true}, false))
	listTypes   = slices.Clip(slices.Concat(objectTypes, names(Allow{Protobuf: true}, true)))
)

// names returns the media types for an error message.
func names(allow Allow, stream bool) (list []string) {
	for _, info := range media {
		switch {
		case info.MediaType == resource.MediaProtobuf && !allow.Protobuf:
		case !stream:
			list = append(list, info.MediaType)
		case info.MediaType == resource.MediaCBOR:
			list = append(list, mediaCBORSequence)
		case info.StreamSerializer != nil:
			list = append(list, info.MediaType+";stream=watch")
		}
	}
	return list
}

// pretty reports whether the client is probably a browser or a terminal, which gets indented
// responses.
func pretty(req *http.Request) bool {
	if strings.Contains(req.URL.RawQuery, "pretty") {
		if v := req.URL.Query().Get("pretty"); v != "" {
			on, _ := strconv.ParseBool(v)
			return on
		}
	}
	agent := req.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}

// BodyMedia returns the media type of a request body by its Content-Type, or a 415 error. A missing
// header means JSON.
func BodyMedia(req *http.Request, allow Allow) (string, error) {
	ct := req.Header.Get("Content-Type")
	if ct == "" || ct == resource.MediaJSON {
		return resource.MediaJSON, nil
	}
	base := baseType(ct)
	for _, info := range media {
		if base == info.MediaType && (allow.Protobuf || base != resource.MediaProtobuf) {
			return base, nil
		}
	}
	return "", negotiation.NewUnsupportedMediaTypeError(MediaTypes(false))
}

// baseType returns the media type in a Content-Type header, in lower case and without parameters.
func baseType(contentType string) string {
	base, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(base))
}
