// Package clusterroleaggregation replaces clusterrole-aggregation-controller: a ClusterRole with an
// aggregationRule gets the rules of all ClusterRoles that its selectors match, in the order of the
// selectors and then of names, each rule once.
//
// After any number of changes, one pass updates all aggregated roles. The pass decodes only
// aggregated roles and those that they select, once per revision. The controller owns the rules of
// aggregated roles through server-side apply.
package clusterroleaggregation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

const resource = "clusterroles.rbac.authorization.k8s.io"

// FieldOwner is the field manager of the rules of aggregated roles. Kubernetes' controller uses the
// same name.
const FieldOwner = "clusterrole-aggregation-controller"

// Config configures the controller. Store and Client are required.
type Config struct {
	Store *store.Store
	// Client writes roles.
	Client client.Client
	Log    *slog.Logger
}

// Controller aggregates the cluster roles of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[struct{}]{
		Name: "cluster roles", Store: c.cfg.Store, Resources: []string{resource}, Log: c.cfg.Log,
		Keys: func(_ *store.Object, add func(struct{})) { add(struct{}{}) },
		Sync: c.sync,
	})
}

// sync updates the rules of all aggregated roles. A role that aggregates other aggregated roles is
// updated by the pass that their events trigger.
func (c *Controller) sync(ctx context.Context, _ struct{}) (time.Duration, error) {
	var roles []*store.Object // by name
	for obj := range c.cfg.Store.Snapshot().Scan(resource, "", store.Key{}) {
		roles = append(roles, obj)
	}
	var errs []error
	for _, obj := range roles {
		if !bytes.Contains(obj.Data, []byte(`"aggregationRule"`)) {
			continue
		}
		role, err := derived.Of[rbacv1.ClusterRole](obj)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if role.AggregationRule == nil || role.DeletionTimestamp != nil {
			continue
		}
		rules, err := aggregate(role, roles)
		if err == nil && !equality.Semantic.DeepEqual(rules, role.Rules) {
			err = c.apply(ctx, obj, role, rules)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("aggregate cluster role %s: %w", role.Name, err))
		}
	}
	return 0, errors.Join(errs...)
}

// apply writes the rules of a role. The uid prevents the apply from creating a role that was
// deleted meanwhile.
func (c *Controller) apply(ctx context.Context, read *store.Object, role *rbacv1.ClusterRole,
	rules []rbacv1.PolicyRule) error {
	err := c.cfg.Client.Apply(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name, UID: role.UID},
		Rules: rules},
		client.FieldOwner(FieldOwner))
	// If the role was deleted or replaced, the event triggers another pass.
	return follow.IgnoreChanged(c.cfg.Store, read, err)
}

// aggregate returns the rules of an aggregated role. all is sorted by name.
func aggregate(role *rbacv1.ClusterRole, all []*store.Object) (rules []rbacv1.PolicyRule, err error) {
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, obj := range all {
			if obj.Key.Name == role.Name || !selector.Matches(labels.Set(obj.Head.Labels)) {
				continue
			}
			other, err := derived.Of[rbacv1.ClusterRole](obj)
			if err != nil {
				return nil, err
			}
			rules = appendNew(rules, other.Rules)
		}
	}
	return rules, nil
}

// appendNew appends the rules that are not yet in rules. It compares them by pointers, because each
// conversion of a struct to an interface allocates.
func appendNew(rules, others []rbacv1.PolicyRule) []rbacv1.PolicyRule {
others:
	for i := range others {
		for j := range rules {
			if equality.Semantic.DeepEqual(&rules[j], &others[i]) {
				continue others
			}
		}
		rules = append(rules, others[i])
	}
	return rules
}
