package crd

import (
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/fastpath/validity"
)

// coercion sets how coerce treats unknown fields and malformed metadata.
type coercion struct {
	report bool // collect the paths of unknown fields
	repair bool // drop malformed metadata instead of returning an error: for objects from the store
}

// coerce corresponds to decoding a built-in object into its Go type. It normalizes the metadata of
// a custom object. It drops fields that are not in the schema of the object's version, and nulls
// that the schema forbids. It returns the paths of the dropped fields. It always keeps apiVersion,
// kind and metadata, regardless of the schema. It does not prune objects of another kind:
// validation refuses them.
func (c *compiled) coerce(u *unstructured.Unstructured, opts coercion) ([]string, error) {
	for _, field := range []string{"kind", "apiVersion"} {
		if _, _, err := unstructured.NestedString(u.Object, field); err != nil {
			return nil, err
		}
	}
	kind, apiVersion := u.GetKind(), u.GetAPIVersion()
	if metadata, ok := u.Object["metadata"].(map[string]any); ok && c.unchangedMetadata(metadata) &&
		(!opts.repair || metadata["generation"] != nil) {
		if kind != c.name || u.GroupVersionKind().Group != c.group {
			return nil, nil
		}
		return c.coerceContent(u, opts)
	}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: opts.repair, ReturnUnknownFieldPaths: opts.report,
	})
	if err != nil {
		return nil, err
	}
	if kind == c.name && u.GroupVersionKind().Group == c.group {
		paths, err := c.coerceContent(u, opts)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, paths...)
		if opts.repair && meta != nil && meta.Generation == 0 {
			meta.Generation = 1 // very old servers stored objects without it
		}
	}
	if kind != "" {
		u.SetKind(kind)
	}
	if apiVersion != "" {
		u.SetAPIVersion(apiVersion)
	}
	if found {
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, fmt.Errorf("write metadata: %w", err)
		}
	}
	return unknown, nil
}

func (c *compiled) coerceContent(u *unstructured.Unstructured, opts coercion) (unknown []string, err error) {
	s, err := c.schemaOf(u)
	if err != nil {
		return nil, err
	}
	if !c.preserves() && c.normalized(u) {
		return nil, nil
	}
	if !c.preserves() {
		unknown = pruning.PruneWithOptions(u.Object, s, true,
			structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: opts.report})
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	}
	problem, paths := objectmeta.CoerceWithOptions(nil, u.Object, s, false, objectmeta.CoerceOptions{
		DropInvalidFields: opts.repair, ReturnUnknownFieldPaths: opts.report,
	})
	if problem != nil {
		return nil, problem
	}
	return append(unknown, paths...), nil
}

// unchangedMetadata reports whether a conversion of metadata to ObjectMeta and back would certainly
// not change it.
func (c *compiled) unchangedMetadata(metadata map[string]any) bool {
	return !c.noFastPaths && validity.UnchangedMetadata(metadata, c.fields)
}
