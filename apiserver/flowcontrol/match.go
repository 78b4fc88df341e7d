package flowcontrol

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// matches reports whether a FlowSchema applies to a request.
func matches(fs *flowcontrolv1.FlowSchema, info *request.RequestInfo, u user.Info) bool {
	for i := range fs.Spec.Rules {
		rule := &fs.Spec.Rules[i]
		if !slices.ContainsFunc(rule.Subjects, func(s flowcontrolv1.Subject) bool { return matchesSubject(&s, u) }) {
			continue
		}
		if info.IsResourceRequest {
			for j := range rule.ResourceRules {
				if matchesResource(&rule.ResourceRules[j], info) {
					return true
				}
			}
			continue
		}
		for j := range rule.NonResourceRules {
			if matchesPath(&rule.NonResourceRules[j], info) {
				return true
			}
		}
	}
	return false
}

func matchesSubject(s *flowcontrolv1.Subject, u user.Info) bool {
	switch s.Kind {
	case flowcontrolv1.SubjectKindUser:
		return s.User != nil && (s.User.Name == flowcontrolv1.NameAll || s.User.Name == u.GetName())
	case flowcontrolv1.SubjectKindGroup:
		return s.Group != nil && (s.Group.Name == flowcontrolv1.NameAll || slices.Contains(u.GetGroups(), s.Group.Name))
	case flowcontrolv1.SubjectKindServiceAccount:
		if s.ServiceAccount == nil {
			return false
		}
		if s.ServiceAccount.Name == flowcontrolv1.NameAll {
			return serviceAccountNamespace(u.GetName()) == s.ServiceAccount.Namespace
		}
		return serviceaccount.MatchesUsername(s.ServiceAccount.Namespace, s.ServiceAccount.Name, u.GetName())
	}
	return false
}

// serviceAccountNamespace returns the namespace of a service account's user name, or "" for other
// users.
func serviceAccountNamespace(name string) string {
	rest, ok := strings.CutPrefix(name, serviceaccount.ServiceAccountUsernamePrefix)
	if !ok {
		return ""
	}
	namespace, _, ok := strings.Cut(rest, serviceaccount.ServiceAccountUsernameSeparator)
	if !ok {
		return ""
	}
	return namespace
}

func matchesResource(rule *flowcontrolv1.ResourcePolicyRule, info *request.RequestInfo) bool {
	switch {
	case !contains(rule.Verbs, info.Verb, flowcontrolv1.VerbAll),
		!containsResource(rule.Resources, info.Resource, info.Subresource),
		!contains(rule.APIGroups, info.APIGroup, flowcontrolv1.APIGroupAll):
		return false
	case info.Namespace == "":
		return rule.ClusterScope
	}
	return contains(rule.Namespaces, info.Namespace, flowcontrolv1.NamespaceEvery)
}

func matchesPath(rule *flowcontrolv1.NonResourcePolicyRule, info *request.RequestInfo) bool {
	return contains(rule.Verbs, info.Verb, flowcontrolv1.VerbAll) &&
		slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool {
			if pattern == flowcontrolv1.NonResourceAll || pattern == info.Path {
				return true
			}
			// "/x", "/x/" and "/x/*" all cover what is below /x/
			prefix := strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "/")
			rest, ok := strings.CutPrefix(info.Path, prefix)
			return ok && strings.HasPrefix(rest, "/")
		})
}

// contains reports whether a list has a value. Validation allows the wildcard only as the single
// element of a list.
func contains(list []string, value, wildcard string) bool {
	return len(list) == 1 && list[0] == wildcard || slices.Contains(list, value)
}

func containsResource(list []string, resource, subresource string) bool {
	if subresource == "" {
		return contains(list, resource, flowcontrolv1.ResourceAll)
	}
	return len(list) == 1 && list[0] == flowcontrolv1.ResourceAll || slices.ContainsFunc(list, func(s string) bool {
		rest, ok := strings.CutPrefix(s, resource)
		return ok && len(rest) > 0 && rest[0] == '/' && rest[1:] == subresource
	})
}
