package explore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// setup has the scenario and plan of a trial, and the control plane against which it runs. It does
// not change during the trial, so any goroutine may read it.
type setup struct {
	t        testing.TB
	ctx      context.Context // of the exploration; nil for a Binary
	scenario *Scenario
	plan     Plan
	env      *testenv.Env // the fork of this trial
	wire     *wire        // nil for operators in this program, and for a Program
	virtual  *virtual     // nil unless the operator is a Program
	probe    *probe       // collects the possible actions; nil in other runs

	// former has the definitions of the former version.
	former []*unstructured.Unstructured

	allRights      bool            // the operator has all rights instead of those of the scenario
	keepAll        bool            // the run must set result.versions
	noWatchLists   bool            // the server refuses watches that begin with a list
	learning       bool            // the run must find periodic writes
	periodic       *periodic       // those of runs without faults; nil for none
	random         []randomName    // the random names that the operator chooses
	numbers        int             // added to the numbers of its processes
	varying        *expected       // what differs between runs without faults; nil before they end
	earlierCrashes map[moment]bool // crashes of earlier runs
}

// manifest returns an object as a user would create it: with its current fields, and the labels and
// annotations of the input that has created it.
func (s *setup) manifest(obj *unstructured.Unstructured) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range runtime.DeepCopyJSON(obj.Object) {
		if field != "metadata" && field != "status" {
			m.Object[field] = value
		}
	}
	m.SetNamespace(obj.GetNamespace())
	m.SetName(obj.GetName())
	for _, input := range s.scenario.Inputs {
		if input.apply != nil && client.KeyOf(input.apply) == client.KeyOf(obj) &&
			s.kindOf(input.apply) == obj.GetKind() {
			m.SetLabels(input.apply.GetLabels())
			m.SetAnnotations(input.apply.GetAnnotations())
		}
	}
	return m
}

func (s *setup) kindOf(obj client.Object) string {
	kind, err := client.KindOf(obj, s.env.Client().Scheme())
	if err != nil {
		return ""
	}
	return kind.Kind
}

// unstructured returns a copy of an object with its kind.
func (s *setup) unstructured(obj client.Object) (*unstructured.Unstructured, error) {
	kind, err := client.KindOf(obj, s.env.Client().Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// changedByWebhooks explains why the server refuses an object whose manifest is right: webhooks are
// called before it compares the object with the definition.
func (s *setup) changedByWebhooks(err error) string {
	if !apierrors.IsInvalid(err) || !testenv.HasWebhooks(s.env.OperatorContext(context.Background())) {
		return ""
	}
	return "; if the manifest does not have this value, the operator's webhook has set it, " +
		"for example null for a list without omitempty"
}

// stored returns the object that a request changes, as the server has it; nil for none.
func (s *setup) stored(c call) *unstructured.Unstructured {
	key := store.Key{Resource: c.resource, Name: c.object}
	if namespace, name, ok := strings.Cut(c.object, "/"); ok {
		key.Namespace, key.Name = namespace, name
	}
	stored := s.env.Plane().Store().Snapshot().Get(key)
	if stored == nil {
		return nil
	}
	obj, err := decode(stored)
	if err != nil {
		return nil // the next turn reports the error
	}
	return obj
}

// creates reports whether a request creates an object, if the server accepts it: a create, or an
// apply of an object that does not exist.
func (s *setup) creates(c call) bool {
	return !strings.Contains(c.resource, "/") && (c.verb == "create" || c.verb == "apply" && s.stored(c) == nil)
}

// isInput reports whether an object was created by an input.
func (s *setup) isInput(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(s.scenario.Inputs, func(i Input) bool {
		return i.apply != nil && client.KeyOf(i.apply) == client.KeyOf(obj) && s.kindOf(i.apply) == obj.GetKind()
	})
}

// patience is how long a user tries to create an object again that is being deleted.
func (s *setup) patience() time.Duration {
	if s.wire != nil {
		return wireHorizon
	}
	return 10 * time.Minute
}

// binary returns the program of an operator that is not in this process.
func (s *setup) binary() *Binary {
	if s.wire != nil {
		return s.wire.binary
	}
	return s.virtual.program
}
