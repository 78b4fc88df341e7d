package crd

import (
	"bytes"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	strategies "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	endpoints "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// definitionKind is the kind of definitions in v1, the only version.
func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// definitionCodec converts CustomResourceDefinitions between v1 and the internal type.
type definitionCodec struct {
	scheme  *runtime.Scheme
	codecs  serializer.CodecFactory
	types   func() (managedfields.TypeConverter, error)
	manager sync.Map // subresource → *managedfields.FieldManager
}

func newDefinitionCodec(scheme *runtime.Scheme) *definitionCodec {
	return &definitionCodec{
		scheme: scheme,
		codecs: serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo)),
		types:  sync.OnceValues(func() (managedfields.TypeConverter, error) { return definitionTypes(scheme) }),
	}
}

func (c *definitionCodec) New() runtime.Object { return &apiextensions.CustomResourceDefinition{} }

func (c *definitionCodec) Decode(body []byte, mediaType, version string) (runtime.Object, []error, error) {
	info, ok := runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return nil, nil, unsupportedMediaType(mediaType)
	}
	kind := definitionKind()
	hub, actual, strict, err := c.decode(info.StrictSerializer, body, kind)
	if err != nil {
		return nil, nil, resource.Unreadable(kind.Kind, actual, body, err)
	}
	if got := actual.GroupVersion(); got != kind.GroupVersion() {
		return nil, nil, wrongVersion(got, kind.GroupVersion())
	}
	return hub, strict, nil
}

func (c *definitionCodec) decode(s runtime.Serializer, body []byte,
	kind schema.GroupVersionKind) (runtime.Object, *schema.GroupVersionKind, []error, error) {
	hub, actual, err := c.codecs.DecoderToVersion(s, apiextensions.SchemeGroupVersion).Decode(body, &kind, c.New())
	var strict []error
	if problem, ok := runtime.AsStrictDecodingError(err); ok && hub != nil {
		strict, err = problem.Errors(), nil
	}
	return hub, actual, strict, err
}

func (c *definitionCodec) DecodePatched(patched []byte, version string) (runtime.Object, []error, error) {
	info, _ := runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), resource.MediaJSON)
	hub, _, strict, err := c.decode(info.StrictSerializer, patched, definitionKind())
	return hub, strict, err
}

func (c *definitionCodec) Load(stored []byte) (runtime.Object, error) {
	info, _ := runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), resource.MediaJSON)
	hub, _, _, err := c.decode(info.Serializer, stored, definitionKind())
	return hub, err
}

func (c *definitionCodec) Store(hub runtime.Object) ([]byte, error) {
	info, _ := runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), resource.MediaJSON)
	var buf bytes.Buffer
	if err := c.codecs.EncoderForVersion(info.Serializer, apiextensionsv1.SchemeGroupVersion).Encode(hub,
		&buf); err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func (c *definitionCodec) ToVersion(hub runtime.Object, version string) (runtime.Object, error) {
	gv := schema.GroupVersion{Group: apiextensionsv1.GroupName, Version: version}
	out, err := c.scheme.ConvertToVersion(hub.DeepCopyObject(), gv)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(gv.WithKind("CustomResourceDefinition"))
	return out, nil
}

func (c *definitionCodec) FromVersion(versioned runtime.Object) (runtime.Object, error) {
	c.scheme.Default(versioned)
	return c.scheme.ConvertToVersion(versioned, apiextensions.SchemeGroupVersion)
}

func (c *definitionCodec) PatchMeta(version string) (strategicpatch.LookupPatchMeta, bool) {
	meta, err := strategicpatch.NewPatchMetaFromStruct(apiextensionsv1.CustomResourceDefinition{})
	return meta, err == nil
}

func (c *definitionCodec) FieldManager(version, subresource string) (resource.FieldManager, error) {
	if m, ok := c.manager.Load(subresource); ok {
		return m.(resource.FieldManager), nil
	}
	types, err := c.types()
	if err != nil {
		return nil, fmt.Errorf("build type models: %w", err)
	}
	reset := strategies.NewStrategy(c.scheme).GetResetFields()
	if subresource == "status" {
		reset = strategies.NewStatusStrategy(c.scheme).GetResetFields()
	}
	m, err := managedfields.NewDefaultFieldManager(types, c.scheme, c.scheme, c.scheme, definitionKind(),
		apiextensions.SchemeGroupVersion, subresource, fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		return nil, err
	}
	won, _ := c.manager.LoadOrStore(subresource, resource.Tracked{FieldManager: m})
	return won.(resource.FieldManager), nil
}

func (c *definitionCodec) Interfaces() resource.Interfaces {
	return resource.Interfaces{Creater: c.scheme, Typer: c.scheme, Defaulter: c.scheme, Convertor: c.scheme}
}

// definitionTypes returns the type model for managedFields of definitions.
func definitionTypes(scheme *runtime.Scheme) (managedfields.TypeConverter, error) {
	namer := endpoints.NewDefinitionNamer(scheme)
	models, err := builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    generated.GetOpenAPIDefinitions,
		GetDefinitionName: namer.GetDefinitionName,
	}, apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName())
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(models, false)
}

func wrongVersion(got, want schema.GroupVersion) error {
	return apierrors.NewBadRequest(fmt.Sprintf(
		"the API version in the data (%s) does not match the expected API version (%s)", got, want))
}
