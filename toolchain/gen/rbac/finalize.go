package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

const (
	libraryModule = "kelson.dev/operator"
	reconcilePath = libraryModule + "/reconcile"

	// finalizerVerb is the verb with which reconcile.For adds and removes a finalizer: it patches
	// the object itself, not a subresource.
	finalizerVerb = "patch"
)

// addFinalizers adds the rules that methods Finalize need. It returns a warning for each method
// whose resource is unknown, unless a marker of its package grants the verb for some resource.
//
// Methods are found by name and signature on the declared types of the API's packages. A method
// Finalize whose object type is a type parameter is ignored.
func (c *collector) addFinalizers(api *model.API) (warnings []error) {
	for _, p := range api.Packages {
		for _, t := range p.Types {
			m := loader.FindMethod(t.Type(), "Finalize")
			if m == nil {
				continue
			}
			object, ok := finalized(p, m)
			if !ok {
				continue
			}
			group, resource, ok := api.ResourceOf(object.Decl)
			if ok {
				c.addFinalizer(p, group, resource)
				continue
			}
			if !c.grantsFrom(p, finalizerVerb) {
				warnings = append(warnings, loader.Errorf(m.File.Position(m.Func.Pos()),
					"method Finalize requires verb %s on the resource of %s, which is unknown here: "+
						"add +kubebuilder:rbac:groups=…,resources=…,verbs=%s", finalizerVerb, object, finalizerVerb))
			}
		}
	}
	return warnings
}

// finalized returns T if the method's signature is func(context.Context, *T) (reconcile.Result,
// error).
func finalized(p *model.Package, m *loader.Method) (*loader.Named, bool) {
	if m.Func.Type.Params.NumFields() != 2 || m.Func.Type.Results.NumFields() != 2 {
		return nil, false // without resolving the types, which may load packages
	}
	params, results := p.Signature(m)
	result, ok := results[0].(*loader.Named)
	if !ok || !result.Is(reconcilePath, "Result") {
		return nil, false
	}
	pointer, ok := params[1].(*loader.Pointer)
	if !ok {
		return nil, false
	}
	object, ok := pointer.Elem.(*loader.Named)
	return object, ok
}

// addFinalizer grants the verb for a resource to the roles under which the package's reconciler
// watches it.
func (c *collector) addFinalizer(p *model.Package, group, resource string) {
	for _, to := range c.watching(p, group, resource) {
		if !slices.ContainsFunc(c.grants, func(g grant) bool {
			return g.to == to.to && covers(g.rule, group, resource, finalizerVerb) && len(g.rule.ResourceNames) == 0
		}) {
			c.grants = append(c.grants, grant{to: to.to, from: p, rule: &rbacv1.PolicyRule{
				APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: to.rule.ResourceNames,
				Verbs: []string{finalizerVerb},
			}})
		}
	}
}

// watching returns the grants that let the package's reconciler watch a resource: those that the
// package itself declares or, if there are none, those of any package. Of several roles, it prefers
// those with the default name, because other roles may be meant for readers. If there are none, it
// returns the ClusterRole with that name.
func (c *collector) watching(p *model.Package, group, resource string) []grant {
	var own, all, defaults []grant
	for _, g := range c.grants {
		if covers(g.rule, group, resource, "watch") {
			if all = append(all, g); g.from == p {
				own = append(own, g)
			}
		}
	}
	if len(own) > 0 {
		all = own
	}
	for _, g := range all {
		if g.to.name == c.byDefault {
			defaults = append(defaults, g)
		}
	}
	switch {
	case len(defaults) > 0:
		return defaults
	case len(all) > 0:
		return all
	}
	return []grant{{to: role{name: c.byDefault}, rule: &rbacv1.PolicyRule{}}}
}

// grantsFrom reports whether a marker of the package grants the verb for any resource.
func (c *collector) grantsFrom(p *model.Package, verb string) bool {
	return slices.ContainsFunc(c.grants, func(g grant) bool {
		return g.from == p && len(g.rule.Resources) > 0 && has(g.rule.Verbs, verb)
	})
}

// covers reports whether a rule grants the verb for a resource, perhaps for some names only.
func covers(r *rbacv1.PolicyRule, group, resource, verb string) bool {
	return has(r.APIGroups, group) && has(r.Resources, resource) && has(r.Verbs, verb)
}

// has reports whether a list of a rule contains a value or the wildcard.
func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
