package builtin

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/registry/authentication/selfsubjectreview"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"
	"k8s.io/kubernetes/pkg/registry/authorization/localsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectrulesreview"
	"k8s.io/kubernetes/pkg/registry/authorization/subjectaccessreview"

	"kelson.dev/apiserver/resource"
)

// review is a kind whose objects are not stored: a POST returns the completed object.
type review struct {
	namespaced bool
	create     func(ctx context.Context, req *resource.Request, hub runtime.Object) (runtime.Object, error)
}

// answers returns a review that calls one of Kubernetes' registries. These registries store
// nothing.
func answers(namespaced bool, registry upstream.Creater) *review {
	return &review{namespaced, func(ctx context.Context, req *resource.Request, hub runtime.Object) (runtime.Object,
		error) {
		return registry.Create(request.WithNamespace(ctx, req.Namespace), hub, nil, &metav1.CreateOptions{})
	}}
}

// reviews returns the kinds with which clients ask about tokens and permissions.
func (k *kinds) reviews() []entry {
	authz := k.authorizer()
	rules, ok := authz.(authorizer.RuleResolver)
	if !ok {
		rules = noRules{}
	}
	return []entry{
		{hub: &authentication.SelfSubjectReview{}, plural: "selfsubjectreviews", versions: v1,
			review: answers(false, selfsubjectreview.NewREST())},
		{hub: &authentication.TokenReview{}, plural: "tokenreviews", versions: v1,
			review: answers(false, tokenreview.NewREST(k.cfg.Authenticator, k.cfg.Audiences))},
		{hub: &authorization.LocalSubjectAccessReview{}, plural: "localsubjectaccessreviews", versions: v1,
			review: answers(true, localsubjectaccessreview.NewREST(authz, Scheme()))},
		{hub: &authorization.SelfSubjectAccessReview{}, plural: "selfsubjectaccessreviews", versions: v1,
			review: answers(false, selfsubjectaccessreview.NewREST(authz, Scheme()))},
		{hub: &authorization.SelfSubjectRulesReview{}, plural: "selfsubjectrulesreviews", versions: v1,
			review: answers(false, selfsubjectrulesreview.NewREST(rules))},
		{hub: &authorization.SubjectAccessReview{}, plural: "subjectaccessreviews", versions: v1,
			review: answers(false, subjectaccessreview.NewREST(authz, Scheme()))},
	}
}

// noRules answers rules reviews with an error, for authorizers that cannot list rules.
type noRules struct{}

func (noRules) RulesFor(context.Context, user.Info,
	string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, true, errors.New("the authorizer does not support user rule resolution")
}
