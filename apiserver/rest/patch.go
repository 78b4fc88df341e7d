package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	kjson "sigs.k8s.io/json"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// patcher is one PATCH.
type patcher struct {
	s    *scope
	kind types.PatchType
	body []byte
	opts *metav1.PatchOptions
	view strategicpatch.LookupPatchMeta // nil: the patch applies to the object itself
}

func (s *scope) patch() error {
	p := &patcher{s: s}
	base, _, _ := strings.Cut(s.in.req.Header.Get("Content-Type"), ";")
	p.kind = types.PatchType(strings.TrimSpace(base))
	if supported := s.on.patchTypes(); !slices.Contains(supported, string(p.kind)) {
		return negotiation.NewUnsupportedMediaTypeError(supported)
	}
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	if err := p.read(); err != nil {
		return err
	}
	updateOpts := &metav1.UpdateOptions{DryRun: p.opts.DryRun, FieldManager: p.opts.FieldManager,
		FieldValidation: p.opts.FieldValidation}
	updateOpts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))

	var done *written
	if s.size(p.body, string(p.kind)) < largeWork {
		done, err = p.patchWith(updateOpts)
	} else {
		done, err = detached(s, func() (*written, error) { return p.patchWith(updateOpts) })
	}
	if err != nil {
		return err
	}
	if s.on.patchesView() {
		return s.out.respondViewOf(f, done.hub)
	}
	return s.out.respondWritten(f, done)
}

// patchesView reports whether the patch applies to a view with its own type.
func (t *target) patchesView() bool { return t.sub != nil && t.sub.Update.Get != nil }

// patchWith carries the patch out.
func (p *patcher) patchWith(updateOpts *metav1.UpdateOptions) (*written, error) {
	if !p.isApply() && !json.Valid(p.body) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	p.recordPatch()
	s := p.s
	if s.on.patchesView() {
		return s.replaceView(updateOpts, p.patchView)
	}
	c := s.change(updateOpts)
	c.applied = p.isApply()
	c.createMissing = c.applied && s.on.sub == nil
	c.next = func(ctx context.Context, old runtime.Object, current *store.Object) (runtime.Object, error) {
		hub, err := p.patched(old, current)
		if err != nil {
			return nil, err
		}
		return hub, s.mutate(ctx, updateOpts, hub, old, current)
	}
	return s.h.replace(s.in.ctx, c)
}

// patchTypes returns the patch types of the kind. Strategic merge requires a Go type.
func (t *target) patchTypes() []string {
	if _, ok := t.res.Codec.PatchMeta(t.version); ok {
		return typedPatches
	}
	return untypedPatches
}

var (
	typedPatches = []string{
		string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType),
		string(types.ApplyYAMLPatchType), string(types.ApplyCBORPatchType),
	}
	untypedPatches = []string{string(types.JSONPatchType), string(types.MergePatchType),
		string(types.ApplyYAMLPatchType), string(types.ApplyCBORPatchType)}
)

func (p *patcher) isApply() bool {
	return p.kind == types.ApplyYAMLPatchType || p.kind == types.ApplyCBORPatchType
}

// read reads body and options.
func (p *patcher) read() (err error) {
	if p.body, err = p.s.in.body(); err != nil {
		return err
	}
	p.opts = &metav1.PatchOptions{}
	if err := p.s.in.query(p.opts); err != nil {
		return err
	}
	if errs := validation.ValidatePatchOptions(p.opts, p.kind); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	return nil
}

// patched returns the hub that results from the patch.
func (p *patcher) patched(old runtime.Object, current *store.Object) (runtime.Object, error) {
	var hub runtime.Object
	var err error
	switch {
	case p.isApply():
		hub, err = p.apply(old, current)
	case current == nil:
		return nil, apierrors.NewNotFound(p.s.on.res.GroupResource(), p.s.on.name)
	default:
		var done bool
		if hub, done = p.mergedStatus(old, current); !done {
			hub, err = p.merged(current)
		}
		if err == nil {
			hub, err = p.s.managed(hub, old, current, p.opts.FieldManager)
		}
	}
	if err != nil {
		return nil, err
	}
	if current == nil {
		if err := noUID(hub, p.s.on.res, p.s.on.name); err != nil {
			return nil, err
		}
	}
	return hub, p.s.on.checkIdentity(hub)
}

// merged applies a JSON, merge or strategic merge patch to the stored object in the request's
// version.
func (p *patcher) merged(current *store.Object) (runtime.Object, error) {
	before, err := form{res: p.s.on.res, version: p.s.on.version, media: resource.MediaJSON}.current(current)
	if err != nil {
		return nil, err
	}
	if p.kind == types.StrategicMergePatchType {
		versioned, err := p.s.on.empty()
		if err != nil {
			return nil, err
		}
		if err := p.mergeTyped(before, versioned); err != nil {
			return nil, err
		}
		return p.fromVersion(versioned)
	}
	if hub, ok := p.mergeTrees(before); ok {
		return hub, nil
	}
	after, strict, shown, err := p.mergeJSON(before)
	if err != nil {
		return nil, err
	}
	hub, more, err := p.s.on.res.Codec.DecodePatched(after, p.s.on.version)
	if err != nil {
		return nil, invalidPatch(err, shown)
	}
	return hub, p.strictPatch(append(strict, more...), shown)
}

// patchView applies the patch to a view. Server-side apply of a view sets the fields it names, like
// a merge patch.
func (p *patcher) patchView(owned *owners, view runtime.Object) (runtime.Object, bool, error) {
	if owned != nil && p.isApply() {
		next, err := p.applyView(owned, view)
		return next, true, err
	}
	next, err := p.mergeView(view)
	return next, false, err
}

// applyView applies the body as a configuration of the view.
func (p *patcher) applyView(owned *owners, view runtime.Object) (runtime.Object, error) {
	body, err := p.applyAsMerge()
	if err != nil {
		return nil, err
	}
	applied := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &applied.Object); err != nil {
		return nil, err
	}
	force := p.opts.Force != nil && *p.opts.Force
	return owned.Apply(view, applied, p.opts.FieldManager, force)
}

func (p *patcher) mergeView(view runtime.Object) (runtime.Object, error) {
	before, err := wire.Encode(resource.MediaJSON, view)
	if err != nil {
		return nil, err
	}
	if p.isApply() {
		if p.body, err = p.applyAsMerge(); err != nil {
			return nil, err
		}
		p.kind = types.MergePatchType
	}
	next := p.s.on.sub.Update.NewView()
	if p.kind == types.StrategicMergePatchType {
		if p.view, err = strategicpatch.NewPatchMetaFromStruct(next); err != nil {
			return nil, err
		}
		err = p.mergeTyped(before, next)
	} else {
		err = p.mergeUntyped(before, next)
	}
	if err != nil {
		return nil, err
	}
	next.GetObjectKind().SetGroupVersionKind(p.s.on.kind)
	return next, p.s.on.checkIdentity(next)
}

// mergeUntyped applies a JSON or merge patch to a view.
func (p *patcher) mergeUntyped(before []byte, next runtime.Object) error {
	after, strict, shown, err := p.mergeJSON(before)
	if err != nil {
		return err
	}
	more, err := kjson.UnmarshalStrict(after, next)
	if err != nil {
		return invalidPatch(err, shown)
	}
	return p.strictPatch(append(strict, more...), shown)
}

// strictPatch reports the errors of strictly decoding a patch or its result as warnings or an
// error.
func (p *patcher) strictPatch(strict []error, shown string) error {
	if len(strict) == 0 {
		return nil
	}
	switch fieldValidation(p.opts.FieldValidation) {
	case metav1.FieldValidationIgnore:
	case metav1.FieldValidationStrict:
		return invalidPatch(runtime.NewStrictDecodingError(strict), shown)
	default:
		warnStrict(p.s.in.ctx, strict)
	}
	return nil
}

func invalidPatch(err error, shown string) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), shown, err.Error())})
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
		err.Error(), 0, false)
}
