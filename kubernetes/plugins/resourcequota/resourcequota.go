// Package resourcequota is the ResourceQuota admission plugin: it rejects writes that exceed the
// quotas of their namespace.
//
// A write and the quotas that count it are stored in the same commit:
//
//	Commit(pods/web must not exist, resourcequotas/q must have the revision that was checked)
//
// Therefore a quota's status.used is never less than the actual use, with any number of concurrent
// writes, and a failed write uses nothing. If a quota has changed meanwhile, the commit is retried
// from the newest state. Counted writes of a namespace take turns, so conflicts are rare.
//
// Usage and error messages are Kubernetes' own (package kelson.dev/kubernetes/quota, and
// CheckRequest of k8s.io/apiserver). In a namespace without quotas, the plugin costs one lookup in
// the store.
package resourcequota

import (
	"bytes"
	"context"
	"hash/maphash"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	config "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	measures "k8s.io/apiserver/pkg/quota/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/quota"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = upstream.PluginName

// Config configures the plugin.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Controller is set if a quota controller runs, which gives new quotas their status. Quotas are
	// then in force as soon as they are written. Otherwise, as with kube-apiserver alone, they are
	// in force once a client has written their status.
	Controller bool
	// Config is a Configuration with limitedResources; nil means that resources without quota are
	// unlimited.
	Config []byte
}

// Plugin implements admission.ValidationInterface, so that it counts the final object.
type Plugin struct {
	store    *store.Store
	registry *resource.Registry
	early    bool // quotas are in force even without a status
	limited  []config.LimitedResource

	seed  maphash.Seed
	turns [64]sync.Mutex // locks by hash of the namespace
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New returns the plugin, or an error if the configuration is invalid.
func New(cfg Config) (*Plugin, error) {
	p := &Plugin{store: cfg.Store, registry: cfg.Registry, early: cfg.Controller, seed: maphash.MakeSeed()}
	if cfg.Config == nil {
		return p, nil
	}
	var reader io.Reader = bytes.NewReader(cfg.Config)
	loaded, err := upstream.LoadConfiguration(reader)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateConfiguration(loaded); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p.limited = loaded.LimitedResources
	return p, nil
}

// Handles reports whether the plugin handles an operation.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

var namespaces = schema.GroupKind{Kind: "Namespace"}

// Validate makes the commit of the write count it. For a dry run, it only checks the quotas.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetKind().GroupKind() == namespaces {
		return nil
	}
	if len(p.limited) == 0 && !p.any(a.GetNamespace()) {
		return nil
	}
	res := a.GetResource().GroupResource()
	if quota.Ignored(res) {
		return nil
	}
	evaluator, err := quota.EvaluatorFor(p.store.Snapshot(), res)
	if err != nil {
		return err
	}
	if !evaluator.Handles(a) {
		return nil
	}
	if unit := resource.UnitOf(ctx); unit != nil && !a.IsDryRun() {
		unit.Join(func(context.Context) ([]store.Op, func(), error) {
			turn := &p.turns[maphash.String(p.seed, a.GetNamespace())%uint64(len(p.turns))]
			turn.Lock()
			ops, err := p.count(a, evaluator)
			return ops, turn.Unlock, err
		})
		return nil
	}
	_, err = p.check(p.store.Snapshot(), a, evaluator)
	return err
}

// any reports whether a namespace has quotas.
func (p *Plugin) any(namespace string) bool {
	for range p.store.Snapshot().Scan(quota.Resource, namespace, store.Key{}) {
		return true
	}
	return false
}

// check returns the namespace's quotas before and after the write, or an error if the write exceeds
// one.
func (p *Plugin) check(sn *store.Snapshot, a admission.Attributes, evaluator measures.Evaluator) (checked, error) {
	var c checked
	var counted []corev1.ResourceQuota
	for q, err := range derived.List[corev1.ResourceQuota](sn, quota.Resource, a.GetNamespace()) {
		if err != nil {
			return c, err
		}
		c.stored = append(c.stored, q)
		if p.early && !measures.Equals(q.Spec.Hard, q.Status.Hard) {
			if q, _, err = quota.Counted(sn, store.Key{Resource: quota.Resource, Namespace: q.Namespace, Name: q.Name}); err != nil {
				return c, err
			}
		}
		counted = append(counted, *q)
	}
	var err error
	c.after, err = upstream.CheckRequest(counted, a, evaluator, p.limited)
	return c, err
}

// checked has the quotas before and after a write, in the same order. Those in stored are shared
// and must not be changed.
type checked struct {
	stored []*corev1.ResourceQuota
	after  []corev1.ResourceQuota
}

// count returns the operations that update the quotas.
func (p *Plugin) count(a admission.Attributes, evaluator measures.Evaluator) ([]store.Op, error) {
	sn := p.store.Snapshot()
	c, err := p.check(sn, a, evaluator)
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	for i := range c.after {
		if measures.Equals(c.stored[i].Status.Used, c.after[i].Status.Used) {
			continue
		}
		op, err := quota.Write(p.registry, sn, &c.after[i])
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}
