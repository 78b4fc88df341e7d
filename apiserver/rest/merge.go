package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml" // keeps integers whole, which sigs.k8s.io/yaml does not
	kjson "sigs.k8s.io/json"

	"kelson.dev/apiserver/fastpath/trees"
	patches "kelson.dev/apiserver/internal/jsonpatch"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// mergeJSON applies a JSON or merge patch to an object as JSON. strict lists violations in the
// patch itself; shown is the result as text, for errors about it.
func (p *patcher) mergeJSON(before []byte) (after []byte, strict []error, shown string, err error) {
	if patches.TooDeep(before, p.body) {
		return nil, nil, "", apierrors.NewRequestEntityTooLargeError(
			"the patch or the patched object is nested too deeply")
	}
	if p.kind == types.JSONPatchType {
		after, strict, err = p.jsonPatch(before)
	} else {
		after, strict, err = p.mergePatch(before)
	}
	return after, strict, string(after), err
}

// mergeTrees applies a merge patch with the codec, if the codec can merge and the patch causes
// neither errors nor warnings.
func (p *patcher) mergeTrees(before []byte) (hub runtime.Object, ok bool) {
	merger, ok := p.s.on.res.Codec.(resource.Merger)
	if !ok || p.kind != types.MergePatchType || patches.TooDeep(before, p.body) {
		return nil, false
	}
	return merger.MergePatch(before, p.body, p.s.on.version)
}

// jsonPatchOp is an operation of a JSON patch. Errors contain the name of the type.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *patcher) lenient() bool {
	return fieldValidation(p.opts.FieldValidation) == metav1.FieldValidationIgnore
}

func (p *patcher) jsonPatch(before []byte) (after []byte, strict []error, err error) {
	if !p.lenient() {
		var ops []jsonPatchOp
		if strict, err = kjson.UnmarshalStrict(p.body, &ops); err != nil {
			// Kubernetes names its own type
			words := strings.ReplaceAll(err.Error(), "rest.jsonPatchOp", "handlers.jsonPatchOp")
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + words)
		}
		for i, err := range strict {
			strict[i] = fmt.Errorf("json patch %v", err)
		}
	}
	ops, err := patches.Decode(p.body)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > patches.MaxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", patches.MaxOperations,
				len(ops)))
	}
	if patches.TooLong(before, p.body, ops) {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			"the patch has too many operations for the length of the lists in the patched object")
	}
	if after, err = ops.Apply(before); err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, strict, nil
}

func (p *patcher) mergePatch(before []byte) (after []byte, strict []error, err error) {
	if !p.lenient() {
		if strict, err = kjson.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	after, err = jsonpatch.MergePatch(before, p.body)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return after, strict, err
}

// mergeTyped applies a strategic merge patch to an object as JSON and stores the result in into,
// which must be empty. As in Kubernetes, the merged maps are converted without JSON in between.
// Errors about types therefore have other texts, and numbers that are too large for a field are
// truncated.
func (p *patcher) mergeTyped(before []byte, into runtime.Object) error {
	patch, object := map[string]any{}, map[string]any{}
	var strict []error
	var err error
	if p.lenient() {
		err = kjson.UnmarshalCaseSensitivePreserveInts(p.body, &patch)
	} else {
		strict, err = kjson.UnmarshalStrict(p.body, &patch)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(before, &object); err != nil {
		return err
	}
	if mayBeSlow(len(before) + len(p.body)) {
		var c comparisons
		if c.merge(object, []map[string]any{patch}, p.patchMeta()); c.tooMany() {
			return errTooManyComparisons()
		}
	}
	kind, apiVersion := object["kind"], object["apiVersion"]
	merged, err := mergeStrategically(object, patch, p.patchMeta())
	switch err {
	case nil:
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList,
		mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return apierrors.NewBadRequest(err.Error())
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return unprocessable(err)
	default:
		return err
	}
	if merged != nil { // the type is known, so the kind in the patch is ignored
		merged["kind"], merged["apiVersion"] = kind, apiVersion
	}
	if codec, ok := p.s.on.res.Codec.(resource.Affordable); ok && p.view == nil {
		if err := codec.CheckTree(merged, p.s.on.res.GVK(p.s.on.version)); err != nil {
			return err
		}
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, into, !p.lenient())
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		strict, err = append(strict, unknown.Errors()...), nil
	}
	if err == nil && len(strict) == 0 {
		return nil
	}
	shown := fmt.Sprintf("%+v", patch) // as the merge left it
	if err != nil {
		return invalidPatch(err, shown)
	}
	return p.strictPatch(strict, shown)
}

// patchMeta returns the strategic merge patch metadata of the object or view that is patched.
func (p *patcher) patchMeta() strategicpatch.LookupPatchMeta {
	if p.view != nil {
		return p.view
	}
	lookup, _ := p.s.on.res.Codec.PatchMeta(p.s.on.version) // patchTypes has checked it
	return lookup
}

// mergeStrategically calls the library, which panics on some malformed directives.
func mergeStrategically(object, patch map[string]any,
	lookup strategicpatch.LookupPatchMeta) (merged map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = apierrors.NewBadRequest(fmt.Sprintf("invalid strategic merge patch: %v", p))
		}
	}()
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(object, patch, lookup)
}

// apply merges an applied configuration into the current state, or creates an object from it.
func (p *patcher) apply(live runtime.Object, current *store.Object) (runtime.Object, error) {
	manager, err := p.s.on.res.Codec.FieldManager(p.s.on.version, p.s.on.info.Subresource)
	if err != nil {
		return nil, err
	}
	if current == nil {
		if live, err = p.s.on.empty(); err != nil {
			return nil, err
		}
	}
	config, plain := &unstructured.Unstructured{}, false
	if p.kind == types.ApplyYAMLPatchType && !p.s.h.noFastPaths {
		config.Object, plain = trees.Configuration(p.body)
	}
	if plain {
		// Configuration accepts only well-formed bodies without duplicate fields.
	} else if err := p.unmarshal(&config.Object); err != nil {
		if p.kind == types.ApplyYAMLPatchType {
			if _, err := yaml.ToJSON(p.body); err != nil {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
			}
		}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	force := p.opts.Force != nil && *p.opts.Force
	hub, err := manager.Apply(live, config, p.opts.FieldManager, force)
	if err != nil || p.lenient() {
		return hub, err
	}
	strict := p.lostByApply(live, config)
	if !plain && p.kind == types.ApplyYAMLPatchType {
		if err := yaml.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
			strict = append(strict, err)
		}
	}
	if len(strict) > 0 && p.opts.FieldValidation == metav1.FieldValidationStrict {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v",
			utilerrors.NewAggregate(strict)))
	}
	warnStrict(p.s.in.ctx, strict)
	return hub, nil
}

// lostByApply returns an error for each field of an applied configuration that the conversion to
// the hub loses.
func (p *patcher) lostByApply(live runtime.Object, config *unstructured.Unstructured) []error {
	lossy, ok := p.s.on.res.Codec.(resource.Lossy)
	if !ok || p.s.on.res.Codec.New().GetObjectKind().GroupVersionKind().Version == p.s.on.version {
		return nil
	}
	// A conversion may need fields that the configuration leaves to other managers.
	versioned, err := p.overlaid(live, config)
	if err != nil {
		return nil // the apply has succeeded
	}
	_, lost, err := lossy.FromVersionStrict(versioned)
	if err != nil {
		return nil
	}
	return lost
}

// overlaid returns the live object, in the request's version, with the fields of a configuration.
func (p *patcher) overlaid(live runtime.Object, config *unstructured.Unstructured) (runtime.Object, error) {
	versioned, err := p.s.on.res.Codec.ToVersion(live, p.s.on.version)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(versioned)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(config.Object)
	if err != nil {
		return nil, err
	}
	if body, err = jsonpatch.MergePatch(before, body); err != nil {
		return nil, err
	}
	next, err := p.s.on.empty()
	if err != nil {
		return nil, err
	}
	return next, kjson.UnmarshalCaseSensitivePreserveInts(body, next)
}

// fromVersion converts a merged object to the hub, and reports fields that the conversion loses.
func (p *patcher) fromVersion(versioned runtime.Object) (runtime.Object, error) {
	lossy, ok := p.s.on.res.Codec.(resource.Lossy)
	if !ok {
		return p.s.on.res.Codec.FromVersion(versioned)
	}
	hub, lost, err := lossy.FromVersionStrict(versioned)
	if err != nil {
		return nil, err
	}
	return hub, p.strictPatch(lost, string(p.body))
}

func (p *patcher) unmarshal(into *map[string]any) error {
	if p.kind == types.ApplyCBORPatchType {
		return cbor.Unmarshal(p.body, into)
	}
	return yaml.Unmarshal(p.body, into)
}

// applyAsMerge converts an applied configuration to the merge patch that sets the same fields.
func (p *patcher) applyAsMerge() ([]byte, error) {
	config := map[string]any{}
	if err := p.unmarshal(&config); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return json.Marshal(config)
}

// noUID rejects the creation of an object with a uid from the client.
func noUID(hub runtime.Object, res *resource.Resource, name string) error {
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	if uid := object.GetUID(); uid != "" {
		return apierrors.NewConflict(res.GroupResource(), name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	return nil
}
