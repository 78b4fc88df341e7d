package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/typed"

	fastfields "kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/strictjson"
)

// codec implements resource.Codec for a kind of Go types. Hubs are objects of the hub type, with
// apiVersion and kind.
type codec struct {
	kind        *kind
	scheme      *runtime.Scheme
	serializers map[string]runtime.Serializer
	reset       map[string]*strategy // by subresource
	// since is a revision: this server has stored all objects with later revisions.
	since uint64

	types     func() (managedfields.TypeConverter, error)
	typesOnce sync.Once
	patch     sync.Map // version → strategicpatch.LookupPatchMeta
	managers  sync.Map // managerKey → resource.FieldManager
	fields    fastfields.Cache
	// noFastPaths makes Kubernetes' libraries do all work; see package fastpath.
	noFastPaths bool
	fast        *strictjson.Decoder // nil with noFastPaths
}

type managerKey struct{ version, subresource string }

var (
	_ resource.Codec    = (*codec)(nil)
	_ resource.Lossy    = (*codec)(nil)
	_ resource.Merger   = (*codec)(nil)
	_ resource.Modelled = (*codec)(nil)
	_ resource.Verbatim = (*codec)(nil)
)

// register adds the types of a kind with their defaults and conversions to a scheme.
func (k *kind) register(scheme *runtime.Scheme) error {
	for _, v := range k.versions {
		scheme.AddKnownTypeWithName(k.gvk(v.name), v.proto)
		if _, ok := v.proto.(interface{ Default() }); ok {
			scheme.AddTypeDefaultingFunc(v.proto, func(obj any) { obj.(interface{ Default() }).Default() })
		}
		if v.toHub == nil {
			continue
		}
		for _, add := range []struct {
			from, to runtime.Object
			convert  conversion.ConversionFunc
		}{
			{v.proto, k.hub().proto, func(a, b any, _ conversion.Scope) error {
				return v.toHub(a.(runtime.Object), b.(runtime.Object))
			}},
			{k.hub().proto, v.proto, func(a, b any, _ conversion.Scope) error {
				return v.fromHub(b.(runtime.Object), a.(runtime.Object))
			}},
		} {
			if err := scheme.AddConversionFunc(add.from, add.to, add.convert); err != nil {
				return fmt.Errorf("register conversion of %s: %w", k.name, err)
			}
		}
		for _, other := range k.versions {
			if other.toHub == nil || other == v {
				continue
			}
			convert := func(a, b any, _ conversion.Scope) error {
				hub, err := scheme.New(k.gvk(k.hub().name))
				if err != nil {
					return err
				}
				if err := v.toHub(a.(runtime.Object), hub); err != nil {
					return err
				}
				return other.fromHub(b.(runtime.Object), hub)
			}
			if err := scheme.AddConversionFunc(v.proto, other.proto, convert); err != nil {
				return fmt.Errorf("register conversion of %s: %w", k.name, err)
			}
		}
	}
	return nil
}

// protobuf reports whether all versions have an encoding in protobuf.
func (k *kind) protobuf() bool {
	for _, v := range k.versions {
		if _, ok := v.proto.(interface {
			Marshal() ([]byte, error)
			Unmarshal([]byte) error
		}); !ok {
			return false
		}
	}
	return true
}

// newSerializers returns the strict serializers of a scheme.
func newSerializers(s *runtime.Scheme) map[string]runtime.Serializer {
	return map[string]runtime.Serializer{
		resource.MediaJSON: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, s, s,
			jsonserializer.SerializerOptions{Strict: true}),
		resource.MediaYAML: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, s, s,
			jsonserializer.SerializerOptions{Strict: true, Yaml: true}),
		resource.MediaProtobuf: protobuf.NewSerializer(s, s),
		resource.MediaCBOR:     cbor.NewSerializer(s, s, cbor.Strict(true)),
	}
}

func (c *codec) hubKind() schema.GroupVersionKind { return c.kind.gvk(c.kind.hub().name) }

// New returns an empty hub.
func (c *codec) New() runtime.Object {
	obj, err := c.scheme.New(c.hubKind())
	if err != nil {
		panic(err) // the kind was registered when the codec was made
	}
	obj.GetObjectKind().SetGroupVersionKind(c.hubKind())
	return obj
}

// Decode decodes a body. A body without apiVersion and kind counts as an object of the request's
// kind.
func (c *codec) Decode(body []byte, mediaType, version string) (runtime.Object, []error, error) {
	serializer, ok := c.serializers[mediaType]
	if !ok || mediaType == resource.MediaProtobuf && !c.kind.protobuf() {
		return nil, nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
			Reason: metav1.StatusReasonUnsupportedMediaType,
			Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s, %s",
				resource.MediaJSON, resource.MediaYAML, resource.MediaCBOR),
		}}
	}
	want := c.kind.gvk(version)
	if mediaType == resource.MediaJSON {
		if obj, ok := c.fast.Decode(body, want); ok {
			return c.decoded(obj, nil)
		}
	}
	obj, got, strict, err := decodeStrict(serializer, body, &want)
	if err == nil && got.GroupKind() != want.GroupKind() {
		err = fmt.Errorf("expected a %s", want.Kind)
	}
	switch {
	case err != nil:
		return nil, nil, resource.Unreadable(want.Kind, got, body, err)
	case got.GroupVersion() != want.GroupVersion():
		return nil, nil, apierrors.NewBadRequest(
			fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
				got.GroupVersion(), want.GroupVersion()))
	}
	return c.decoded(obj, strict)
}

// DecodePatched decodes the JSON that a patch produced. Its version may differ from that of
// the request.
func (c *codec) DecodePatched(patched []byte, version string) (runtime.Object, []error, error) {
	if obj, ok := c.fast.Decode(patched, c.kind.gvk(version)); ok {
		return c.decoded(obj, nil)
	}
	obj, _, strict, err := decodeStrict(c.serializers[resource.MediaJSON], patched, nil)
	if err != nil {
		return nil, nil, err
	}
	return c.decoded(obj, strict)
}

// MergePatch implements [resource.Merger].
func (c *codec) MergePatch(object, patch []byte, version string) (hub runtime.Object, ok bool) {
	if c.noFastPaths {
		return nil, false
	}
	merged, ok := trees.MergePatch(object, patch)
	if !ok {
		return nil, false
	}
	hub, strict, err := c.DecodePatched(merged, version)
	return hub, err == nil && len(strict) == 0
}

// decoded converts a decoded body to the hub. It appends to strict an error for each field that the
// conversion loses.
func (c *codec) decoded(obj runtime.Object, strict []error) (runtime.Object, []error, error) {
	hub, lost, err := c.convert(obj, true)
	return hub, append(strict, lost...), err
}

// decodeStrict separates the errors of strict decoding from all others.
func decodeStrict(decoder runtime.Decoder, data []byte,
	defaults *schema.GroupVersionKind) (runtime.Object, *schema.GroupVersionKind, []error, error) {
	obj, got, err := decoder.Decode(data, defaults, nil)
	if err == nil {
		return obj, got, nil, nil
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
		return obj, got, strict.Errors(), nil
	}
	return nil, got, nil, err
}

// toHub applies the defaults of a version, converts to the hub, and applies the defaults of the
// hub, so that objects are complete in whichever version they are written. It may return its
// argument.
func (c *codec) toHub(obj runtime.Object) (runtime.Object, error) {
	hub, _, err := c.convert(obj, false)
	return hub, err
}

// convert implements toHub. If check is true, it also returns errors for the fields that the
// conversion loses.
func (c *codec) convert(obj runtime.Object, check bool) (_ runtime.Object, lost []error, err error) {
	c.scheme.Default(obj)
	hub, err := c.scheme.UnsafeConvertToVersion(obj, c.hubKind().GroupVersion())
	if err != nil {
		return nil, nil, err
	}
	if hub != obj {
		if check {
			lost = c.kind.lost(obj, hub)
		}
		c.scheme.Default(hub)
	}
	for _, set := range c.kind.rules.defaults {
		set(hub)
	}
	return hub, lost, nil
}

// Load decodes stored bytes, which may be in any version that the kind has.
func (c *codec) Load(stored []byte) (runtime.Object, error) {
	if obj, ok := c.fast.Decode(stored, c.kind.gvk(c.kind.storage)); ok {
		return c.toHub(obj)
	}
	obj, _, _, err := decodeStrict(c.serializers[resource.MediaJSON], stored, nil)
	if err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", c.kind.name, err)
	}
	return c.toHub(obj)
}

// Store encodes a hub in the storage version.
func (c *codec) Store(hub runtime.Object) ([]byte, error) {
	for _, set := range c.kind.rules.defaults {
		set(hub)
	}
	versioned, err := c.scheme.UnsafeConvertToVersion(hub, c.kind.gvk(c.kind.storage).GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.kind.name, err)
	}
	c.scheme.Default(versioned) // Load would convert them, but responses copy the stored bytes
	data, err := json.Marshal(versioned)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.kind.name, err)
	}
	return data, nil
}

// canonical is the memo key under which an object records whether its stored form is the one that
// its codec would write now. It does not keep the codec alive: objects that forks share outlive the
// codecs of the forks.
type canonical struct{ codec weak.Pointer[codec] }

// Verbatim implements [resource.Verbatim]. Objects that another server or another build of this one
// stored may be in another version, or lack defaults.
func (c *codec) Verbatim(obj *store.Object) bool {
	if obj.Revision > c.since {
		return true
	}
	same, err := obj.Memo(canonical{weak.Make(c)}, func() (any, error) {
		hub, err := c.Load(obj.Data)
		if err != nil {
			return nil, err
		}
		data, err := c.Store(hub)
		return bytes.Equal(data, obj.Data), err
	})
	return err == nil && same.(bool)
}

// ToVersion converts a copy of a hub.
func (c *codec) ToVersion(hub runtime.Object, version string) (runtime.Object, error) {
	return c.scheme.ConvertToVersion(hub, schema.GroupVersion{Group: c.kind.group, Version: version})
}

// FromVersion applies defaults and converts to the hub.
func (c *codec) FromVersion(versioned runtime.Object) (runtime.Object, error) {
	return c.toHub(versioned)
}

// FromVersionStrict implements [resource.Lossy].
func (c *codec) FromVersionStrict(versioned runtime.Object) (hub runtime.Object, lost []error, err error) {
	return c.convert(versioned, true)
}

// PatchMeta returns the metadata in the struct tags of the version's type.
func (c *codec) PatchMeta(version string) (strategicpatch.LookupPatchMeta, bool) {
	if meta, ok := c.patch.Load(version); ok {
		return meta.(strategicpatch.LookupPatchMeta), true
	}
	v := c.kind.version(version)
	if v == nil {
		return nil, false
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(v.proto)
	if err != nil {
		return nil, false
	}
	c.patch.Store(version, meta)
	return meta, true
}

// FieldManager returns the manager of a version and subresource.
func (c *codec) FieldManager(version, subresource string) (resource.FieldManager, error) {
	key := managerKey{version, subresource}
	if made, ok := c.managers.Load(key); ok {
		return made.(resource.FieldManager), nil
	}
	types, err := c.TypeConverter()
	if err != nil {
		return nil, err
	}
	manager, err := c.newFieldManager(types, key)
	if err != nil {
		return nil, fmt.Errorf("track fields of %s: %w", c.kind.name, err)
	}
	made, _ := c.managers.LoadOrStore(key, defaulting{manager, c})
	return made.(resource.FieldManager), nil
}

// defaulting is a field manager that completes the result of Apply, as decoding completes the
// objects of other writes. Managers do not own the defaults.
type defaulting struct {
	resource.FieldManager
	codec *codec
}

func (d defaulting) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	hub, err := d.FieldManager.Apply(live, config, by, force)
	if err != nil {
		return nil, err
	}
	return d.codec.toHub(hub)
}

func (c *codec) newFieldManager(types managedfields.TypeConverter, key managerKey) (resource.FieldManager, error) {
	var fields map[fieldpath.APIVersion]*fieldpath.Set
	var filters map[fieldpath.APIVersion]fieldpath.Filter
	if s := c.reset[key.subresource]; s != nil {
		fields = s.GetResetFields()
		filters = fieldpath.NewExcludeFilterSetMap(fields)
	}
	kind, hub := c.kind.gvk(key.version), c.hubKind().GroupVersion()
	upstream, err := managedfields.NewDefaultFieldManager(types, c.scheme, c.scheme, c.scheme, kind, hub,
		key.subresource, filters)
	if err != nil {
		return nil, err
	}
	library := resource.Tracked{FieldManager: upstream}
	if c.noFastPaths {
		return library, nil
	}
	version := fieldpath.APIVersion(kind.GroupVersion().String())
	var filter fieldpath.Filter
	reset, ok := fastfields.ResetNames(fields[version])
	if !ok {
		filter = filters[version]
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	typed, err := types.ObjectToTyped(empty)
	if err != nil {
		return nil, err
	}
	fieldShape := shape.FromTyped(&smd.ParseableType{TypeRef: typed.TypeRef(), Schema: typed.Schema()})
	if fieldShape == nil {
		return library, nil
	}
	return fastfields.NewStructManager(fastfields.StructConfig{
		Library: library, Types: types, Cache: &c.fields, Scheme: c.scheme, Kind: kind, Hub: hub,
		Subresource: key.subresource, Shape: fieldShape,
		Reset: reset, Filter: filter,
	})
}

// TypeConverter implements [resource.Modelled].
func (c *codec) TypeConverter() (managedfields.TypeConverter, error) {
	c.typesOnce.Do(func() { c.types = sync.OnceValues(c.kind.model) })
	return c.types()
}

// Interfaces returns the scheme as each of the four interfaces.
func (c *codec) Interfaces() resource.Interfaces {
	return resource.Interfaces{Creater: c.scheme, Typer: c.scheme, Defaulter: c.scheme, Convertor: c.scheme}
}
