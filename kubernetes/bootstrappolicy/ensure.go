// Package bootstrappolicy furnishes a control plane with the cluster roles, roles and bindings, and with the objects of priority and fairness,
// that Kubernetes has from the start.
//
// [Ensure] creates what is missing, all in one commit, and brings what was changed up to date as kube-apiserver does when it starts:
// rights and subjects that are missing are added, what users added stays, and what has the annotation
// rbac.authorization.kubernetes.io/autoupdate=false is left alone.
//
// The objects lie ready as bytes, as the API would have stored them: to create them costs no more than to commit them, and one that
// nobody has changed is known by comparing bytes.
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

// Config says what Ensure works on.
type Config struct {
	Store *store.Store
	// REST is an administrator's way to the API, asked for only if something must be brought up to date.
	REST func() *rest.Config
	// Aggregated creates aggregated roles with their rules. Without it they get them from the controller of aggregated roles, if
	// there is one.
	Aggregated bool
	// Log hears of what could not be brought up to date; nil: nobody does.
	Log *slog.Logger
}

// Ensure makes sure that the policy is in force. Namespaces of the policy must exist.
func Ensure(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for {
		changed, err := cfg.create(ctx)
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict) && ctx.Err() == nil: // another server of the same state was faster
		case err != nil:
			return fmt.Errorf("create bootstrap policy: %w", err)
		case len(changed) == 0:
			return nil
		default:
			return cfg.update(ctx, changed)
		}
	}
}

// create commits what is missing, and returns what is there and not as it was made.
func (cfg *Config) create(ctx context.Context) (changed []*object, err error) {
	sn, now := cfg.Store.Snapshot(), time.Now().UTC().Format(time.RFC3339)
	var ops []store.Op
	for _, o := range policy() {
		stored := sn.Get(o.key)
		switch {
		case stored == nil && predecessor(sn, o) != nil:
			changed = append(changed, o)
		case stored == nil:
			from := o.made
			if cfg.Aggregated && o.aggregated != nil {
				from = o.aggregated
			}
			ops = append(ops, store.Op{Key: o.key, Data: from.fill(uuid.NewUUID(), now)})
		case !o.made.matches(stored.Data) && !o.aggregated.matches(stored.Data):
			changed = append(changed, o)
		}
	}
	for some := range slices.Chunk(ops, maxUnit) {
		if _, err := cfg.Store.Commit(ctx, some...); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// maxUnit is how many objects are written at a time: etcd takes 128 by default.
const maxUnit = 120

// predecessors are the objects from which others were divided in later versions of the policy: a binding that became two, roles that
// became aggregated.
var predecessors = sync.OnceValue(func() map[store.Key]store.Key {
	of := map[store.Key]store.Key{}
	for from, to := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		of[store.Key{Resource: clusterRoleBindings, Name: to.Name}] = store.Key{Resource: clusterRoleBindings, Name: from}
	}
	for from, to := range bootstrappolicy.ClusterRolesToAggregate() {
		of[store.Key{Resource: clusterRoles, Name: to}] = store.Key{Resource: clusterRoles, Name: from}
	}
	return of
})

// predecessor returns the object whose changes by users a missing one must take over, or nil.
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

// update brings objects up to date through the API.
func (cfg *Config) update(ctx context.Context, changed []*object) error {
	roles, err := rbacv1client.NewForConfig(cfg.REST())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	core, err := corev1client.NewForConfig(cfg.REST())
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	c := clients{roles, core}
	for _, o := range changed {
		// As for kube-apiserver, one that fails keeps no other from being brought up to date; it is tried again at the next start.
		if err := cfg.reconcile(ctx, c, o); err != nil {
			cfg.Log.Warn("bootstrap policy is not up to date", "resource", o.key.Resource, "namespace", o.key.Namespace, "name", o.key.Name, "err", err)
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

// copy makes an object that keeps what users made of its predecessor.
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
	return v, json.Unmarshal(o.made.fill("", metav1.Time{}.UTC().Format(time.RFC3339)), v)
}

// fresh is the metadata of an object that is to be created.
func fresh(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
}

// reconciliation returns Kubernetes' own way to bring an object up to date.
func (cfg *Config) reconciliation(ctx context.Context, c clients, o *object) (func() error, error) {
	switch o.key.Resource {
	case clusterRoles:
		role, err := wanted[rbacv1.ClusterRole](o)
		if err != nil {
			return nil, err
		}
		role.ObjectMeta = fresh(role.ObjectMeta)
		return runRole(reconciliation.ReconcileRoleOptions{
			Role: reconciliation.ClusterRoleRuleOwner{ClusterRole: role}, Client: reconciliation.ClusterRoleModifier{Client: c.rbac.ClusterRoles()},
		}), nil
	case roles:
		role, err := wanted[rbacv1.Role](o)
		if err != nil {
			return nil, err
		}
		role.ObjectMeta = fresh(role.ObjectMeta)
		return runRole(reconciliation.ReconcileRoleOptions{
			Role: reconciliation.RoleRuleOwner{Role: role}, Client: reconciliation.RoleModifier{Client: c.rbac, NamespaceClient: c.core.Namespaces()},
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
