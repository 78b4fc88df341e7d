package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/store"
)

// seats is the sum of Kubernetes' defaults of --max-requests-inflight and
// --max-mutating-requests-inflight.
const seats = 600

// newFlowControl returns priority and fairness, configured by the FlowSchemas and
// PriorityLevelConfigurations of a cluster; nil means Kubernetes' default ones. The server itself
// has no such objects.
func newFlowControl(cluster *store.Store) (*flowcontrol.Controller, error) {
	if cluster != nil {
		return flowcontrol.New(flowcontrol.Config{Store: cluster, Seats: seats}), nil
	}
	objects, err := defaultFlows()
	if err != nil {
		return nil, err
	}
	defer objects.Close() // snapshots of a closed store remain readable
	return flowcontrol.New(flowcontrol.Config{Store: objects, Seats: seats}), nil
}

// defaultFlows returns a store with Kubernetes' default FlowSchemas and
// PriorityLevelConfigurations.
func defaultFlows() (*store.Store, error) {
	var ops []store.Op
	add := func(plural, kind string, obj runtime.Object) error {
		object, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		obj.GetObjectKind().SetGroupVersionKind(flowcontrolv1.SchemeGroupVersion.WithKind(kind))
		data, err := json.Marshal(obj)
		ops = append(ops, store.Op{Key: store.Key{Resource: plural + "." + flowcontrolv1.SchemeGroupVersion.Group,
			Name: object.GetName()}, Data: data})
		return err
	}
	for _, obj := range bootstrap.SuggestedFlowSchemas {
		if err := add("flowschemas", "FlowSchema", obj.DeepCopy()); err != nil {
			return nil, fmt.Errorf("configure flow control: %w", err)
		}
	}
	for _, obj := range bootstrap.SuggestedPriorityLevelConfigurations {
		if err := add("prioritylevelconfigurations", "PriorityLevelConfiguration", obj.DeepCopy()); err != nil {
			return nil, fmt.Errorf("configure flow control: %w", err)
		}
	}
	objects, err := store.Open(store.Config{})
	if err != nil {
		return nil, fmt.Errorf("configure flow control: %w", err)
	}
	if _, err := objects.Commit(context.Background(), ops...); err != nil {
		objects.Close()
		return nil, fmt.Errorf("configure flow control: %w", err)
	}
	return objects, nil
}
