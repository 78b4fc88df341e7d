package crd

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	kjson "sigs.k8s.io/json"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/tree"
)

// codec converts custom objects between bodies, hubs and the stored form, which is JSON in the
// storage version.
type codec struct {
	*compiled
	hub string // the version of hubs
}

var _ resource.Verbatim = (*codec)(nil)

func (c *codec) New() runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(c.gvk(c.hub))
	return u
}

func (c *codec) Decode(body []byte, mediaType, version string) (runtime.Object, []error, error) {
	u, strict, err := c.parse(body, mediaType)
	if err != nil {
		return nil, nil, resource.Unreadable(c.name, gvkOf(u), body, err)
	}
	// Kubernetes ignores strict-validation errors for CBOR
	binary := mediaType == resource.MediaCBOR
	unknown, err := c.complete(u, !binary)
	if err != nil {
		return nil, nil, resource.Unreadable(c.name, gvkOf(u), body, err)
	}
	if strict = append(strict, unknown...); binary {
		strict = nil
	}
	got := u.GroupVersionKind().GroupVersion()
	if want := c.gvk(version).GroupVersion(); got != want {
		return nil, strict, wrongVersion(got, want)
	}
	hub, err := c.convert(u, c.hub)
	return hub, strict, err
}

// DecodePatched does not convert an object whose patch changed its version: validation refuses it.
func (c *codec) DecodePatched(patched []byte, version string) (runtime.Object, []error, error) {
	u, strict, err := c.parse(patched, resource.MediaJSON)
	if err != nil {
		return nil, nil, err
	}
	unknown, err := c.complete(u, true)
	if err != nil {
		return nil, nil, err
	}
	if strict = append(strict, unknown...); u.GroupVersionKind().GroupVersion() != c.gvk(version).GroupVersion() {
		return u, strict, nil
	}
	hub, err := c.convert(u, c.hub)
	return hub, strict, err
}

// MergePatch implements [resource.Merger].
func (c *codec) MergePatch(object, patch []byte, version string) (hub runtime.Object, ok bool) {
	if c.hub != version || c.noFastPaths {
		return nil, false
	}
	with, err := c.fields.Parse(patch)
	if metadata, _ := with["metadata"].(map[string]any); err != nil || metadata["managedFields"] != nil {
		return nil, false
	}
	content, err := c.fields.Parse(object)
	if err != nil || !tree.Merge(content, with) {
		return nil, false
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GroupVersionKind() != c.gvk(version) {
		return nil, false
	}
	unknown, err := c.complete(u, true)
	return u, err == nil && len(unknown) == 0
}

// complete prunes and defaults a parsed body by the schema of the version that its apiVersion
// names. unknown lists the pruned fields.
func (c *codec) complete(u *unstructured.Unstructured, report bool) (unknown []error, err error) {
	paths, err := c.coerce(u, coercion{report: report})
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		unknown = append(unknown, fmt.Errorf(`unknown field "%s"`, path))
	}
	return unknown, c.applyDefaults(u)
}

// parse reads a body without a schema. strict lists duplicate fields. If parse returns an error, u
// may still have the kind.
func (c *codec) parse(body []byte, mediaType string) (u *unstructured.Unstructured, strict []error, err error) {
	u = &unstructured.Unstructured{}
	switch mediaType {
	case resource.MediaJSON:
		if u.Object, err = c.parseTree(body); err != nil {
			u.Object = map[string]any{}
			strict, err = kjson.UnmarshalStrict(body, &u.Object)
		}
		if err != nil {
			if _, explained := json.DefaultMetaFactory.Interpret(body); explained != nil {
				err = explained
			}
			return nil, nil, err
		}
		if _, malformed := schema.ParseGroupVersion(u.GetAPIVersion()); malformed != nil || u.GetKind() == "" {
			if _, explained := json.DefaultMetaFactory.Interpret(body); explained != nil {
				return nil, nil, explained
			}
			return nil, nil, runtime.NewMissingKindErr(string(body))
		}
		return u, strict, nil
	case resource.MediaYAML:
		yaml := json.NewSerializerWithOptions(json.DefaultMetaFactory, creater{},
			crdserverscheme.NewUnstructuredObjectTyper(),
			json.SerializerOptions{Yaml: true, Strict: true})
		_, _, err = yaml.Decode(body, nil, u)
	case resource.MediaCBOR:
		_, _, err = cbor.NewSerializer(creater{}, crdserverscheme.NewUnstructuredObjectTyper(),
			cbor.Strict(true)).Decode(body, nil, u)
	case resource.MediaProtobuf:
		return nil, nil, notProtobuf()
	default:
		return nil, nil, unsupportedMediaType(mediaType)
	}
	if problem, ok := runtime.AsStrictDecodingError(err); ok {
		return u, problem.Errors(), nil
	}
	return u, nil, err
}

func gvkOf(u *unstructured.Unstructured) *schema.GroupVersionKind {
	if u == nil || u.Object == nil {
		return nil
	}
	gvk := u.GroupVersionKind()
	return &gvk
}

func (c *codec) Load(stored []byte) (runtime.Object, error) {
	m, err := c.parseTree(stored)
	if err != nil {
		m = map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(stored, &m); err != nil {
			return nil, fmt.Errorf("load %s: %w", c.name, err)
		}
	}
	u := &unstructured.Unstructured{Object: m}
	hub, err := c.loaded(u)
	if errors.Is(err, errDefaults) {
		// Nothing is written: this is not the error of a client, so its Status must not be used.
		err = fmt.Errorf("load %s: %v", c.name, err)
	}
	return hub, err
}

// loaded converts an object from the store to the hub.
func (c *codec) loaded(u *unstructured.Unstructured) (runtime.Object, error) {
	if c.current(u) {
		return c.convert(u, c.hub)
	}
	// An object whose version is not the current storage version was stored under an older spec.
	// The schema of its version still exists, because versions with stored objects cannot be
	// removed.
	if _, err := c.version(u.GroupVersionKind().Version); err != nil {
		return nil, fmt.Errorf("load %s: %w", c.name, err)
	}
	if _, err := c.coerce(u, coercion{repair: true}); err != nil {
		return nil, fmt.Errorf("load %s: %w", c.name, err)
	}
	if err := c.applyDefaults(u); err != nil {
		return nil, err
	}
	return c.convert(u, c.hub)
}

// current reports whether an object was stored under the present spec.
func (c *codec) current(u *unstructured.Unstructured) bool {
	revision, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	return err == nil && revision > c.since && u.GroupVersionKind().Version == c.storage
}

// Verbatim implements [resource.Verbatim]: objects stored under an older spec need pruning and
// defaulting when they are read.
func (c *codec) Verbatim(obj *store.Object) bool { return obj.Revision > c.since }

// Store prunes and defaults the hub again before it encodes it: appliers and webhooks may have
// added unknown fields and removed defaults.
func (c *codec) Store(hub runtime.Object) ([]byte, error) {
	u := hub.(*unstructured.Unstructured)
	if c.hub != c.storage {
		stored, err := c.convert(u.DeepCopy(), c.storage)
		if err != nil {
			return nil, err
		}
		u = stored
	} else if _, err := c.coerce(u, coercion{repair: true}); err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.name, err)
	} else if err := c.applyDefaults(u); err != nil {
		return nil, err
	}
	data, err := c.encodeTree(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.name, err)
	}
	return data, nil
}

func (c *codec) ToVersion(hub runtime.Object, version string) (runtime.Object, error) {
	return c.convert(hub.(*unstructured.Unstructured).DeepCopy(), version)
}

func (c *codec) FromVersion(versioned runtime.Object) (runtime.Object, error) {
	u, ok := versioned.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: got a %T, want *unstructured.Unstructured", c.name, versioned)
	}
	if err := c.applyDefaults(u); err != nil {
		return nil, err
	}
	return c.convert(u, c.hub)
}

// PatchMeta returns false: custom kinds have no strategic merge patch.
func (c *codec) PatchMeta(string) (strategicpatch.LookupPatchMeta, bool) { return nil, false }

func (c *codec) FieldManager(version, subresource string) (resource.FieldManager, error) {
	return c.models.manager(version, subresource)
}

// TypeConverter implements [resource.Modelled].
func (c *codec) TypeConverter() (managedfields.TypeConverter, error) { return c.models.types() }

func (c *codec) Interfaces() resource.Interfaces {
	return resource.Interfaces{
		Creater:   creater{},
		Typer:     crdserverscheme.NewUnstructuredObjectTyper(),
		Defaulter: defaulter{c.compiled},
		Convertor: convertor{c.compiled},
	}
}

// applyDefaults applies the defaults of the object's version. It leaves objects of other kinds
// unchanged. It fails with errDefaults, and adds nothing, if the defaults are too large.
func (c *compiled) applyDefaults(u *unstructured.Unstructured) error {
	s, err := c.schemaOf(u)
	if err != nil || s == nil || u.GroupVersionKind().Kind != c.name || c.normalized(u) {
		return err
	}
	d, left := c.versions[u.GroupVersionKind().Version].defaults(), int64(store.MaxObject)
	if !d.fits(u.Object, &left) {
		return errDefaults
	}
	if c.noFastPaths {
		defaulting.Default(u.Object, s)
	} else {
		d.apply(u.Object)
	}
	return nil
}

// normalized reports whether pruning, defaulting and coercion by the schema of its version would
// certainly not change an object.
func (c *compiled) normalized(u *unstructured.Unstructured) bool {
	kind := u.GroupVersionKind()
	v, ok := c.versions[kind.Version]
	return ok && kind.Group == c.group && validity.Unchanged(v.shape(), u.Object)
}

// schemaOf returns the schema of an object's version; nil if the kind has no such version.
func (c *compiled) schemaOf(u *unstructured.Unstructured) (*structuralschema.Structural, error) {
	kind := u.GroupVersionKind()
	v, ok := c.versions[kind.Version]
	if !ok || kind.Group != c.group {
		return nil, nil
	}
	return v.structural()
}

// parseTree parses a JSON object. After an error the caller must use the library's parser, which
// accepts more and explains what it rejects.
func (c *compiled) parseTree(data []byte) (map[string]any, error) {
	if c.noFastPaths {
		return nil, tree.ErrUnusual
	}
	return c.fields.Parse(data)
}

// encodeTree returns an object as JSON, as encoding/json writes it. The caller owns the result.
func (c *compiled) encodeTree(object map[string]any) ([]byte, error) {
	if c.noFastPaths {
		return stdjson.Marshal(object)
	}
	return trees.Encode(object, c.fields)
}

func notProtobuf() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message",
	}}
}

func unsupportedMediaType(string) error {
	return negotiation.NewUnsupportedMediaTypeError([]string{resource.MediaJSON, resource.MediaYAML,
		resource.MediaCBOR})
}
