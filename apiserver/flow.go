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

// seats are Kubernetes' defaults of --max-requests-inflight and --max-mutating-requests-inflight
// together.
const seats = 600

// newFlowControl returns priority and fairness with Kubernetes' default FlowSchemas and
// PriorityLevelConfigurations. The server does not have such objects: flow control uses those of
// the cluster.
func newFlowControl() (*flowcontrol.Controller, error) {
	var ops []store.Op
	add := func(plural, kind string, obj runtime.Object) error {
		object, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		obj.GetObjectKind().SetGroupVersionKind(flowcontrolv1.SchemeGroupVersion.WithKind(kind))
		data, err := json.Marshal(obj)
		ops = append(ops, store.Op{Key: store.Key{Resource: plural + "." + flowcontrolv1.SchemeGroupVersion.Group, Name: object.GetName()}, Data: data})
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
	defer objects.Close() // snapshots of a closed store remain readable
	if _, err := objects.Commit(context.Background(), ops...); err != nil {
		return nil, fmt.Errorf("configure flow control: %w", err)
	}
	return flowcontrol.New(flowcontrol.Config{Store: objects, Seats: seats}), nil
}
