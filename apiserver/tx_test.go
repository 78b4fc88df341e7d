package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A rule reads other objects; its errors become Kubernetes' responses.
func TestAdmission(t *testing.T) {
	rule := func(ctx context.Context, tx *apiserver.Tx, w *apiserver.Write[*oldPizza]) error {
		switch w.Name {
		case "field":
			return field.Invalid(field.NewPath("spec"), "x", "never")
		case "plain":
			return errors.New("not today")
		}
		return nil
	}
	size := func(_ context.Context, _ *apiserver.Tx, w *apiserver.Write[*oldPizza]) error {
		w.Object.Spec.Size = "mutated"
		return nil
	}
	_, client := newServer(t, kinds(), apiserver.Admission(toppingsExist), apiserver.Admission(rule),
		apiserver.Mutation(size, admission.Create))
	in := client.Resource(pizzas).Namespace("default")
	ctx := t.Context()
	spec := `{"toppings":[{"name":"ham"}]}`
	if _, err := in.Create(ctx, newPizza(t, "a", spec), metav1.CreateOptions{}); !apierrors.IsNotFound(err) ||
		!strings.Contains(err.Error(), `toppings.restaurant.example.com "ham" not found`) {
		t.Errorf("create a pizza without its topping: %v", err)
	}
	_, err := client.Resource(toppings).Create(ctx, newTopping(t, "ham"), metav1.CreateOptions{})
	require.NoError(t, err)
	created, err := in.Create(ctx, newPizza(t, "a", spec), metav1.CreateOptions{})
	require.NoError(t, err)
	check(t, "size", text(t, created, "spec", "size"), `"mutated"`)
	check(t, "toppings", text(t, created, "spec", "toppings"), `[{"name":"ham","quantity":1}]`)
	same, err := in.Apply(ctx, "a", newPizza(t, "a", `{}`), metav1.ApplyOptions{FieldManager: "none"})
	require.NoError(t, err)
	again, err := in.Apply(ctx, "a", newPizza(t, "a", `{}`), metav1.ApplyOptions{FieldManager: "none"})
	if err != nil || again.GetResourceVersion() != same.GetResourceVersion() {
		t.Errorf("a write without changes: %v, revisions %s and %s", err, same.GetResourceVersion(),
			again.GetResourceVersion())
	}
	if _, err := in.Create(ctx, newPizza(t, "field", spec), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("field error: %v", err)
	}
	if _, err := in.Create(ctx, newPizza(t, "plain", spec), metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "not today") {
		t.Errorf("plain error: %v", err)
	}
}

// txStorages are the storages that the tests of transactions use.
var txStorages = map[string]apiserver.OpenStore{
	"memory": apiserver.Memory(),
	"shared": func(context.Context) (store.Config, error) {
		return store.Config{Shared: storetest.NewLog().Shared(false)}, nil
	},
}

// A topping that is deleted between the rule and the commit rejects the pizza, for creates, updates
// and patches.
func TestDeletedBetweenRuleAndCommit(t *testing.T) {
	for name, open := range txStorages {
		t.Run(name, func(t *testing.T) {
			var between func()
			rule := func(ctx context.Context, tx *apiserver.Tx, w *apiserver.Write[*pizza]) error {
				err := toppingsExist(ctx, tx, w)
				if between != nil && err == nil && len(w.Object.Spec.Toppings) > 0 {
					between()
					between = nil
				}
				return err
			}
			_, client := newServer(t, kinds(), apiserver.Admission(rule), apiserver.Storage(open))
			in := client.Resource(pizzas).Namespace("default")
			ctx := t.Context()
			deleteHam := func() {
				assert.NoError(t, client.Resource(toppings).Delete(ctx, "ham", metav1.DeleteOptions{}))
			}
			spec := `{"toppings":[{"name":"ham"}]}`
			for what, write := range map[string]func() error{
				"create": func() error {
					_, err := in.Create(ctx, newPizza(t, "new", spec), metav1.CreateOptions{})
					return err
				},
				"apply": func() error {
					_, err := in.Apply(ctx, "old", newPizza(t, "old", spec), metav1.ApplyOptions{FieldManager: "x"})
					return err
				},
				"patch": func() error {
					_, err := in.Patch(ctx, "old", "application/merge-patch+json", []byte(`{"spec":`+spec+`}`),
						metav1.PatchOptions{})
					return err
				},
			} {
				_, _ = in.Create(ctx, newPizza(t, "old", `{}`), metav1.CreateOptions{}) // may exist
				_, err := client.Resource(toppings).Create(ctx, newTopping(t, "ham"),
					metav1.CreateOptions{})
				require.NoError(t, err)
				between = deleteHam
				if err := write(); !apierrors.IsNotFound(err) {
					t.Errorf("%s: %v", what, err)
				}
				if between != nil {
					t.Errorf("%s: the rule did not run", what)
				}
			}
			list, err := in.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || text(t, &list.Items[0], "spec", "toppings") != "null" {
				t.Errorf("pizzas: %v, %v", list, err)
			}
		})
	}
}

func unused(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*topping]) error {
	all, err := apiserver.List[*pizza](tx, "", nil)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, t := range p.Spec.Toppings {
			if t.Name == w.Name {
				return fmt.Errorf("the pizza %s needs it", p.Name)
			}
		}
	}
	return nil
}

// With rules in both directions, no interleaving leaves a pizza without its topping.
func TestNoPizzaWithoutTopping(t *testing.T) {
	for name, open := range txStorages {
		t.Run(name, func(t *testing.T) {
			s, client := newServer(t, kinds(), apiserver.Admission(toppingsExist),
				apiserver.Admission(unused, admission.Delete), apiserver.Storage(open))
			ctx := t.Context()
			var outcomes sync.Map
			var all sync.WaitGroup
			for worker := range 8 {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				all.Go(func() {
					for range 60 {
						name := fmt.Sprint("x", random.IntN(3))
						var err error
						var what string
						switch random.IntN(4) {
						case 0:
							what = "topping"
							_, err = client.Resource(toppings).Create(ctx, newTopping(t, name), metav1.CreateOptions{})
						case 1:
							what = "no topping"
							err = client.Resource(toppings).Delete(ctx, name, metav1.DeleteOptions{})
						case 2:
							what = "pizza"
							_, err = client.Resource(pizzas).Namespace("default").Create(ctx,
								newPizza(t, name, `{"toppings":[{"name":"`+name+`"}]}`), metav1.CreateOptions{})
						case 3:
							what = "no pizza"
							err = client.Resource(pizzas).Namespace("default").Delete(ctx, name, metav1.DeleteOptions{})
						}
						outcomes.Store(fmt.Sprint(what, " ", apierrors.ReasonForError(err)), true)
						if apierrors.ReasonForError(err) == "" && err != nil {
							t.Error(err)
						}
						err = s.Transact(ctx, func(tx *apiserver.Tx) error { return consistent(tx) })
						assert.NoError(t, err)
					}
				})
			}
			all.Wait()
			for _, want := range []string{"topping ", "no topping ", "no topping Forbidden", "pizza ", "pizza NotFound",
				"no pizza "} {
				if _, seen := outcomes.Load(want); !seen {
					t.Errorf("no outcome %q: the test did not exercise it", want)
				}
			}
		})
	}
}

// consistent reports a pizza without one of its toppings in the state of a transaction.
func consistent(tx *apiserver.Tx) error {
	all, err := apiserver.List[*pizza](tx, "", nil)
	for _, p := range all {
		for _, t := range p.Spec.Toppings {
			if _, missing := apiserver.Get[*topping](tx, "", t.Name); missing != nil {
				err = errors.Join(err, fmt.Errorf("pizza %s: %w", p.Name, missing))
			}
		}
	}
	return err
}

// Writes of a rule are committed together with the request's write, or not at all.
func TestRuleWrites(t *testing.T) {
	count := func(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*pizza]) error {
		total, err := apiserver.Get[*topping](tx, "", "total")
		if err != nil {
			return err
		}
		total.Spec.Cost++
		return tx.Update(total)
	}
	s, client := newServer(t, kinds(), apiserver.Admission(count, admission.Create))
	ctx := t.Context()
	if _, err := client.Resource(toppings).Create(ctx, newTopping(t, "total"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	in := client.Resource(pizzas).Namespace("default")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := in.Create(ctx, newPizza(t, fmt.Sprint("p", i), `{}`), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			_, err := in.Create(ctx, newPizza(t, fmt.Sprint("p", i), `{}`), metav1.CreateOptions{})
			if !apierrors.IsAlreadyExists(err) {
				t.Error(err)
			}
			_, err = in.Create(ctx, newPizza(t, fmt.Sprint("d", i), `{}`),
				metav1.CreateOptions{DryRun: []string{"All"}})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	err := s.Transact(ctx, func(tx *apiserver.Tx) error {
		total, err := apiserver.Get[*topping](tx, "", "total")
		if err == nil && (total.Spec.Cost != 21 || total.Generation != 21) {
			err = fmt.Errorf("cost %d, generation %d, want 21", total.Spec.Cost, total.Generation)
		}
		return err
	})
	assert.NoError(t, err)
}

// A transaction creates, updates and deletes several objects at once, by the rules of their kinds.
func TestTransact(t *testing.T) {
	s, client := newServer(t, kinds())
	ctx := t.Context()
	attempts := 0
	err := s.Transact(ctx, func(tx *apiserver.Tx) error {
		if attempts++; attempts == 1 {
			if _, err := client.Resource(toppings).Create(ctx, newTopping(t, "ham"),
				metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		_, err := apiserver.Get[*topping](tx, "", "ham")
		if apierrors.IsNotFound(err) != (attempts == 1) {
			return fmt.Errorf("attempt %d: %w", attempts, err)
		}
		return errors.Join(
			tx.Create(&topping{ObjectMeta: metav1.ObjectMeta{Name: "olive"}}),
			tx.Create(&oldPizza{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
				Spec: oldPizzaSpec{Toppings: []string{"olive", "olive"}}}),
		)
	})
	if err != nil || attempts != 2 {
		t.Fatalf("%v after %d attempts", err, attempts)
	}
	created, err := client.Resource(pizzas).Namespace("default").Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	check(t, "toppings", text(t, created, "spec", "toppings"), `[{"name":"olive","quantity":2}]`)
	check(t, "size", text(t, created, "spec", "size"), `"medium"`)

	err = s.Transact(ctx, func(tx *apiserver.Tx) error {
		return tx.Create(&pizza{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"},
			Spec: pizzaSpec{Toppings: []pizzaTopping{{"x", 99}}}})
	})
	if !apierrors.IsInvalid(err) {
		t.Errorf("invalid: %v", err)
	}
	err = s.Transact(ctx, func(tx *apiserver.Tx) error {
		p, err := apiserver.Get[*pizza](tx, "default", "a")
		if err != nil {
			return err
		}
		p.Status.Cost = 5
		olive, err := apiserver.Get[*topping](tx, "", "olive")
		if err != nil {
			return err
		}
		return errors.Join(tx.UpdateStatus(p), tx.Delete(olive))
	})
	require.NoError(t, err)
	if _, err := client.Resource(toppings).Get(ctx, "olive", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: %v", err)
	}
}

// Reads and writes of a transaction build on its earlier writes of the same object.
func TestTransactSameObject(t *testing.T) {
	s, client := newServer(t, kinds())
	ctx := t.Context()
	in := client.Resource(pizzas).Namespace("default")
	fresh := func(name string) *pizza {
		return &pizza{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: pizzaSpec{Size: "small"}}
	}
	require.NoError(t, s.Transact(ctx, func(tx *apiserver.Tx) error {
		if err := errors.Join(tx.Create(fresh("b")), tx.Create(fresh("gone"))); err != nil {
			return err
		}
		if err := tx.Create(fresh("b")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create twice: %v", err)
		}
		b := fresh("b")
		b.Status.Cost = 3
		gone, err := apiserver.Get[*pizza](tx, "default", "gone")
		if err != nil {
			return err
		}
		if err := errors.Join(tx.UpdateStatus(b), tx.Delete(gone), tx.Create(fresh("a"))); err != nil {
			return err
		}
		if _, err := apiserver.Get[*pizza](tx, "default", "gone"); !apierrors.IsNotFound(err) {
			t.Errorf("get a deleted object: %v", err)
		}
		old, err := apiserver.Get[*oldPizza](tx, "default", "b")
		if err == nil && (old.Status.Cost != 3 || old.Spec.Size != "small" || old.UID == "" ||
			old.ResourceVersion != "") {
			err = fmt.Errorf("get a new object: %+v", old)
		}
		list, failed := apiserver.List[*pizza](tx, "", nil)
		if failed == nil && (len(list) != 2 || list[0].Name != "a" || list[1].Name != "b") {
			failed = fmt.Errorf("list: %v", list)
		}
		return errors.Join(err, failed)
	}))
	created := require.Value[*unstructured.Unstructured](t)(in.Get(ctx, "b", metav1.GetOptions{}))
	check(t, "status", text(t, created, "status", "cost"), "3")
	check(t, "size", text(t, created, "spec", "size"), `"small"`)
	if _, err := in.Get(ctx, "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that was created and deleted: %v", err)
	}

	require.NoError(t, s.Transact(ctx, func(tx *apiserver.Tx) error {
		p, err := apiserver.Get[*pizza](tx, "default", "b")
		if err != nil {
			return err
		}
		a, err := apiserver.Get[*pizza](tx, "default", "a")
		if err != nil {
			return err
		}
		p.Spec.Toppings = []pizzaTopping{{"ham", 2}}
		p.Status.Cost = 4
		if err := errors.Join(tx.Update(p), tx.UpdateStatus(p), tx.Delete(a)); err != nil {
			return err
		}
		again, err := apiserver.Get[*pizza](tx, "default", "b")
		if err == nil && (len(again.Spec.Toppings) != 1 || again.Status.Cost != 4 ||
			again.ResourceVersion != p.ResourceVersion) {
			err = fmt.Errorf("get after update: %+v", again)
		}
		if err := tx.Update(a); !apierrors.IsNotFound(err) {
			t.Errorf("update after delete: %v", err)
		}
		if err := tx.Delete(a); !apierrors.IsNotFound(err) {
			t.Errorf("delete after delete: %v", err)
		}
		if err := tx.Create(fresh("a")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create after delete: %v", err)
		}
		return err
	}))
	updated := require.Value[*unstructured.Unstructured](t)(in.Get(ctx, "b", metav1.GetOptions{}))
	check(t, "toppings", text(t, updated, "spec", "toppings"), `[{"name":"ham","quantity":2}]`)
	check(t, "status", text(t, updated, "status", "cost"), "4")
	check(t, "generation", text(t, updated, "metadata", "generation"), "2")
}

// Finalizers hold an object that a transaction deletes, and the transaction that removes the last
// one removes the object.
func TestTransactFinalizers(t *testing.T) {
	s, client := newServer(t, kinds())
	ctx := t.Context()
	in := client.Resource(pizzas).Namespace("default")
	held := newPizza(t, "a", `{}`)
	held.SetFinalizers([]string{"example.com/x"})
	_, err := in.Create(ctx, held, metav1.CreateOptions{})
	require.NoError(t, err)
	change := func(do func(tx *apiserver.Tx, p *pizza) error) {
		t.Helper()
		err := s.Transact(ctx, func(tx *apiserver.Tx) error {
			p, err := apiserver.Get[*pizza](tx, "default", "a")
			if err != nil {
				return err
			}
			return do(tx, p)
		})
		require.NoError(t, err)
	}
	change(func(tx *apiserver.Tx, p *pizza) error {
		// these have no effect
		p.Finalizers, p.Spec.Size, p.Spec.Toppings = nil, "large", []pizzaTopping{{"x", 99}}
		return tx.Delete(p)
	})
	marked := require.Value[*unstructured.Unstructured](t)(in.Get(ctx, "a", metav1.GetOptions{}))
	check(t, "spec", text(t, marked, "spec"), `{"size":"medium"}`)
	check(t, "generation", text(t, marked, "metadata", "generation"), "2")
	if marked.GetDeletionTimestamp() == nil {
		t.Error("no deletionTimestamp")
	}
	change(func(tx *apiserver.Tx, p *pizza) error {
		p.Finalizers = nil
		return tx.Update(p)
	})
	if left, err := in.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v, %v", left, err)
	}
}
