package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// Order is the kind of the operator under test: an order specifies a number of pods.
type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OrderSpec   `json:"spec"`
	Status            OrderStatus `json:"status,omitempty"`
}

type OrderSpec struct {
	Want int `json:"want"`
}

type OrderStatus struct {
	Made               int   `json:"made,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

func (o *Order) DeepCopyObject() runtime.Object {
	c := *o
	c.ObjectMeta = *o.ObjectMeta.DeepCopy()
	return &c
}

var orders = apitest.NewKind("soak.kelson.dev", "v1", "Order", "orders")

func addOrders(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: orders.Group, Version: orders.Version, Kind: orders.Kind},
		&Order{})
	return nil
}

func order(name string, want int) *Order {
	return &Order{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: OrderSpec{Want: want}}
}

const ofLabel = "of"

// reconciler creates the pods of orders. Names of pods are random, so a reconciler that reads a
// state from before its own or its predecessor's writes creates too many.
type reconciler struct {
	client operator.Client
	name   string // of the replica

	mu     sync.Mutex
	random *rand.Rand
}

func (r *reconciler) podName(order string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s-%s-%x", order, r.name, r.random.Uint32())
}

func (r *reconciler) Reconcile(ctx context.Context, o *Order) (operator.Result, error) {
	pods, err := r.podsOf(ctx, o)
	if err != nil {
		return operator.Result{}, err
	}
	for n := len(pods); n < o.Spec.Want; n++ {
		if err := r.client.Create(ctx, r.pod(o)); err != nil {
			return operator.Result{}, err
		}
	}
	if _, err := operator.Apply(ctx, r.client, reportOf(o)); err != nil {
		return operator.Result{}, err
	}
	o.Status.Made = o.Spec.Want
	return operator.Result{}, nil
}

// Finalize deletes the pods. There is no garbage collector.
func (r *reconciler) Finalize(ctx context.Context, o *Order) (operator.Result, error) {
	pods, err := r.podsOf(ctx, o)
	if err != nil {
		return operator.Result{}, err
	}
	for _, pod := range pods {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, pod)); err != nil {
			return operator.Result{}, err
		}
	}
	return operator.Result{}, nil
}

func (r *reconciler) podsOf(ctx context.Context, o *Order) ([]*corev1.Pod, error) {
	return client.List[corev1.Pod](ctx, r.client, client.InNamespace(o.Namespace),
		client.MatchingLabels{ofLabel: o.Name})
}

func (r *reconciler) pod(o *Order) *corev1.Pod {
	kind := schema.GroupVersionKind{Group: orders.Group, Version: orders.Version, Kind: orders.Kind}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: r.podName(o.Name), Labels: map[string]string{ofLabel: o.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)},
	}}
}

func reportOf(o *Order) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.Name + "-report"},
		Data: map[string]string{"want": strconv.Itoa(o.Spec.Want)}}
}

// forgetful counts the pods that it has created in memory, as operators with expectations do, and
// loses the count in a restart.
type forgetful struct {
	*reconciler
	made map[string]int
}

func (r *forgetful) Reconcile(ctx context.Context, o *Order) (operator.Result, error) {
	for r.made[o.Name] < o.Spec.Want {
		if err := r.client.Create(ctx, r.pod(o)); err != nil {
			return operator.Result{}, err
		}
		r.made[o.Name]++
	}
	return operator.Result{}, nil
}

// careless tries once for each generation of an order, and ignores errors.
type careless struct {
	*reconciler
	seen map[string]int64
}

func (r careless) Reconcile(ctx context.Context, o *Order) (operator.Result, error) {
	if r.seen[o.Name] == o.Generation {
		return operator.Result{}, nil
	}
	r.seen[o.Name] = o.Generation
	if _, err := r.reconciler.Reconcile(ctx, o); err != nil {
		operator.Log(ctx).Debug("ignored", "err", err)
	}
	return operator.Result{}, nil
}

// variant is a reconciler under test.
type variant func(r *reconciler, opts ...operator.Option) operator.Part

func correct(r *reconciler, opts ...operator.Option) operator.Part {
	return operator.For(func(c operator.Client) *reconciler { r.client = c; return r }, opts...)
}

func forgets(r *reconciler, opts ...operator.Option) operator.Part {
	return operator.For(func(c operator.Client) *forgetful { r.client = c; return &forgetful{r, map[string]int{}} },
		append(opts, operator.Concurrency(1))...)
}

func doesNotCare(r *reconciler, opts ...operator.Option) operator.Part {
	return operator.For(func(c operator.Client) careless { r.client = c; return careless{r, map[string]int64{}} },
		append(opts, operator.Concurrency(1))...)
}

// parse decodes an object of the server.
func parse[T any](obj apitest.Object) *T {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	into := new(T)
	if err := json.Unmarshal(data, into); err != nil {
		panic(err)
	}
	return into
}

var quiet = slog.New(slog.DiscardHandler)
