package rest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
)

// admit is the admission of one request.
type admit struct {
	chain  admission.Interface // nil: none
	scope  *scope
	dryRun bool
	// opts are the options of the operation, as attributes carry them.
	opts func(admission.Operation) runtime.Object
}

func (s *scope) admit(dryRun bool, opts func(admission.Operation) runtime.Object) *admit {
	a := &admit{scope: s, dryRun: dryRun, opts: opts}
	if s.h.admission != nil {
		a.chain = managedFieldsAdmission{s.h.admission}
	}
	return a
}

func (a *admit) handles(op admission.Operation) bool { return a.chain != nil && a.chain.Handles(op) }

func (a *admit) attributes(obj, old runtime.Object, op admission.Operation) admission.Attributes {
	s := a.scope
	user, _ := request.UserFrom(s.in.ctx)
	return admission.NewAttributesRecord(obj, old, s.on.kind, request.NamespaceValue(s.in.ctx), s.on.name,
		s.on.res.GVR(s.on.version), s.on.info.Subresource, op, a.opts(op), a.dryRun, user)
}

// mutate runs the mutating plugins on an object that is about to be created (old nil) or updated.
func (a *admit) mutate(ctx context.Context, obj, old runtime.Object) error {
	if old != nil {
		return a.admitAs(ctx, obj, old, admission.Update)
	}
	if hooks := a.scope.on.res.Hooks; a.scope.on.sub == nil && hooks != nil && hooks.Creating != nil {
		if err := hooks.Creating(ctx, a.scope.on.name); err != nil {
			return err
		}
	}
	return a.admitAs(ctx, obj, nil, admission.Create)
}

func (a *admit) admitAs(ctx context.Context, obj, old runtime.Object, op admission.Operation) error {
	if !a.handles(op) {
		return nil
	}
	return a.chain.(admission.MutationInterface).Admit(ctx, a.attributes(obj, old, op), a.scope.on.interfaces())
}

// validateCreate returns the function that runs the validating plugins on a new object, or nil if
// there are none.
func (a *admit) validateCreate() upstream.ValidateObjectFunc {
	if !a.handles(admission.Create) {
		return nil
	}
	return upstream.AdmissionToValidateObjectFunc(a.chain, a.attributes(nil, nil, admission.Create),
		a.scope.on.interfaces())
}

// validateUpdate is like validateCreate, for updates.
func (a *admit) validateUpdate() upstream.ValidateObjectUpdateFunc {
	if !a.handles(admission.Update) {
		return nil
	}
	return upstream.AdmissionToValidateObjectUpdateFunc(a.chain, a.attributes(nil, nil, admission.Update),
		a.scope.on.interfaces())
}

// validateDelete returns the function that runs all plugins on an object before it is deleted, or
// nil if there are none.
func (a *admit) validateDelete() upstream.ValidateObjectFunc {
	if !a.handles(admission.Delete) {
		return nil
	}
	return upstream.AdmissionToValidateObjectDeleteFunc(a.chain, a.attributes(nil, nil, admission.Delete),
		a.scope.on.interfaces())
}

// mayCreate is like validateCreate, for an update or patch that creates the object: it first checks
// that the user may create.
func (a *admit) mayCreate() upstream.ValidateObjectFunc {
	s, validate := a.scope, a.validateCreate()
	if s.h.authorizer == nil {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		user, _ := request.UserFrom(ctx)
		attributes := authorizer.AttributesRecord{
			User: user, Verb: "create", ResourceRequest: true, Path: s.in.req.URL.Path,
			APIGroup: s.on.res.Group, APIVersion: s.on.version, Resource: s.on.res.Plural, Subresource: s.on.info.Subresource,
			Namespace: request.NamespaceValue(s.in.ctx), Name: s.on.name,
		}
		decision, reason, err := s.h.authorizer.Authorize(ctx, attributes)
		switch {
		case decision == authorizer.DecisionAllow && validate == nil:
			return nil
		case decision == authorizer.DecisionAllow:
			return validate(ctx, obj)
		case err != nil:
			return apierrors.NewInternalError(err)
		}
		return responsewriters.ForbiddenStatusError(attributes, reason)
	}
}

// interfaces returns the apimachinery interfaces of the kind for admission plugins.
func (t *target) interfaces() admission.ObjectInterfaces {
	return objectInterfaces{t.res.Codec.Interfaces(), t.set}
}

type objectInterfaces struct {
	resource.Interfaces
	set *resource.Set
}

func (o objectInterfaces) GetObjectCreater() runtime.ObjectCreater     { return o.Creater }
func (o objectInterfaces) GetObjectTyper() runtime.ObjectTyper         { return o.Typer }
func (o objectInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return o.Defaulter }
func (o objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return o.Convertor }
func (o objectInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return equivalents{o.set}
}

// equivalents maps between the versions of a kind, and between the kinds of several groups that
// have the same stored objects, such as Events.
type equivalents struct{ set *resource.Set }

func (e equivalents) EquivalentResourcesFor(gvr schema.GroupVersionResource, _ string) []schema.GroupVersionResource {
	res, ok := e.set.ByName(gvr.GroupResource())
	if !ok {
		return nil
	}
	same := []*resource.Resource{res}
	for _, other := range e.set.All() {
		if other != res && other.Prefix() == res.Prefix() {
			same = append(same, other)
		}
	}
	var all []schema.GroupVersionResource
	for _, res := range same {
		for _, v := range res.Versions {
			all = append(all, res.GVR(v.Name))
		}
	}
	return all
}

func (e equivalents) KindFor(gvr schema.GroupVersionResource, subresource string) schema.GroupVersionKind {
	res, ok := e.set.ByName(gvr.GroupResource())
	if !ok {
		return schema.GroupVersionKind{}
	}
	if sub, ok := res.SubresourceIn(gvr.Version, subresource); ok && !sub.GVK.Empty() {
		return sub.GVK
	}
	return res.GVK(gvr.Version)
}
