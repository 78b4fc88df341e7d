package explore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// alarmsOf returns the oracles and plans of the alarms of every plan of one fault.
func alarmsOf(t *testing.T, s explore.Scenario, kinds ...explore.Kind) map[string]explore.Alarm {
	t.Helper()
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Kinds: kinds})
	require.NoError(t, err)
	alarms := map[string]explore.Alarm{}
	for _, a := range report.Alarms {
		alarms[a.Oracle+" "+a.Plan.String()] = a
	}
	return alarms
}

// F12, O4: an operator that does not watch its children does not repair them, which raises an
// alarm. An operator that watches them raises none.
func TestDeletedChild(t *testing.T) {
	for name, watches := range map[string]bool{"faulty": false, "correct": true} {
		t.Run(name, func(t *testing.T) {
			s := eachConfigMap(nil)
			var options []operator.Option
			if watches {
				options = append(options, operator.Owns[corev1.Secret]())
			}
			s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
				return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
					error) {
					return operator.Result{}, createSecret(ctx, c, cm, "-key", "a")
				}}
			}, options...))
			kinds := []explore.Kind{explore.DeleteChild}
			if watches {
				kinds = nil // no kind of fault raises an alarm
			}
			alarms := alarmsOf(t, s, kinds...)
			const want = "O4 delete-child after secrets default/web-key #1"
			if a, found := alarms[want]; found == watches ||
				found && !strings.Contains(a.Detail,
					"secrets default/web-key: exists, and did not before the restart") {
				t.Errorf("%v, want %q: %v", alarms, want, !watches)
			} else if watches && len(alarms) > 0 {
				t.Errorf("false alarms: %v", alarms)
			}
		})
	}
}

// F12: an operator that gives up when a webhook, RBAC or a quota refuses a write is found.
func TestDenied(t *testing.T) {
	for name, givesUp := range map[string]bool{"faulty": true, "correct": false} {
		t.Run(name, func(t *testing.T) {
			s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
				error) {
				err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, &corev1.Secret{})
				if !apierrors.IsNotFound(err) {
					return operator.Result{}, err
				}
				if err = createSecret(ctx, c, cm, "-key", "a"); givesUp && apierrors.IsForbidden(err) {
					err = nil // the bug
				}
				return operator.Result{}, err
			})
			alarms := alarmsOf(t, s, explore.Deny)
			if _, found := alarms["O1 deny create secrets default/web-key #1"]; found != givesUp {
				t.Errorf("%v, want an alarm: %v", alarms, givesUp)
			}
			// alarms of the same bug are reported once
			for _, fault := range []string{"revoke", "quota"} {
				got, steps := replayed(t, s, fault+" create secrets default/web-key #1")
				if found := got == "O1 secrets default/web-key: is missing"; found != givesUp || !found && got != "" {
					t.Errorf("%s: %q, want an alarm: %v\n%s", fault, got, givesUp, steps)
				}
			}
		})
	}
}

// F13: a process that is no longer the leader writes after the next leader has written.
func TestTwoLeaders(t *testing.T) {
	started := 0
	s := eachConfigMap(nil)
	s.Operator = func(ctx context.Context, config *rest.Config) error {
		started++
		number := fmt.Sprint(started)
		return explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
				if cm.Data["leader"] != "" {
					return operator.Result{}, nil
				}
				before := cm.DeepCopy()
				cm.Data = map[string]string{"leader": "one"}
				cm.Annotations = map[string]string{"process": number}
				return operator.Result{}, c.Patch(ctx, cm, client.MergeFrom(before))
			}}
		}))(ctx, config)
	}
	s.Ignore = []string{"configmaps metadata.annotations"}
	s.Invariants = []explore.Invariant{{Name: "order", Check: func(_ explore.View, c explore.Change) error {
		if c.Type == "MODIFIED" && c.Previous != nil &&
			c.Previous.GetAnnotations()["process"] > c.Object.GetAnnotations()["process"] {
			return errors.New("an older process writes last")
		}
		return nil
	}}}
	alarms := alarmsOf(t, s, explore.TwoLeaders)
	if _, ok := alarms["O10 two-leaders patch configmaps default/web #1"]; !ok {
		t.Errorf("%v", alarms)
	}
}

// F14: a response that arrives after the operator's timeout has the same effect as a lost one.
func TestSlowResponse(t *testing.T) {
	scenario := func(correct bool) explore.Scenario {
		return eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := createSecret(short, c, cm, "-key", "a")
			key := client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}
			if !correct && errors.Is(err, context.DeadlineExceeded) && c.Get(ctx, key, &corev1.Secret{}) == nil {
				return operator.Result{}, createSecret(ctx, c, cm, "-second", "a")
			}
			return operator.Result{}, err
		})
	}
	const want = "O2 slow-response create secrets default/web-key #1"
	if alarms := alarmsOf(t, scenario(false), explore.SlowResponse); alarms[want].Plan == nil {
		t.Errorf("%v, want %s", alarms, want)
	}
	if alarms := alarmsOf(t, scenario(true), explore.SlowResponse); len(alarms) > 0 {
		t.Errorf("false alarms: %v", alarms)
	}
}

const boatDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}, spec: {type: object, properties: {
      color: {type: string, minLength: 1}, sails: {type: integer, minimum: 0}, size: {type: integer, minimum: 0}, sizeLimit: {type: integer},
      crew: {type: object, properties: {captain: {type: string}}}}}}}}}
`

// boats returns an operator of Boats.
func boats(t *testing.T, reconcile func(ctx context.Context, c client.Client,
	boat *unstructured.Unstructured) error) explore.Scenario {
	t.Helper()
	file := filepath.Join(t.TempDir(), "boats.yaml")
	require.NoError(t, os.WriteFile(file, []byte(boatDefinition), 0o644))
	boat := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": "red",
		"crew": map[string]any{"captain": "Ann"}}}}
	boat.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Boat"})
	boat.SetName("argo")
	return explore.Scenario{
		Env: []testenv.Option{testenv.CRDs(file)},
		Operator: func(ctx context.Context, config *rest.Config) error {
			return runBoats(ctx, config, boat, reconcile)
		},
		Inputs:     []explore.Input{explore.Create(boat)},
		Reversible: true,
	}
}

// runBoats is a small operator without a cache: it watches Boats, and reconciles each event.
func runBoats(ctx context.Context, config *rest.Config, kind *unstructured.Unstructured,
	reconcile func(context.Context, client.Client, *unstructured.Unstructured) error) error {
	c, err := client.New(client.Config{REST: config})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersionKind())
		list.SetKind("BoatList")
		if err := c.List(ctx, list); err != nil {
			time.Sleep(time.Second)
			continue
		}
		for i := range list.Items {
			if err := reconcile(ctx, c, &list.Items[i]); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	return ctx.Err()
}

func put(ctx context.Context, c client.Client, name string, content map[string]string) error {
	cm := configMap(name)
	cm.Data = content
	err := c.Create(ctx, cm)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	current := configMap(name)
	if err := c.Get(ctx, client.KeyOf(current), current); err != nil {
		return err
	}
	if fmt.Sprint(current.Data) == fmt.Sprint(content) {
		return nil
	}
	current.Data = content
	return c.Update(ctx, current)
}

// F11: values from the schema find bugs with fields that the sample does not set: a field whose
// removal has no effect, and a field whose change has none.
func TestFieldsFromSchema(t *testing.T) {
	require.Long(t, "explores for several seconds")
	for name, test := range map[string]struct {
		reconcile func(context.Context, client.Client, *unstructured.Unstructured) error
		want      string
	}{
		"O3: an unset optional field is dereferenced": {func(ctx context.Context, c client.Client,
			boat *unstructured.Unstructured) error {
			captain := boat.Object["spec"].(map[string]any)["crew"].(map[string]any)["captain"].(string)
			return put(ctx, c, "captain", map[string]string{"is": captain})
		}, "O3 set-field after boats.example.com default/argo #1 spec.crew.captain=null"},
		"O6: a field is read once": {func(ctx context.Context, c client.Client, boat *unstructured.Unstructured) error {
			color, _, _ := unstructured.NestedString(boat.Object, "spec", "color")
			cm := configMap("paint")
			cm.Data = map[string]string{"color": color}
			if err := c.Create(ctx, cm); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		}, "O6 set-field after boats.example.com default/argo #1 spec.color=null"},
		"O8: an object that a value has created stays": {func(ctx context.Context, c client.Client,
			boat *unstructured.Unstructured) error {
			if sails, found, _ := unstructured.NestedInt64(boat.Object, "spec", "sails"); found {
				return put(ctx, c, "sails", map[string]string{"number": fmt.Sprint(sails)})
			}
			return nil
		}, "O8 set-field after boats.example.com default/argo #1 spec.sails=0"},
		"correct": {func(ctx context.Context, c client.Client, boat *unstructured.Unstructured) error {
			color, _, _ := unstructured.NestedString(boat.Object, "spec", "color")
			return put(ctx, c, "paint", map[string]string{"color": color})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := boats(t, test.reconcile)
			s.Keep = true // the ConfigMaps have no owner
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
				Kinds: []explore.Kind{explore.SetField}, UntilAlarm: true})
			require.NoError(t, err)
			found := ""
			for _, a := range report.Alarms {
				found = a.Oracle + " " + a.Plan.String()
			}
			assert.Equalf(t, found, test.want, "first alarm")
		})
	}
}

// F15: Pods that fail or are deleted are replaced, and the operator stays correct.
func TestPods(t *testing.T) {
	require.Long(t, "explores for several seconds")
	s := deploys(false)
	s.Keep = true
	// The operator does not watch its children, so other actions raise alarms.
	alarms := alarmsOf(t, s, explore.FailPod, explore.DeletePod, explore.LoseNode, explore.SilenceNode,
		explore.ClockJump, explore.KillAfter, explore.FreezeAll)
	if len(alarms) > 0 {
		t.Errorf("false alarms: %v", alarms)
	}
}
