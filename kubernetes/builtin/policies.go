package builtin

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"

	"kelson.dev/apiserver/resource"
)

// policies returns shared with strategies for admission policies and their bindings that require
// the author to have permission to read the parameters. It does not modify shared, which all
// control planes use.
func (k *kinds) policies(shared []*resource.Resource) []*resource.Resource {
	authorizer, resolve := k.authorizer(), resolver.ResourceResolverFunc(k.resolve)
	strategies := map[string]resource.Strategy{
		"mutatingadmissionpolicies": mutatingadmissionpolicy.NewStrategy(authorizer, resolve),
		"mutatingadmissionpolicybindings": mutatingadmissionpolicybinding.NewStrategy(authorizer, boundPolicies{k},
			resolve),
		"validatingadmissionpolicies": validatingadmissionpolicy.NewStrategy(authorizer, resolve),
		"validatingadmissionpolicybindings": validatingadmissionpolicybinding.NewStrategy(authorizer, boundPolicies{k},
			resolve),
	}
	out := make([]*resource.Resource, len(shared))
	for i, r := range shared {
		out[i] = r
		if strategy := strategies[r.Plural]; strategy != nil && r.Group == admissionregistration.GroupName {
			copied := *r
			copied.Strategy = strategy
			out[i] = &copied
		}
	}
	return out
}

// resolve returns the resource of a kind.
func (k *kinds) resolve(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if k.cfg.Registry != nil {
		if res, ok := k.cfg.Registry.Current().ByKind(gvk.GroupKind()); ok {
			if _, ok := res.Serves(gvk.Version); ok {
				return res.GVR(gvk.Version), nil
			}
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(),
		SearchedVersions: []string{gvk.Version}}
}

// boundPolicies reads the policies to which bindings refer.
type boundPolicies struct{ *kinds }

func (b boundPolicies) GetValidatingAdmissionPolicy(ctx context.Context,
	name string) (*admissionregistration.ValidatingAdmissionPolicy, error) {
	return readPolicy[*admissionregistration.ValidatingAdmissionPolicy](ctx, b.kinds, "validatingadmissionpolicies",
		name)
}

func (b boundPolicies) GetMutatingAdmissionPolicy(ctx context.Context,
	name string) (*admissionregistration.MutatingAdmissionPolicy, error) {
	return readPolicy[*admissionregistration.MutatingAdmissionPolicy](ctx, b.kinds, "mutatingadmissionpolicies", name)
}

func readPolicy[T any](ctx context.Context, k *kinds, plural, name string) (policy T, err error) {
	if k.cfg.Objects == nil {
		return policy, fmt.Errorf("read %s: Config.Objects is nil", plural)
	}
	hub, err := k.cfg.Objects().Get(ctx, k.resource(admissionregistration.GroupName, plural), "", name)
	if err != nil {
		return policy, err
	}
	return hub.(T), nil
}
