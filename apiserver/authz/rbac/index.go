package rbac

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

const (
	roles               = "roles.rbac.authorization.k8s.io"
	clusterRoles        = "clusterroles.rbac.authorization.k8s.io"
	roleBindings        = "rolebindings.rbac.authorization.k8s.io"
	clusterRoleBindings = "clusterrolebindings.rbac.authorization.k8s.io"
)

// index maps subjects to their bindings. Readers hold the read lock of the fold. Effective rules
// are computed lazily under that lock, and stored atomically.
type index struct {
	*derived.Fold
	store    *store.Store
	bindings map[store.Key]*binding
	subjects map[subject]*grants
	byRole   map[store.Key]map[*binding]struct{} // bindings by role; the role need not exist
}

func newIndex(st *store.Store) *index {
	x := &index{store: st}
	x.Fold = derived.NewFold(st, x.load, x.apply, roles, clusterRoles, roleBindings, clusterRoleBindings)
	return x
}

// subject is a user or a group in a namespace, or in all namespaces (""). Service accounts are
// users.
type subject struct {
	namespace string
	group     bool
	name      string
}

// subjects yields the subjects that apply to a user: cluster-wide first, then in the namespace.
func subjects(u user.Info, namespace string) iter.Seq[subject] {
	return func(yield func(subject) bool) {
		for _, in := range [2]string{"", namespace} {
			if !yield(subject{in, false, u.GetName()}) {
				return
			}
			for _, group := range u.GetGroups() {
				if !yield(subject{in, true, group}) {
					return
				}
			}
			if namespace == "" {
				return
			}
		}
	}
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	key      store.Key
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// role returns the key of the role that a binding refers to, or the zero key if its kind is
// unsupported.
func (b *binding) role() store.Key {
	switch b.ref.Kind {
	case "ClusterRole":
		return store.Key{Resource: clusterRoles, Name: b.ref.Name}
	case "Role":
		return store.Key{Resource: roles, Namespace: b.key.Namespace, Name: b.ref.Name}
	}
	return store.Key{}
}

// uniqueSubjects yields the subjects of the binding in the form of the index, each once, with their
// positions.
func (b *binding) uniqueSubjects() iter.Seq2[int, subject] {
	return func(yield func(int, subject) bool) {
		seen := make(map[subject]bool, len(b.subjects))
		for i, s := range b.subjects {
			at := subject{namespace: b.key.Namespace, name: s.Name}
			switch s.Kind {
			case rbacv1.UserKind:
			case rbacv1.GroupKind:
				at.group = true
			case rbacv1.ServiceAccountKind:
				accountNamespace := cmp.Or(s.Namespace, b.key.Namespace)
				if accountNamespace == "" {
					continue
				}
				at.name = serviceaccount.MakeUsername(accountNamespace, s.Name)
			default:
				continue
			}
			if !seen[at] {
				seen[at] = true
				if !yield(i, at) {
					return
				}
			}
		}
	}
}

// reason returns Kubernetes' reason for a decision: the binding and its subject at a position.
func (b *binding) reason(at int) string { return "RBAC: allowed by " + b.describe(at) }

func (b *binding) describe(at int) string {
	kind, name, s := "ClusterRoleBinding", b.key.Name, &b.subjects[at]
	if b.key.Namespace != "" {
		kind, name = "RoleBinding", b.key.Name+"/"+b.key.Namespace
	}
	who := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		accountNamespace := cmp.Or(s.Namespace, b.key.Namespace)
		who += "/" + accountNamespace
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, b.ref.Kind, b.ref.Name, s.Kind, who)
}

// grants are the bindings of one subject.
type grants struct {
	bound   []bound                        // sorted by name
	current atomic.Pointer[effectiveRules] // nil: outdated
}

type bound struct {
	*binding
	at int // position of the subject
}

// effectiveRules are the rules of all bindings of one subject.
type effectiveRules struct {
	// set if there are few roles: their compiled rules are shared with other subjects
	few  []granted
	many *table  // otherwise one table of all rules
	errs []error // for example roles that do not exist
}

type granted struct {
	role   *role
	reason string
}

// manyRoles is the number of roles at which a subject gets its own table.
const manyRoles = 8

func (f *effectiveRules) allows(r *request) (reason string, ok bool) {
	for i := range f.few {
		if f.few[i].role.table.find(r) != nil {
			return f.few[i].reason, true
		}
	}
	if f.many != nil {
		if e := f.many.find(r); e != nil {
			return e.reason, true
		}
	}
	return "", false
}

// effective returns the current rules of the grants. The caller holds the read lock of the index,
// so a change of a role after the snapshot is applied later and resets current.
func (g *grants) effective(st *store.Store) *effectiveRules {
	if f := g.current.Load(); f != nil {
		return f
	}
	sn, f := st.Snapshot(), &effectiveRules{}
	for _, b := range g.bound {
		r, err := resolve(sn, b.binding)
		if err != nil {
			f.errs = append(f.errs, err)
			continue
		}
		f.few = append(f.few, granted{r, b.reason(b.at)})
	}
	if len(f.few) >= manyRoles {
		f.many = &table{}
		for _, g := range f.few {
			f.many.add(g.role.rules, g.reason)
		}
		f.few = nil
	}
	g.current.Store(f)
	return f
}

// resolve returns the role that a binding refers to.
func resolve(sn *store.Snapshot, b *binding) (*role, error) {
	key := b.role()
	if key.Resource == "" {
		return nil, fmt.Errorf("unsupported role reference kind: %q", b.ref.Kind)
	}
	obj := sn.Get(key)
	if obj == nil { // Kubernetes' error has the kind in lower case instead of the resource
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName,
			Resource: strings.ToLower(b.ref.Kind)}, key.Name)
	}
	return compile(obj)
}

// load builds the index of a snapshot.
func (x *index) load(sn *store.Snapshot) {
	x.bindings = map[store.Key]*binding{}
	x.subjects = map[subject]*grants{}
	x.byRole = map[store.Key]map[*binding]struct{}{}
	for _, resource := range []string{clusterRoleBindings, roleBindings} {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			x.bind(obj)
		}
	}
}

// apply applies one event to the index.
func (x *index) apply(e *store.Event) {
	key := e.Object.Key
	if key.Resource == roles || key.Resource == clusterRoles {
		for b := range x.byRole[key] {
			for _, s := range b.uniqueSubjects() {
				x.subjects[s].current.Store(nil)
			}
		}
		return
	}
	x.unbind(key)
	if e.Type != store.Deleted {
		x.bind(e.Object)
	}
}

// bind adds a binding. It ignores bindings that cannot be decoded.
func (x *index) bind(obj *store.Object) {
	b := &binding{key: obj.Key}
	if obj.Key.Resource == clusterRoleBindings {
		stored, err := derived.Of[rbacv1.ClusterRoleBinding](obj)
		if err != nil {
			return
		}
		b.ref, b.subjects = stored.RoleRef, stored.Subjects
	} else {
		stored, err := derived.Of[rbacv1.RoleBinding](obj)
		if err != nil {
			return
		}
		b.ref, b.subjects = stored.RoleRef, stored.Subjects
	}
	x.bindings[b.key] = b
	role := b.role()
	if x.byRole[role] == nil {
		x.byRole[role] = map[*binding]struct{}{}
	}
	x.byRole[role][b] = struct{}{}
	for at, s := range b.uniqueSubjects() {
		g := x.subjects[s]
		if g == nil {
			g = &grants{}
			x.subjects[s] = g
		}
		i, _ := g.search(b.key.Name)
		g.bound = slices.Insert(g.bound, i, bound{b, at})
		g.current.Store(nil)
	}
}

// unbind removes a binding if it exists.
func (x *index) unbind(key store.Key) {
	b := x.bindings[key]
	if b == nil {
		return
	}
	delete(x.bindings, key)
	role := b.role()
	delete(x.byRole[role], b)
	if len(x.byRole[role]) == 0 {
		delete(x.byRole, role)
	}
	for _, s := range b.uniqueSubjects() {
		g := x.subjects[s]
		if i, ok := g.search(key.Name); ok {
			g.bound = slices.Delete(g.bound, i, i+1)
		}
		if g.current.Store(nil); len(g.bound) == 0 {
			delete(x.subjects, s)
		}
	}
}

func (g *grants) search(name string) (int, bool) {
	return slices.BinarySearchFunc(g.bound, name, func(b bound, name string) int {
		return strings.Compare(b.key.Name, name)
	})
}
