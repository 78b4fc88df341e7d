package crd

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// nameTable records which names the definitions of each group hold. A write claims names before its
// commit, so that of two definitions that are created at the same time only one gets a name.
type nameTable struct {
	mu     sync.Mutex
	groups map[string]map[string]claim // group → definition → names
}

// claim is the set of names that one definition holds or is about to hold.
type claim struct {
	resources []string // plural, singular and short names share one space
	kinds     []string // kind and list kind share another
}

func claimed(names *apiextensions.CustomResourceDefinitionNames) claim {
	c := claim{}
	for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
		if name != "" {
			c.resources = append(c.resources, name)
		}
	}
	for _, name := range []string{names.Kind, names.ListKind} {
		if name != "" {
			c.kinds = append(c.kinds, name)
		}
	}
	return c
}

// assign makes a definition hold exactly the names of c.
func (t *nameTable) assign(group, definition string, c claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(group, definition, c)
}

func (t *nameTable) set(group, definition string, c claim) {
	if len(c.resources)+len(c.kinds) == 0 {
		delete(t.groups[group], definition)
		return
	}
	if t.groups[group] == nil {
		t.groups[group] = map[string]claim{}
	}
	t.groups[group][definition] = c
}

// accept claims those names of a definition's spec that no other definition of the group holds,
// writes them to status.acceptedNames, and returns why it refused the others, or nil. release
// undoes the claim if the write fails.
func (t *nameTable) accept(crd *apiextensions.CustomResourceDefinition) (refusal *nameRefusal, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	group, name := crd.Spec.Group, crd.Name
	before := t.groups[group][name]

	taken := func(pick func(claim) []string) func(string) bool {
		return func(wanted string) bool {
			for other, c := range t.groups[group] {
				if other != name && slices.Contains(pick(c), wanted) {
					return true
				}
			}
			return false
		}
	}
	refusal = acceptNames(&crd.Status.AcceptedNames, &crd.Spec.Names,
		taken(func(c claim) []string { return c.resources }), taken(func(c claim) []string { return c.kinds }))

	// Until the write is committed, the definition holds both its old and its new names.
	now := claimed(&crd.Status.AcceptedNames)
	t.set(group, name, claim{
		resources: append(slices.Clone(before.resources), now.resources...),
		kinds:     append(slices.Clone(before.kinds), now.kinds...),
	})
	return refusal, func() { t.assign(group, name, before) }
}

// nameRefusal is the reason and message of a NamesAccepted condition that is False.
type nameRefusal struct{ reason, message string }

// acceptNames copies each wanted name to accepted unless it is taken. It returns the last of
// several refusals, as Kubernetes' naming controller does.
func acceptNames(accepted, wanted *apiextensions.CustomResourceDefinitionNames,
	resourceTaken, kindTaken func(string) bool) *nameRefusal {
	var refusal *nameRefusal
	acceptName := func(reason string, have *string, want string, taken func(string) bool) {
		if *have != want && taken(want) {
			refusal = &nameRefusal{reason, inUse(want).Error()}
			return
		}
		*have = want
	}
	acceptName("PluralConflict", &accepted.Plural, wanted.Plural, resourceTaken)
	acceptName("SingularConflict", &accepted.Singular, wanted.Singular, resourceTaken)
	if errs := shortNameConflicts(accepted.ShortNames, wanted.ShortNames, resourceTaken); len(errs) > 0 {
		refusal = &nameRefusal{"ShortNamesConflict", utilerrors.NewAggregate(errs).Error()}
	} else {
		accepted.ShortNames = slices.Clone(wanted.ShortNames)
	}
	acceptName("KindConflict", &accepted.Kind, wanted.Kind, kindTaken)
	acceptName("ListKindConflict", &accepted.ListKind, wanted.ListKind, kindTaken)
	accepted.Categories = slices.Clone(wanted.Categories)
	return refusal
}

func shortNameConflicts(have, want []string, taken func(string) bool) []error {
	var errs []error
	for _, name := range want {
		if !slices.Contains(have, name) && taken(name) {
			errs = append(errs, inUse(name))
		}
	}
	return errs
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }
