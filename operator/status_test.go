package operator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// annotating sets the status of a Pod, then writes the Pod itself, and then sets more of the
// status.
type annotating struct {
	write func(ctx context.Context, pod *corev1.Pod) error
}

func (a annotating) Reconcile(ctx context.Context, pod *corev1.Pod) (operator.Result, error) {
	if metav1.HasAnnotation(pod.ObjectMeta, "written") {
		return operator.Result{}, nil // nothing repairs what the first Reconcile has lost
	}
	pod.Status.Message = "by Reconcile"
	if err := a.write(ctx, pod); err != nil {
		return operator.Result{}, err
	}
	pod.Status.Reason = "After"
	return operator.Result{}, nil
}

// The response to a write of the reconciled object does not discard the status that Reconcile has
// set before. A status that another writer has set in the meantime stays, too.
func TestStatusBeforeAWrite(t *testing.T) {
	annotate := func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "written", "yes") }
	for name, write := range map[string]func(ctx context.Context, c operator.Client, pod *corev1.Pod) error{
		"Patch": func(ctx context.Context, c operator.Client, pod *corev1.Pod) error {
			patch := client.MergeFrom(pod.DeepCopy())
			annotate(pod)
			return c.Patch(ctx, pod, patch)
		},
		"Update": func(ctx context.Context, c operator.Client, pod *corev1.Pod) error {
			annotate(pod)
			return c.Update(ctx, pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				c, err := client.New(client.Config{REST: s.REST()})
				must(t, err)
				must(t, c.Create(t.Context(),
					&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}))
				stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(func(own operator.Client) annotating {
					return annotating{func(ctx context.Context, pod *corev1.Pod) error { return write(ctx, own, pod) }}
				}))
				time.Sleep(time.Minute)
				stop()
				pod, err := client.Get[corev1.Pod](t.Context(), c, client.Key{Namespace: "default", Name: "p"})
				must(t, err)
				if pod.Annotations["written"] != "yes" || pod.Status.Message != "by Reconcile" ||
					pod.Status.Reason != "After" {
					t.Errorf("annotations %v, status %q, %q", pod.Annotations, pod.Status.Message, pod.Status.Reason)
				}
			})
		})
	}
}

// labelling writes the reconciled object, whose kind has no status.
type labelling struct {
	client  operator.Client
	written *bool // whether the client returned
}

func (l labelling) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Labels["seen"] != "" {
		return operator.Result{}, nil
	}
	cm.Labels = map[string]string{"seen": "yes"}
	err := l.client.Update(ctx, cm)
	*l.written = true
	return operator.Result{}, err
}

func TestWriteOfAKindWithoutStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		create(t, s, "default", "c", nil)
		written := false
		stop := runIn(t, operator.Config{REST: s.REST()}, operator.For(func(c operator.Client) labelling {
			return labelling{c, &written}
		}))
		time.Sleep(time.Minute)
		stop()
		c, err := client.New(client.Config{REST: s.REST()})
		must(t, err)
		cm, err := client.Get[corev1.ConfigMap](t.Context(), c, client.Key{Namespace: "default", Name: "c"})
		must(t, err)
		if cm.Labels["seen"] != "yes" || !written {
			t.Errorf("labels %v; the client returned: %v", cm.Labels, written)
		}
	})
}
