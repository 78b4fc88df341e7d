package builtin

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// storageRules returns errors as kube-apiserver's guard does. That guard reads roles through their
// storage, which names the resource of the request, not that of the missing role.
type storageRules struct{ Rules }

// GetRoleReferenceRules returns the rules of a role that a binding in a namespace refers to.
func (r storageRules) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef,
	namespace string) ([]rbacv1.PolicyRule, error) {
	if err := checkReference(ctx, ref, namespace); err != nil {
		return nil, err
	}
	rules, err := r.Rules.GetRoleReferenceRules(ctx, ref, namespace)
	return rules, ofRequest(ctx, err)
}

// RulesFor returns the rules for a user in a namespace. If it returns an error, the rules are
// incomplete.
func (r storageRules) RulesFor(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	rules, err := r.Rules.RulesFor(ctx, u, namespace)
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		return rules, err
	}
	var errs []error
	for _, err := range all.Errors() {
		errs = append(errs, ofRequest(ctx, err))
	}
	return rules, utilerrors.NewAggregate(errs)
}

// checkReference returns the storage's error for a reference that cannot be the key of a role.
func checkReference(ctx context.Context, ref rbacv1.RoleRef, namespace string) (err error) {
	switch ref.Kind {
	case "Role":
		_, err = genericregistry.NamespaceKeyFunc(request.WithNamespace(ctx, namespace), "", ref.Name)
	case "ClusterRole":
		_, err = genericregistry.NoNamespaceKeyFunc(ctx, "", ref.Name)
	}
	return err
}

// ofRequest returns a NotFound error with the resource of the request, and other errors unchanged.
func ofRequest(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: rbac.GroupName, Resource: info.Resource},
		status.Status().Details.Name)
}
