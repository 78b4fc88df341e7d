package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// ConvertPath is the path of the conversion webhook.
const ConvertPath = "/convert"

// Hub marks the version of a kind to and from which all other versions convert.
type Hub interface {
	client.Object
	Hub()
}

// Convertible is a version of a kind that is not the hub: a spoke.
type Convertible interface {
	client.Object
	// ConvertTo sets hub, which is empty, from the object.
	ConvertTo(hub Hub) error
	// ConvertFrom sets the object, which is empty, from hub.
	ConvertFrom(hub Hub) error
}

// Conversion converts objects between the versions of their kind, through the hub.
type Conversion struct{ scheme *runtime.Scheme }

// NewConversion returns a Conversion of the kinds in a scheme that have a hub.
func NewConversion(scheme *runtime.Scheme) *Conversion { return &Conversion{scheme} }

// Check returns an error if a kind can't be converted: it must have one hub, and all other versions
// in the scheme must be spokes.
func (c *Conversion) Check(kind schema.GroupKind) error {
	if _, err := c.hub(kind); err != nil {
		return err
	}
	for _, version := range c.versions(kind) {
		obj, err := c.scheme.New(version)
		if err != nil {
			return err
		}
		_, hub := obj.(Hub)
		if _, spoke := obj.(Convertible); !hub && !spoke {
			return fmt.Errorf("conversion of %s: %T implements neither webhook.Hub nor webhook.Convertible", kind, obj)
		}
	}
	return nil
}

func (c *Conversion) versions(kind schema.GroupKind) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, version := range c.scheme.VersionsForGroupKind(kind) {
		if version.Version != runtime.APIVersionInternal {
			all = append(all, version.WithKind(kind.Kind))
		}
	}
	return all
}

// hub returns an empty hub of a kind.
func (c *Conversion) hub(kind schema.GroupKind) (Hub, error) {
	var found Hub
	for _, version := range c.versions(kind) {
		obj, err := c.scheme.New(version)
		if err != nil {
			return nil, err
		}
		if hub, ok := obj.(Hub); ok {
			if found != nil {
				return nil, fmt.Errorf("conversion of %s: it has two hubs, %T and %T", kind, found, hub)
			}
			found = hub
		}
	}
	if found == nil {
		return nil, fmt.Errorf("conversion of %s: none of its versions is a hub (has a method Hub())", kind)
	}
	return found, nil
}

// Convert returns an object, given as JSON, in another version.
func (c *Conversion) Convert(raw []byte, to string) (runtime.Object, error) {
	var head metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	from := head.GroupVersionKind()
	version, err := schema.ParseGroupVersion(to)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if version.Group != from.Group {
		return nil, fmt.Errorf("convert %s to %s: groups differ", from, to)
	}
	src, err := c.scheme.New(from)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, src); err != nil {
		return nil, fmt.Errorf("convert: decode %s: %w", from, err)
	}
	if version == from.GroupVersion() {
		return src, nil
	}
	dst, err := c.scheme.New(version.WithKind(from.Kind))
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if err := c.convert(from.GroupKind(), src, dst); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", from.GroupVersion(), to, err)
	}
	dst.GetObjectKind().SetGroupVersionKind(version.WithKind(from.Kind))
	return dst, nil
}

func (c *Conversion) convert(kind schema.GroupKind, src, dst runtime.Object) error {
	srcHub, srcIsHub := src.(Hub)
	dstHub, dstIsHub := dst.(Hub)
	srcSpoke, srcIsSpoke := src.(Convertible)
	dstSpoke, dstIsSpoke := dst.(Convertible)
	switch {
	case srcIsHub && dstIsSpoke:
		return dstSpoke.ConvertFrom(srcHub)
	case srcIsSpoke && dstIsHub:
		return srcSpoke.ConvertTo(dstHub)
	case srcIsSpoke && dstIsSpoke:
		hub, err := c.hub(kind)
		if err != nil {
			return err
		}
		if err := srcSpoke.ConvertTo(hub); err != nil {
			return err
		}
		return dstSpoke.ConvertFrom(hub)
	}
	return fmt.Errorf("%T and %T are not a hub and a spoke", src, dst)
}

// conversionReview is the ConversionReview of apiextensions.k8s.io/v1.
type conversionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *conversionRequest  `json:"request,omitempty"`
	Response        *conversionResponse `json:"response,omitempty"`
}

type conversionRequest struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type conversionResponse struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// ServeHTTP handles a ConversionReview: it converts all objects or none.
func (c *Conversion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review conversionReview
	code, err := readReview(w, r, &review)
	if err == nil && review.Request == nil {
		code, err = http.StatusBadRequest, errors.New("the ConversionReview has no request")
	}
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}
	resp := &conversionResponse{UID: review.Request.UID, ConvertedObjects: []json.RawMessage{}}
	resp.Result.Status = metav1.StatusSuccess
	objects, err := c.convertAll(r, review.Request)
	if err != nil {
		reconcile.Log(r.Context()).Error("conversion failed", "to", review.Request.DesiredAPIVersion, "err", err)
		resp.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	} else {
		resp.ConvertedObjects = append(resp.ConvertedObjects, objects...)
	}
	writeJSON(w, conversionReview{TypeMeta: review.TypeMeta, Response: resp})
}

func (c *Conversion) convertAll(r *http.Request, req *conversionRequest) (converted []json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			reconcile.Log(r.Context()).Error("conversion panicked", "err", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
			panicked(r.Context())
		}
	}()
	for _, raw := range req.Objects {
		obj, err := c.Convert(raw, req.DesiredAPIVersion)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(obj)
		if err != nil {
			return nil, fmt.Errorf("convert: encode: %w", err)
		}
		converted = append(converted, data)
	}
	return converted, nil
}
