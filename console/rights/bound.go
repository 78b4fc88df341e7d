package rights

import (
	"context"
	"errors"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/console/internal/cluster"
)

// bound is a role that is bound to a user.
type bound struct {
	Kind      string // Role or ClusterRole
	Name      string
	Namespace string // namespace in which the role is granted; empty: all
	Binding   string
	// Group means that the role is bound to a group of all users or all service accounts.
	Group bool
	// Through is another group of the user, to which the role is bound; empty: to the user itself.
	Through string
	Rules   []rbacv1.PolicyRule
}

// boundRoles returns the roles that are bound to a user name, to its service account, and to its
// groups. The groups are those that follow from the name, and those in the user's requests.
func boundRoles(ctx context.Context, c *cluster.Cluster, user string, groups map[string]bool) ([]bound, error) {
	var (
		clusterRoles    rbacv1.ClusterRoleList
		roles           rbacv1.RoleList
		clusterBindings rbacv1.ClusterRoleBindingList
		bindings        rbacv1.RoleBindingList
		errs            []error
	)
	for resource, into := range map[string]any{"clusterroles": &clusterRoles, "roles": &roles,
		"clusterrolebindings": &clusterBindings, "rolebindings": &bindings} {
		kind := cluster.Kind{Group: rbacv1.GroupName, Version: "v1", Resource: resource}
		errs = append(errs, c.Get(ctx, cluster.Request{Path: kind.Path("", "")}, into))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range clusterRoles.Items {
		rules["ClusterRole//"+r.Name] = r.Rules
	}
	for _, r := range roles.Items {
		rules["Role/"+r.Namespace+"/"+r.Name] = r.Rules
	}
	var all []bound
	add := func(binding, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		byName := slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return named(s, user) })
		through := "" // a group of the user itself
		byAll := false
		for _, s := range subjects {
			switch {
			case s.Kind != rbacv1.GroupKind:
			case inGroup(user, s.Name):
				byAll = true
			case groups[s.Name] && through == "":
				through = s.Name
			}
		}
		if !byName && !byAll && through == "" {
			return
		}
		if byName {
			through = ""
		}
		key := ref.Kind + "/" + namespace + "/" + ref.Name
		if ref.Kind == "ClusterRole" {
			key = ref.Kind + "//" + ref.Name
		}
		all = append(all, bound{ref.Kind, ref.Name, namespace, binding, !byName && through == "", through, rules[key]})
	}
	for _, b := range clusterBindings.Items {
		add(b.Name, "", b.RoleRef, b.Subjects)
	}
	for _, b := range bindings.Items {
		add(b.Name, b.Namespace, b.RoleRef, b.Subjects)
	}
	return all, nil
}

// named reports whether a subject is the user itself.
func named(s rbacv1.Subject, user string) bool {
	return s.Kind == rbacv1.UserKind && s.Name == user ||
		s.Kind == rbacv1.ServiceAccountKind && "system:serviceaccount:"+s.Namespace+":"+s.Name == user
}

func inGroup(user, group string) bool {
	namespace, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, _, _ = strings.Cut(namespace, ":")
	switch group {
	case "system:authenticated":
		return user != "system:anonymous"
	case "system:unauthenticated":
		return user == "system:anonymous"
	case "system:serviceaccounts":
		return isAccount
	}
	return isAccount && group == "system:serviceaccounts:"+namespace
}
