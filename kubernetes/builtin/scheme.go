package builtin

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// The init functions of these packages register the types, defaults and conversions of each
	// group. The table printers import most of these packages anyway.
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"

	"kelson.dev/apiserver/resource"
)

// Scheme holds the internal and versioned types of all built-in kinds. It is Kubernetes' own
// scheme, which the strategies' declarative validation also uses. Do not change it.
func Scheme() *runtime.Scheme { return completeScheme() }

// completeScheme adds the kinds of the aggregator, which Kubernetes' scheme lacks.
var completeScheme = sync.OnceValue(func() *runtime.Scheme {
	apiregistration.Install(legacyscheme.Scheme)
	return legacyscheme.Scheme
})

// decoders are the strict decoders to the hub types of one group, by media type.
type decoders map[string]runtime.Decoder

// strictDecoders returns the decoders to the hub types of every group. A strict decoder returns the
// object together with its findings, so callers also use it in the lenient modes.
var strictDecoders = sync.OnceValue(func() map[schema.GroupVersion]decoders {
	all := map[schema.GroupVersion]decoders{}
	for _, version := range Scheme().PrioritizedVersionsAllGroups() {
		hub := schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal}
		if all[hub] != nil {
			continue
		}
		all[hub] = make(decoders, 4)
		for media, s := range strictSerializers() {
			all[hub][media] = codecFactory().DecoderToVersion(s, hub)
		}
	}
	return all
})

var codecFactory = sync.OnceValue(func() serializer.CodecFactory {
	return serializer.NewCodecFactory(Scheme(), serializer.WithSerializer(cbor.NewSerializerInfo))
})

var strictSerializers = sync.OnceValue(func() map[string]runtime.Serializer {
	s := Scheme()
	return map[string]runtime.Serializer{
		resource.MediaJSON: json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s,
			json.SerializerOptions{Strict: true}),
		resource.MediaYAML: json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s,
			json.SerializerOptions{Strict: true, Yaml: true}),
		resource.MediaProtobuf: protobuf.NewSerializer(s, s),
		resource.MediaCBOR:     cbor.NewSerializer(s, s, cbor.Strict(true)),
	}
})
