package authz

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/internal/filewatch"
)

// Parse parses an AuthorizationConfiguration. It returns an error if a required type is missing.
type Parse func(data []byte, required ...apiserver.AuthorizerType) (*apiserver.AuthorizationConfiguration, error)

// fromFile delegates to the authorizer of the current content of a file.
type fromFile struct{ file *filewatch.File[Authorizer] }

// Open returns the authorizer of an AuthorizationConfiguration file. A change of the file takes
// effect with the next request. As in kube-apiserver, a change can only add, change and remove
// webhooks. If the changed file is invalid, the previous configuration stays in effect and warn, if
// not nil, receives the error.
func Open(file string, parse Parse, modes Modes, warn func(error)) (Authorizer, error) {
	var first []apiserver.AuthorizerType
	opened := false
	f, err := filewatch.Open(file, func(data []byte) (Authorizer, error) {
		configuration, err := parse(data, first...)
		if err != nil {
			return nil, err
		}
		for _, c := range configuration.Authorizers {
			switch {
			case c.Type == ModeWebhook:
			case !opened:
				first = append(first, c.Type)
			case !slices.Contains(first, c.Type):
				return nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", c.Type)
			}
		}
		opened = true
		return New(configuration, modes)
	}, warn)
	if err != nil {
		return nil, err
	}
	return fromFile{f}, nil
}

func (f fromFile) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return f.file.Get().Authorize(ctx, a)
}

func (f fromFile) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return f.file.Get().ConditionsAwareAuthorize(ctx, a)
}

func (f fromFile) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision,
	data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return f.file.Get().EvaluateConditions(ctx, decision, data)
}

func (f fromFile) RulesFor(ctx context.Context, u user.Info,
	namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return f.file.Get().RulesFor(ctx, u, namespace)
}
