package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// postTo sends JSON to a path and returns the code and the body of the response.
func postTo(t testing.TB, s *apiserver.Server, path, text string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server"+path, strings.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.RESTConfig().Transport.RoundTrip(req)
	require.NoError(t, err)
	data := require.Body(t, resp)
	return resp.StatusCode, string(data)
}

// Actions and scales work with admission rules of the kind, in all its versions, and behind a
// cluster.
func TestAdmissionOfSubresources(t *testing.T) {
	action := apiserver.Action("bake", func(_ context.Context, _ *apiserver.Call[*pizza], body *bake) (*bake, error) {
		return body, nil
	})
	scale := apiserver.Scale("spec.fires", func(o *oven) apiserver.Replicas {
		return apiserver.Replicas{Desired: &o.Spec.Fires}
	})
	ovens := apiserver.Group("ovens.example.com",
		apiserver.Kind(&oven{TypeMeta: metav1.TypeMeta{APIVersion: "ovens.example.com/v1", Kind: "Oven"}}, scale))
	rules := apiserver.Parts(
		apiserver.Admission(func(context.Context, *apiserver.Tx, *apiserver.Write[*pizza]) error { return nil }),
		apiserver.Admission(func(context.Context, *apiserver.Tx, *apiserver.Write[*oven]) error {
			return nil
		}, admission.Update),
	)
	aggregated := apiserver.Authorization(func(context.Context) (apiserver.Auth, error) {
		cluster, err := store.Open(store.Config{})
		t.Cleanup(func() { _ = cluster.Close() })
		return apiserver.Auth{Namespace: func(context.Context, string) error { return nil }, Cluster: cluster}, err
	})
	for name, part := range map[string]apiserver.Part{"rules": rules, "aggregated": aggregated,
		"both": apiserver.Parts(rules, aggregated)} {
		t.Run(name, func(t *testing.T) {
			s, client := newServer(t, kinds(action), ovens, part)
			ctx := t.Context()
			_, err := client.Resource(pizzas).Namespace("default").Create(ctx, newPizza(t, "a", `{}`),
				metav1.CreateOptions{})
			require.NoError(t, err)
			for _, version := range []string{"v1beta1", "v1alpha1"} {
				code, text := postTo(t, s, "/apis/"+group+"/"+version+"/namespaces/default/pizzas/a/bake",
					`{"minutes":7}`)
				if code != http.StatusCreated || !strings.Contains(text, `"minutes":7`) {
					t.Errorf("bake in %s: %d %s", version, code, text)
				}
			}
			in := client.Resource(schema.GroupVersionResource{Group: "ovens.example.com", Version: "v1",
				Resource: "ovens"}).Namespace("default")
			_, err = in.Create(ctx, object(t,
				`{"apiVersion":"ovens.example.com/v1","kind":"Oven","metadata":{"name":"a"},"spec":{"fires":1}}`),
				metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = in.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`),
				metav1.PatchOptions{}, "scale")
			require.NoError(t, err)
			now, err := in.Get(ctx, "a", metav1.GetOptions{})
			require.NoError(t, err)
			check(t, "fires", text(t, now, "spec", "fires"), "5")
		})
	}
}

// Rules for deletions decide about each object of a deletecollection.
func TestRulesOfDeleteCollection(t *testing.T) {
	_, client := newServer(t, kinds(), apiserver.Admission(unused, admission.Delete))
	ctx := t.Context()
	for _, name := range []string{"ham", "olive"} {
		_, err := client.Resource(toppings).Create(ctx, newTopping(t, name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	if _, err := client.Resource(pizzas).Namespace("default").Create(ctx,
		newPizza(t, "a", `{"toppings":[{"name":"olive"}]}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := client.Resource(toppings).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"olive" is forbidden: the pizza a needs it`) {
		t.Errorf("deletecollection: %v", err)
	}
	list, err := client.Resource(toppings).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "olive" {
		t.Errorf("toppings: %v, %v", list, err)
	}
}

// A rule's NotFound fails a deletecollection. That of an object which is already deleted does not.
func TestNotFoundInDeleteCollection(t *testing.T) {
	var client dynamic.Interface
	rule := func(ctx context.Context, tx *apiserver.Tx, w *apiserver.Write[*pizza]) error {
		if w.Namespace != "default" || w.Name != w.Old.Name {
			t.Errorf("the rule is for %s/%s", w.Namespace, w.Name)
		}
		if w.Name == "a" { // another client deletes b meanwhile
			return client.Resource(pizzas).Namespace("default").Delete(ctx, "b", metav1.DeleteOptions{})
		}
		if w.Name != "c" {
			return nil
		}
		_, err := apiserver.Get[*topping](tx, "", "ham")
		return err
	}
	_, client = newServer(t, kinds(), apiserver.Admission(rule, admission.Delete))
	ctx := t.Context()
	in := client.Resource(pizzas).Namespace("default")
	create := func(names ...string) {
		for _, name := range names {
			_, err := in.Create(ctx, newPizza(t, name, `{}`), metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	create("a", "b")
	if err := in.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("an object is already deleted: %v", err)
	}
	create("c")
	err := in.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "ham") {
		t.Errorf("deletecollection: %v", err)
	}
	_, err = in.Get(ctx, "c", metav1.GetOptions{})
	assert.NoError(t, err)
}

// The writes of a rule for deletions are committed with the removal of an object that has a grace
// period of 0, also if the rule reads all objects of the kind.
func TestRuleWritesOfGracefulDeletion(t *testing.T) {
	rule := func(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*pizza]) error {
		all, err := apiserver.List[*pizza](tx, w.Namespace, nil)
		if err != nil {
			return err
		}
		own, err := apiserver.Get[*topping](tx, "", w.Name)
		if err != nil {
			return err
		}
		total, err := apiserver.Get[*topping](tx, "", "total")
		if err != nil {
			return err
		}
		total.Spec.Cost = int64(len(all)) - 1
		return errors.Join(tx.Delete(own), tx.Update(total))
	}
	_, client := newServer(t, kinds(), apiserver.Admission(rule, admission.Delete))
	ctx := t.Context()
	in := client.Resource(pizzas).Namespace("default")
	for _, name := range []string{"a", "b", "total"} {
		_, err := client.Resource(toppings).Create(ctx, newTopping(t, name), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = in.Create(ctx, newPizza(t, name, `{}`), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for i, name := range []string{"a", "b"} {
		require.NoError(t, in.Delete(ctx, name, metav1.DeleteOptions{}))
		if got, err := in.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("pizza: %v, %v", got, err)
		}
		if _, err := client.Resource(toppings).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("topping: %v", err)
		}
		total, err := client.Resource(toppings).Get(ctx, "total", metav1.GetOptions{})
		require.NoError(t, err)
		check(t, "total", text(t, total, "spec", "cost"), fmt.Sprint(2-i))
	}
}
