package bootstrappolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	flowcontrollisters "k8s.io/client-go/listers/flowcontrol/v1"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/ensurer"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

const (
	priorityLevels = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
	flowSchemas    = "flowschemas.flowcontrol.apiserver.k8s.io"
)

// maintainAfter is the delay between a change of priority and fairness objects and their update.
// kube-apiserver updates them every minute.
const maintainAfter = time.Minute

// MaintainFlows restores the priority and fairness objects after changes, until ctx ends: the
// mandatory ones always, and the suggested ones if their annotation
// apf.kubernetes.io/autoupdate-spec allows it. It is idle while they don't change. After an error,
// it tries again.
func MaintainFlows(ctx context.Context, cfg Config) error {
	maintained := cfg.Store.Snapshot().Revision()
	for {
		if err := cfg.Store.Await(ctx, maintained, priorityLevels, flowSchemas); err != nil {
			return err
		}
		select {
		case <-time.After(maintainAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
		// Changes during the update are later than this revision, so they are not missed.
		revision := cfg.Store.Snapshot().Revision()
		switch err := cfg.ensureAllFlows(ctx); {
		case err == nil:
			maintained = revision
		case ctx.Err() == nil && cfg.Log != nil:
			cfg.Log.Warn("update priority and fairness objects", "err", err)
		}
	}
}

// flowOps returns Kubernetes' operations on the two kinds. They read from the store and write
// through the API.
func (cfg *Config) flowOps() (ensurer.ObjectOps[*flowcontrolv1.PriorityLevelConfiguration],
	ensurer.ObjectOps[*flowcontrolv1.FlowSchema], error) {
	client, err := flowcontrolclient.NewForConfig(cfg.REST())
	if err != nil {
		return nil, nil, fmt.Errorf("create client: %w", err)
	}
	return ensurer.NewPriorityLevelConfigurationOps(client.PriorityLevelConfigurations(), levelLister{st: cfg.Store}),
		ensurer.NewFlowSchemaOps(client.FlowSchemas(), schemaLister{st: cfg.Store}), nil
}

// ensureFlows updates one object.
func (cfg *Config) ensureFlows(ctx context.Context, key store.Key) error {
	levels, schemas, err := cfg.flowOps()
	if err != nil {
		return err
	}
	if key.Resource == priorityLevels {
		return ensureOne(ctx, levels, key.Name, bootstrap.MandatoryPriorityLevelConfigurations,
			bootstrap.SuggestedPriorityLevelConfigurations)
	}
	return ensureOne(ctx, schemas, key.Name, bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas)
}

// flowObject is a PriorityLevelConfiguration or a FlowSchema.
type flowObject interface {
	comparable
	metav1.Object
	runtime.Object
}

func ensureOne[T flowObject](ctx context.Context, ops ensurer.ObjectOps[T], name string,
	mandatory, suggested []T) error {
	named := func(o T) bool { return o.GetName() == name }
	if i := slices.IndexFunc(mandatory, named); i >= 0 {
		return ensurer.EnsureConfiguration(ctx, ops, mandatory[i], ensurer.NewMandatoryEnsureStrategy[T]())
	}
	if i := slices.IndexFunc(suggested, named); i >= 0 {
		return ensurer.EnsureConfiguration(ctx, ops, suggested[i], ensurer.NewSuggestedEnsureStrategy[T]())
	}
	return nil
}

// ensureAllFlows updates all objects, as kube-apiserver does every minute.
func (cfg *Config) ensureAllFlows(ctx context.Context) error {
	levels, schemas, err := cfg.flowOps()
	if err != nil {
		return err
	}
	if err := ensureAll(ctx, levels, bootstrap.MandatoryPriorityLevelConfigurations,
		bootstrap.SuggestedPriorityLevelConfigurations); err != nil {
		return err
	}
	return ensureAll(ctx, schemas, bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas)
}

func ensureAll[T flowObject](ctx context.Context, ops ensurer.ObjectOps[T], mandatory, suggested []T) error {
	if err := ensurer.EnsureConfigurations(ctx, ops, suggested, ensurer.NewSuggestedEnsureStrategy[T]()); err != nil {
		return err
	}
	if err := ensurer.EnsureConfigurations(ctx, ops, mandatory, ensurer.NewMandatoryEnsureStrategy[T]()); err != nil {
		return err
	}
	return ensurer.RemoveUnwantedObjects(ctx, ops, slices.Concat(mandatory, suggested))
}

type levelLister struct {
	flowcontrollisters.PriorityLevelConfigurationLister // nil: no other methods are called
	st                                                  *store.Store
}

func (l levelLister) Get(name string) (*flowcontrolv1.PriorityLevelConfiguration, error) {
	return derived.Get[flowcontrolv1.PriorityLevelConfiguration](l.st.Snapshot(), priorityLevels, "", name)
}

func (l levelLister) List(labels.Selector) ([]*flowcontrolv1.PriorityLevelConfiguration, error) {
	return list[flowcontrolv1.PriorityLevelConfiguration](l.st, priorityLevels)
}

type schemaLister struct {
	flowcontrollisters.FlowSchemaLister // nil: no other methods are called
	st                                  *store.Store
}

func (l schemaLister) Get(name string) (*flowcontrolv1.FlowSchema, error) {
	return derived.Get[flowcontrolv1.FlowSchema](l.st.Snapshot(), flowSchemas, "", name)
}

func (l schemaLister) List(labels.Selector) ([]*flowcontrolv1.FlowSchema, error) {
	return list[flowcontrolv1.FlowSchema](l.st, flowSchemas)
}

func list[T any](st *store.Store, resource string) (all []*T, err error) {
	for obj, err := range derived.List[T](st.Snapshot(), resource, "") {
		if err != nil {
			return nil, err
		}
		all = append(all, obj)
	}
	return all, nil
}
