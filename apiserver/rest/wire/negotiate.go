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

// mediaCBORSequence is the medium of a stream of CBOR items (RFC 8742).
const mediaCBORSequence = "application/cbor-seq"

// Format is the representation a client asked for.
type Format struct {
	// Media is one of resource.MediaJSON, MediaYAML, MediaProtobuf and MediaCBOR.
	Media string
	// Pretty asks for indented JSON.
	Pretty bool
	// As is the kind of meta.k8s.io the answer shall be turned into; zero: none.
	As schema.GroupVersionKind
}

// Bare is the medium of the bare encodings the format is made of.
func (f Format) Bare() string {
	if f.Media == resource.MediaYAML {
		return resource.MediaJSON
	}
	return f.Media
}

// Allow says what an endpoint can answer with, beside JSON, YAML and CBOR.
type Allow struct {
	Protobuf bool
	// Transform allows as=Table (JSON and YAML only) and as=PartialObjectMetadata(List).
	Transform bool
	// NoTable takes as=Table away again: reviews have no columns.
	NoTable bool
}

// AllowsMediaTypeTransform is the rule of kube-apiserver's RequestScope.
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

// AllowsStreamSchema accepts the only stream there is.
func (Allow) AllowsStreamSchema(s string) bool { return s == "watch" }

// media is what can be offered, the default first.
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

// Negotiate finds the representation for an answer, or a 406 error.
func Negotiate(req *http.Request, allow Allow) (Format, error) {
	f, _, ok := negotiate(req, req.Header.Get("Accept"), allow)
	if !ok {
		return Format{}, negotiation.NewNotAcceptableError(MediaTypes(false))
	}
	return f, nil
}

// NegotiateStream finds the representation for a stream of watch events, or a 406 error. YAML can't be streamed.
func NegotiateStream(req *http.Request, allow Allow) (Format, error) {
	// application/cbor-seq is what a watch in CBOR is answered with; clients may ask for it by that name.
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

// MediaTypes lists what built-in kinds are answered in, as kube-apiserver's router names it; for lists also what they are watched in.
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

// names lists the media for an error message.
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

// pretty says whether a person is likely to read the answer.
func pretty(req *http.Request) bool {
	if strings.Contains(req.URL.RawQuery, "pretty") {
		if v := req.URL.Query().Get("pretty"); v != "" {
			on, _ := strconv.ParseBool(v)
			return on
		}
	}
	agent := req.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// BodyMedia finds the medium of a request body by its Content-Type, or gives a 415 error. None means JSON.
func BodyMedia(req *http.Request, allow Allow) (string, error) {
	ct := req.Header.Get("Content-Type")
	if ct == "" || ct == resource.MediaJSON {
		return resource.MediaJSON, nil
	}
	base, _, _ := strings.Cut(ct, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	for _, info := range media {
		if base == info.MediaType && (allow.Protobuf || base != resource.MediaProtobuf) {
			return base, nil
		}
	}
	return "", negotiation.NewUnsupportedMediaTypeError(MediaTypes(false))
}
