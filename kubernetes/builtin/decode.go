package builtin

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/strictjson"
)

// Decode decodes a request body. A body without apiVersion and kind has the kind and version of the
// request. For a body of another kind or version, Decode returns Kubernetes' error.
func (c *Codec) Decode(body []byte, mediaType, version string) (runtime.Object, []error, error) {
	decoder, ok := c.decoders[mediaType]
	if !ok {
		return nil, nil, apierrors.NewBadRequest(
			fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s, %s, %s",
				resource.MediaJSON, resource.MediaYAML, resource.MediaProtobuf, resource.MediaCBOR))
	}
	want := schema.GroupVersionKind{Group: c.kind.Group, Version: version, Kind: c.kind.Kind}
	if mediaType == resource.MediaJSON {
		if hub, ok := c.decodeFast(body, want); ok {
			return hub, nil, nil
		}
	}
	if err := c.CheckBody(body, mediaType, want); err != nil {
		return nil, nil, err
	}
	hub, got, strict, err := decodeStrict(decoder, body, &want, c.New())
	if err != nil {
		return nil, nil, resource.Unreadable(c.kind.Kind, got, body, err)
	}
	if got.GroupVersion() != want.GroupVersion() {
		return nil, nil, apierrors.NewBadRequest(
			fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
				got.GroupVersion(), want.GroupVersion()))
	}
	return hub, strict, nil
}

// DecodePatched reads the JSON that a patch produced. Unlike a request body, it must have
// apiVersion and kind, and may be of another version of the group. It returns the decoder's error
// unchanged, so that the caller can add the patch to the message.
func (c *Codec) DecodePatched(patched []byte, version string) (runtime.Object, []error, error) {
	if hub, ok := c.decodeFast(patched, c.kind.WithVersion(version)); ok {
		return hub, nil, nil
	}
	if err := c.CheckBody(patched, resource.MediaJSON, c.kind.WithVersion(version)); err != nil {
		return nil, nil, err
	}
	hub, _, strict, err := decodeStrict(c.decoders[resource.MediaJSON], patched, nil, c.New())
	return hub, strict, err
}

// fastDecoder decodes the versioned types of all built-in kinds.
var fastDecoder = sync.OnceValue(func() *strictjson.Decoder { return strictjson.New(Scheme()) })

// decodeFast decodes an object of a kind to its hub, with defaults, as the strict decoders do. If
// ok is false, a strict decoder must decode it.
func (c *Codec) decodeFast(data []byte, kind schema.GroupVersionKind) (hub runtime.Object, ok bool) {
	if c.noFastPaths {
		return nil, false
	}
	// The caller reports the quantities that CheckBody refuses.
	if q := c.quantitiesOf(kind, kind); q != nil && (q.holdsText || maySpend(data)) && c.checkJSON(data, kind) != nil {
		return nil, false
	}
	versioned, ok := fastDecoder().Decode(data, kind)
	if !ok {
		return nil, false
	}
	if _, nested := versioned.(runtime.NestedObjectDecoder); nested {
		return nil, false
	}
	c.scheme.Default(versioned)
	hub = c.New()
	err := c.scheme.Convert(versioned, hub, c.hub.GroupVersion())
	return hub, err == nil
}

// decodeStrict returns the findings of strict decoding separately from decoding errors.
func decodeStrict(decoder runtime.Decoder, data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, []error, error) {
	hub, got, err := decoder.Decode(data, defaults, into)
	if err == nil {
		return hub, got, nil, nil
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok && hub != nil {
		return hub, got, strict.Errors(), nil
	}
	return nil, got, nil, err
}
