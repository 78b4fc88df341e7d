// Package bootstrappolicy creates the cluster roles, roles, bindings, and priority and fairness
// objects that every Kubernetes cluster has.
//
// [Ensure] creates missing objects in few commits, and updates changed ones as kube-apiserver does
// when it starts: it adds missing rules and subjects, keeps what users added, and skips objects
// with the annotation rbac.authorization.kubernetes.io/autoupdate=false.
//
// The objects are embedded in the form in which the store keeps them, so creating them costs only
// the commit, and unchanged ones are recognized by comparing bytes.
//
//	err := bootstrappolicy.Ensure(ctx, bootstrappolicy.Config{Store: st, REST: plane.RESTConfig})
package bootstrappolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

const (
	clusterRoles        = "clusterroles.rbac.authorization.k8s.io"
	clusterRoleBindings = "clusterrolebindings.rbac.authorization.k8s.io"
	roles               = "roles.rbac.authorization.k8s.io"
	roleBindings        = "rolebindings.rbac.authorization.k8s.io"
)

// Config configures Ensure and MaintainFlows.
type Config struct {
	Store *store.Store
	// REST returns the client configuration of system:apiserver. It is called only if objects must
	// be updated or Visible is set. If it is nil, only missing objects are created.
	REST func() *rest.Config
	// Visible creates missing objects with a request each, as kube-apiserver does, so that
	// admission and audit see them. Otherwise they are written to the store at once.
	Visible bool
	// Aggregated creates aggregated roles with their rules. Without it, the cluster role
	// aggregation controller must add them.
	Aggregated bool
	// Log receives the errors of failed updates; nil discards them.
	Log *slog.Logger
}

// Ensure creates and updates the objects of the policy. Their namespaces must exist.
func Ensure(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for {
		changed, err := cfg.create(ctx)
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict) && ctx.Err() == nil:
			// another server of the same store created an object first
		case err != nil:
			return fmt.Errorf("create bootstrap policy: %w", err)
		case len(changed) == 0:
			return nil
		default:
			return cfg.update(ctx, changed)
		}
	}
}

// create commits the missing objects, and returns those that exist but differ.
func (cfg *Config) create(ctx context.Context) (changed []*object, err error) {
	sn, now := cfg.Store.Snapshot(), time.Now().UTC().Format(time.RFC3339)
	var ops []store.Op
	all := policy()
	if cfg.REST != nil {
		gated, err := ofGates()
		if err != nil {
			return nil, err
		}
		changed = gated
		all = slices.DeleteFunc(slices.Clone(all), func(o *object) bool {
			return slices.ContainsFunc(gated, func(g *object) bool { return g.key == o.key })
		})
	}
	for _, o := range all {
		stored := sn.Get(o.key)
		switch {
		case stored == nil && (cfg.Visible || predecessor(sn, o) != nil):
			changed = append(changed, o)
		case stored == nil:
			from := o.posted
			if cfg.Aggregated && o.aggregated != nil {
				from = o.aggregated
			}
			ops = append(ops, store.Op{Key: o.key, Data: from.fill(uuid.NewUUID(), now)})
		case !o.posted.matches(stored.Data) && !o.aggregated.matches(stored.Data):
			changed = append(changed, o)
		}
	}
	for batch := range slices.Chunk(ops, maxUnit) {
		if _, err := cfg.Store.Commit(ctx, batch...); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// maxUnit is how many objects are written per commit. etcd's default limit is 128.
const maxUnit = 120

// predecessors maps objects to the objects from which they were split in an earlier version of the
// policy: a binding that became two, and roles that became aggregated.
var predecessors = sync.OnceValue(func() map[store.Key]store.Key {
	earlier := map[store.Key]store.Key{}
	for from, to := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		earlier[store.Key{Resource: clusterRoleBindings, Name: to.Name}] = store.Key{Resource: clusterRoleBindings,
			Name: from}
	}
	for from, to := range bootstrappolicy.ClusterRolesToAggregate() {
		earlier[store.Key{Resource: clusterRoles, Name: to}] = store.Key{Resource: clusterRoles, Name: from}
	}
	return earlier
})

// predecessor returns the stored object from which a missing one must copy the users' changes, or
// nil.
func predecessor(sn *store.Snapshot, o *object) *store.Object {
	from, ok := predecessors()[o.key]
	if !ok {
		return nil
	}
	stored := sn.Get(from)
	if stored != nil && from.Resource == clusterRoles {
		if role, err := derived.Of[rbacv1.ClusterRole](stored); err != nil || role.AggregationRule != nil {
			return nil
		}
	}
	return stored
}

// update updates objects through the API.
func (cfg *Config) update(ctx context.Context, changed []*object) error {
	roles, err := rbacv1client.NewForConfig(cfg.REST())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	core, err := corev1client.NewForConfig(cfg.REST())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	c := clients{roles, core}
	for _, o := range changed {
		// As in kube-apiserver, a failure does not prevent the update of other objects. The next
		// start tries again.
		if err := cfg.reconcile(ctx, c, o); err != nil {
			cfg.Log.Warn("update bootstrap policy", "resource", o.key.Resource, "namespace", o.key.Namespace, "name",
				o.key.Name, "err", err)
		}
	}
	return nil
}

type clients struct {
	rbac rbacv1client.RbacV1Interface
	core corev1client.CoreV1Interface
}

func (cfg *Config) reconcile(ctx context.Context, c clients, o *object) error {
	if sn := cfg.Store.Snapshot(); sn.Get(o.key) == nil {
		if from := predecessor(sn, o); from != nil {
			if err := c.copy(ctx, from, o); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
	}
	run, err := cfg.reconciliation(ctx, c, o)
	if err != nil {
		return err
	}
	busy := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err) }
	return retry.OnError(retry.DefaultBackoff, busy, run)
}

// copy creates an object with the changes that users made to its predecessor.
func (c clients) copy(ctx context.Context, from *store.Object, o *object) error {
	if o.key.Resource == clusterRoles {
		old, err := derived.Of[rbacv1.ClusterRole](from)
		if err != nil {
			return err
		}
		role := old.DeepCopy()
		role.ObjectMeta = metav1.ObjectMeta{Name: o.key.Name, Labels: role.Labels, Annotations: role.Annotations}
		_, err = c.rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		return err
	}
	old, err := derived.Of[rbacv1.ClusterRoleBinding](from)
	if err != nil {
		return err
	}
	binding, err := wanted[rbacv1.ClusterRoleBinding](o)
	if err != nil {
		return err
	}
	binding.ObjectMeta = metav1.ObjectMeta{Name: o.key.Name, Labels: old.Labels, Annotations: old.Annotations}
	binding.Subjects = old.Subjects
	_, err = c.rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}

// wanted decodes an object of the policy.
func wanted[T any](o *object) (*T, error) {
	v := new(T)
	return v, json.Unmarshal(o.posted.fill("", metav1.Time{}.UTC().Format(time.RFC3339)), v)
}

// fresh returns only the metadata that a create request needs.
func fresh(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
}

// reconciliation returns Kubernetes' own function that updates an object.
func (cfg *Config) reconciliation(ctx context.Context, c clients, o *object) (func() error, error) {
	switch o.key.Resource {
	case clusterRoles:
		role, err := wanted[rbacv1.ClusterRole](o)
		if err != nil {
			return nil, err
		}
		role.ObjectMeta = fresh(role.ObjectMeta)
		return runRole(reconciliation.ReconcileRoleOptions{
			Role:   reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
			Client: reconciliation.ClusterRoleModifier{Client: c.rbac.ClusterRoles()},
		}), nil
	case roles:
		role, err := wanted[rbacv1.Role](o)
		if err != nil {
			return nil, err
		}
		role.ObjectMeta = fresh(role.ObjectMeta)
		return runRole(reconciliation.ReconcileRoleOptions{
			Role:   reconciliation.RoleRuleOwner{Role: role},
			Client: reconciliation.RoleModifier{Client: c.rbac, NamespaceClient: c.core.Namespaces()},
		}), nil
	case clusterRoleBindings:
		binding, err := wanted[rbacv1.ClusterRoleBinding](o)
		if err != nil {
			return nil, err
		}
		binding.ObjectMeta = fresh(binding.ObjectMeta)
		return runBinding(reconciliation.ReconcileRoleBindingOptions{
			RoleBinding: reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding},
			Client:      reconciliation.ClusterRoleBindingClientAdapter{Client: c.rbac.ClusterRoleBindings()},
		}), nil
	case roleBindings:
		binding, err := wanted[rbacv1.RoleBinding](o)
		if err != nil {
			return nil, err
		}
		binding.ObjectMeta = fresh(binding.ObjectMeta)
		return runBinding(reconciliation.ReconcileRoleBindingOptions{
			RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: binding},
			Client:      reconciliation.RoleBindingClientAdapter{Client: c.rbac, NamespaceClient: c.core.Namespaces()},
		}), nil
	case priorityLevels, flowSchemas:
		return func() error { return cfg.ensureFlows(ctx, o.key) }, nil
	}
	return nil, fmt.Errorf("no policy for %s", o.key.Resource)
}

func runRole(opts reconciliation.ReconcileRoleOptions) func() error {
	opts.Confirm = true
	return func() error {
		_, err := opts.Run()
		return err
	}
}

func runBinding(opts reconciliation.ReconcileRoleBindingOptions) func() error {
	opts.Confirm = true
	return func() error {
		_, err := opts.Run()
		return err
	}
}
