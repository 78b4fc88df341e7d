package adapter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/client"
)

func (w *twins) get(c calls, obj [2]client.Object) calls {
	var ours []client.GetOption
	var theirs []crclient.GetOption
	c.what = "get"
	if w.IntN(3) == 0 {
		version := pick(w.Rand, "0", "1", "no version")
		c.what += " version " + version
		ours = append(ours, client.ResourceVersion(version))
		theirs = append(theirs, &crclient.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: version}})
	}
	c.ours = func(ctx context.Context, into runtime.Object) error {
		return w.ours.Get(ctx, client.KeyOf(obj[0]), into.(client.Object), ours...)
	}
	c.theirs = func(ctx context.Context, into runtime.Object) error {
		return w.theirs.Get(ctx, client.KeyOf(obj[1]), into.(client.Object), theirs...)
	}
	return c
}

// configuration returns the apply configuration of a document: a generated one for a Go type that
// has one.
func configuration(s shape, doc map[string]any) runtime.ApplyConfiguration {
	var config runtime.ApplyConfiguration
	switch {
	case s.form == typed && s.kind == "ConfigMap":
		config = &corev1apply.ConfigMapApplyConfiguration{}
	case s.form == typed && s.kind == "PodTemplate":
		config = &corev1apply.PodTemplateApplyConfiguration{}
	case s.form == typed && s.kind == "Ingress":
		config = &networkingv1apply.IngressApplyConfiguration{}
	default:
		return crclient.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: doc})
	}
	remarshal(doc, config)
	return config
}

func remarshal(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
}

// apply applies an object with our client, and its apply configuration with theirs. Of the Go
// types, our client gets only ConfigMap: the others encode unset fields, which it drops or owns.
// Generated configurations are compared only by their effect: they lack managedFields, and
// controller-runtime's client decodes only those fields of the response that a configuration has.
func (w *twins) apply(c calls, s shape, obj [2]client.Object, seed uint64) calls {
	form := dynamic
	if s.form == typed && s.kind == "ConfigMap" {
		form = typed
	}
	generated := s.form == typed && s.kind != "Boat"
	var docs [2]map[string]any
	for n := range docs {
		docs[n] = w.document(s, seed, obj[0].GetName())
		docs[n]["metadata"].(map[string]any)["namespace"] = w.ns[n]
	}
	what, subresource := "apply", w.IntN(4) == 0 && s.hasStatus()
	if subresource {
		what = "apply status"
		for n := range docs {
			delete(docs[n], "spec")
			docs[n]["status"] = map[string]any{"speed": int64(seed % 4)}
			if s.kind == "Ingress" {
				docs[n]["status"] = map[string]any{
					"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "10.0.0.3"}}}}
			}
		}
	}
	mine := w.object(shape{s.kind, form}, w.ns[0], obj[0].GetName())
	remarshal(docs[0], mine)
	yours := configuration(s, docs[1])
	var ours []client.WriteOption
	var theirs []any
	if w.IntN(2) == 0 {
		owner := pick(w.Rand, "me", "you")
		ours, theirs, what = append(ours, client.FieldOwner(owner)), append(theirs, crclient.FieldOwner(owner)),
			what+" by "+owner
	}
	if w.IntN(4) == 0 && !subresource {
		ours, theirs, what = append(ours, client.DryRunAll), append(theirs, crclient.DryRunAll), what+" dry"
	}
	if w.IntN(2) == 0 {
		ours, theirs, what = append(ours, client.ForceOwnership), append(theirs, crclient.ForceOwnership), what+" force"
	} else {
		ours = append(ours, client.Unforced)
	}
	c.what = what
	if !generated {
		c.into[0], c.into[1] = mine, w.object(shape{s.kind, form}, w.ns[1], obj[1].GetName())
	}
	c.ours = func(ctx context.Context, _ runtime.Object) error {
		if subresource {
			return w.ours.Subresource("status").Apply(ctx, mine, ours...)
		}
		return w.ours.Apply(ctx, mine, ours...)
	}
	c.theirs = func(ctx context.Context, into runtime.Object) (err error) {
		if subresource {
			err = w.theirs.Status().Apply(ctx, yours, as[crclient.SubResourceApplyOption](theirs)...)
		} else {
			err = w.theirs.Apply(ctx, yours, as[crclient.ApplyOption](theirs)...)
		}
		if err == nil && !generated {
			remarshal(yours, into)
		}
		return err
	}
	return c
}

// scale reads or writes the subresource scale of a Boat.
func (w *twins) scale(c calls, seed uint64) calls {
	name := pick(w.Rand, boatNames...)
	// Their client does not decode a dynamic object's subresource into a Go type.
	s := shape{"Boat", typed}
	obj := [2]client.Object{w.object(s, w.ns[0], name), w.object(s, w.ns[1], name)}
	c.into = [2]runtime.Object{&autoscalingv1.Scale{}, &autoscalingv1.Scale{}}
	if seed%2 == 0 {
		c.what = "scale get"
		c.ours = func(ctx context.Context, into runtime.Object) error {
			return w.ours.Subresource("scale").Get(ctx, obj[0], into)
		}
		c.theirs = func(ctx context.Context, into runtime.Object) error {
			return w.theirs.SubResource("scale").Get(ctx, obj[1], into.(client.Object))
		}
		return c
	}
	replicas := int32(seed % 7)
	for n := range obj {
		scale := c.into[n].(*autoscalingv1.Scale)
		scale.Namespace, scale.Name, scale.Spec.Replicas = w.ns[n], name, replicas
	}
	c.what = fmt.Sprint("scale update ", replicas)
	c.ours = func(ctx context.Context, into runtime.Object) error {
		return w.ours.Subresource("scale").Update(ctx, obj[0], into)
	}
	c.theirs = func(ctx context.Context, into runtime.Object) error {
		return w.theirs.SubResource("scale").Update(ctx, obj[1], crclient.WithSubResourceBody(into.(client.Object)))
	}
	return c
}

// token creates a token of a service account, the subresource that is created.
func (w *twins) token(t *testing.T) calls {
	var accounts [2]*corev1.ServiceAccount
	c := calls{what: "token"}
	for n := range accounts {
		accounts[n] = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns[n], Name: "tokens"}}
		if err := w.ours.Create(t.Context(), accounts[n].DeepCopy()); !apierrors.IsAlreadyExists(err) {
			must(t, err)
		}
		seconds := int64(900)
		c.into[n] = &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"},
			ExpirationSeconds: &seconds}}
	}
	// without values that always differ
	done := func(into runtime.Object, err error) error {
		request := into.(*authenticationv1.TokenRequest)
		if err == nil && request.Status.Token == "" {
			return fmt.Errorf("no token in %v", request)
		}
		request.Status = authenticationv1.TokenRequestStatus{}
		return err
	}
	c.ours = func(ctx context.Context, into runtime.Object) error {
		return done(into, w.ours.Subresource("token").Create(ctx, accounts[0], into))
	}
	c.theirs = func(ctx context.Context, into runtime.Object) error {
		return done(into, w.theirs.SubResource("token").Create(ctx, accounts[1], into.(client.Object)))
	}
	return c
}

// pages reads a list page by page.
func (w *twins) pages(s shape) calls {
	size := int64(w.IntN(2) + 1)
	c := calls{what: fmt.Sprint("pages of ", size),
		into: [2]runtime.Object{&unstructured.Unstructured{Object: map[string]any{}},
			&unstructured.Unstructured{Object: map[string]any{}}}}
	read := func(into runtime.Object, page func(list client.ObjectList, token string) error) error {
		var pages []any
		for token := ""; ; {
			list := w.list(s)
			if err := w.withoutOthers(list, page(list, token)); err != nil {
				return err
			}
			token = list.GetContinue()
			list.SetRemainingItemCount(nil) // counts objects that the server creates asynchronously
			pages = append(pages, w.normal(list))
			if token == "" {
				into.(*unstructured.Unstructured).Object["pages"] = pages
				return nil
			}
		}
	}
	c.ours = func(ctx context.Context, into runtime.Object) error {
		return read(into, func(list client.ObjectList, token string) error {
			return w.ours.List(ctx, list, client.InNamespace(w.ns[0]), client.Limit(size), client.Continue(token))
		})
	}
	c.theirs = func(ctx context.Context, into runtime.Object) error {
		return read(into, func(list client.ObjectList, token string) error {
			return w.theirs.List(ctx, list, crclient.InNamespace(w.ns[1]), crclient.Limit(size),
				crclient.Continue(token))
		})
	}
	return c
}

// watches starts a watch of the last few writes by each client, and compares the events up to that
// of an object that is created last.
func (w *twins) watches(t *testing.T, s shape, seed uint64) calls {
	all := shape{s.kind, dynamic}
	var list [2]*unstructured.UnstructuredList
	for n := range list {
		list[n] = w.list(all).(*unstructured.UnstructuredList)
		must(t, w.ours.List(t.Context(), list[n], client.InNamespace(w.ns[n])))
	}
	r := rand.New(rand.NewPCG(seed, 5))
	for range 4 {
		name, change, verb := pick(r, boatNames...), r.Uint64(), r.IntN(3)
		for n := range list {
			w.write(t, verb, w.object(all, w.ns[n], name), change)
		}
	}
	for n := range list {
		last := w.object(all, w.ns[n], "last")
		doc := w.document(all, seed, "last")
		delete(doc, "metadata")
		maps.Copy(last.(*unstructured.Unstructured).Object, doc)
		last.SetLabels(map[string]string{"color": "red"})
		must(t, w.ours.Create(t.Context(), last))
		must(t, w.ours.Delete(t.Context(), last.DeepCopyObject().(client.Object)))
	}
	ours := []client.ListOption{client.InNamespace(w.ns[0])}
	theirs := []crclient.ListOption{crclient.InNamespace(w.ns[1])}
	what := "watch"
	switch r.IntN(4) { // all select the last object
	case 0:
		ours, theirs, what = append(ours, client.MatchingLabels{"color": "red"}),
			append(theirs, crclient.MatchingLabels{"color": "red"}), what+" red"
	case 1:
		ours, theirs, what = append(ours, client.MatchingFields{"metadata.name": "last"}),
			append(theirs, crclient.MatchingFields{"metadata.name": "last"}), what+" last"
	case 2:
		ours, theirs, what = append(ours, client.MatchingLabels{"color": "not valid!"}),
			append(theirs, crclient.MatchingLabels{"color": "not valid!"}), what+" invalid"
	}
	version := [2]string{list[0].GetResourceVersion(), list[1].GetResourceVersion()}
	if r.IntN(8) == 0 {
		version, what = [2]string{"no version", "no version"}, what+" no version"
	}
	ours = append(ours, client.ListOptions{ResourceVersion: version[0]})
	theirs = append(theirs, &crclient.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version[1]}})
	c := calls{what: what, into: [2]runtime.Object{&unstructured.Unstructured{Object: map[string]any{}},
		&unstructured.Unstructured{Object: map[string]any{}}}}
	c.ours = func(ctx context.Context, into runtime.Object) error {
		events, err := w.ours.Watch(ctx, w.list(s), ours...)
		if err != nil {
			return err
		}
		return w.collect(ctx, events, into)
	}
	c.theirs = func(ctx context.Context, into runtime.Object) error {
		events, err := w.watch.Watch(ctx, w.list(s), theirs...)
		if err != nil {
			return err
		}
		return w.collect(ctx, events, into)
	}
	return c
}

// write creates, changes or deletes an object. It ignores errors, because some random changes are
// invalid.
func (w *twins) write(t *testing.T, verb int, obj client.Object, change uint64) {
	ctx := t.Context()
	switch verb {
	case 0:
		w.change(change, obj)
		_ = w.ours.Create(ctx, obj)
	case 1:
		if w.ours.Get(ctx, client.KeyOf(obj), obj) == nil {
			w.change(change, obj)
			_ = w.ours.Update(ctx, obj)
		}
	case 2:
		_ = w.ours.Delete(ctx, obj)
	}
}

// collect stores the events of a watch up to the creation of the last object.
func (w *twins) collect(ctx context.Context, from watch.Interface, into runtime.Object) error {
	defer from.Stop()
	deadline := time.After(time.Minute)
	var events []any
	for {
		select {
		case event, ok := <-from.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended after %v", events)
			}
			object, _ := event.Object.(client.Object)
			if object != nil && object.GetName() == "kube-root-ca.crt" {
				continue
			}
			if status, ok := event.Object.(*metav1.Status); ok {
				return apierrors.FromObject(status)
			}
			events = append(events, string(event.Type), fmt.Sprintf("%T", event.Object), w.normal(event.Object))
			if object != nil && object.GetName() == "last" {
				into.(*unstructured.Unstructured).Object["events"] = events
				return nil
			}
		case <-deadline:
			return fmt.Errorf("no last event after %v", events)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
