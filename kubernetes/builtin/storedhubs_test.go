package builtin

import (
	"bytes"
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/diff"
	kubernetesfuzzer "k8s.io/kubernetes/pkg/api/testing"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// The hub of a request has the content of the bytes that are stored for it, in whatever encoding it
// came: a write computes from its hub, such as the ports of a Service, the same as a restart from
// the store. The objects are random, from Kubernetes' own generators.
func TestHubsEqualStoredBytes(t *testing.T) {
	list, err := Resources(Config{})
	require.NoError(t, err)
	rounds := int64(6)
	if testing.Short() {
		rounds = 1
	}
	codecs := serializer.NewCodecFactory(Scheme())
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, kubernetesfuzzer.FuzzerFuncs)
	for _, r := range list {
		for _, version := range r.Versions {
			t.Run(r.Plural+"."+version.Name+"."+r.Group, func(t *testing.T) {
				t.Parallel()
				for seed := range rounds {
					sameAsStored(t, r, version.Name, seed,
						randomHub(r, fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs)))
				}
			})
		}
	}
}

// randomHub returns a random object as a client can send it.
func randomHub(r *resource.Resource, fill *randfill.Filler) runtime.Object {
	random := r.Codec.New()
	fill.Fill(random)
	random.GetObjectKind().SetGroupVersionKind(r.Codec.New().GetObjectKind().GroupVersionKind())
	if object, err := meta.Accessor(random); err == nil {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
	}
	return random
}

// sameAsStored compares the hub of each encoding of an object with what its stored bytes decode to.
func sameAsStored(t *testing.T, r *resource.Resource, version string, seed int64, random runtime.Object) {
	versioned, err := r.Codec.ToVersion(random, version)
	require.NoError(t, err)
	for media, body := range encodings(t, versioned) {
		hub, _, err := r.Codec.Decode(body, media, version)
		require.NoErrorf(t, err, "seed %d: decode %s", seed, media)
		stored, err := r.Codec.Store(hub)
		require.NoErrorf(t, err, "seed %d: store what came as %s", seed, media)
		loaded, err := r.Codec.Load(stored)
		require.NoErrorf(t, err, "seed %d: load what came as %s", seed, media)
		if !equality.Semantic.DeepEqual(hub, loaded) {
			t.Fatalf("seed %d: the hub from %s is not what is stored:\n%s", seed, media, diff.Diff(hub, loaded))
		}
	}
}

// encodings returns a versioned object in all media types that the kind supports.
func encodings(t *testing.T, obj runtime.Object) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	encode := func(media string, encoder runtime.Encoder) {
		var b bytes.Buffer
		require.NoErrorf(t, encoder.Encode(obj, &b), "encode %s", media)
		all[media] = b.Bytes()
	}
	all[resource.MediaJSON] = []byte(mustJSON(t, obj))
	encode(resource.MediaCBOR, cbor.NewSerializer(Scheme(), Scheme()))
	if _, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		encode(resource.MediaProtobuf, protobuf.NewSerializer(Scheme(), Scheme()))
	}
	text, err := yaml.JSONToYAML(all[resource.MediaJSON])
	require.NoError(t, err)
	all[resource.MediaYAML] = text
	return all
}
