package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/internal/apitest"
)

// courier applies a Pod and records Events, in the cluster of its ConfigMap.
type courier struct{ operator.Deps }

func (c courier) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	pod, err := operator.Apply(ctx, c.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "of-" + cm.Name}})
	if err != nil {
		return operator.Result{}, err
	}
	c.Events.Event(cm, corev1.EventTypeNormal, "Watched", "an object that an informer has")
	c.Events.Eventf(pod, corev1.EventTypeNormal, "Written", "an object of kind %s that is %s", "Pod", "not watched")
	c.Events.In(ctx).Event(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: "s",
		UID: "unknown"}}, corev1.EventTypeNormal, "Named", "whatever the object")
	return operator.Result{}, nil
}

// In a reconcile for an object of an additional cluster, Apply uses the kinds of that cluster, and
// Events are recorded there.
func TestApplyAndEventsInClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := apitest.New() // a server without pods
		east := apitest.New()
		west := apitest.New()
		create(t, east, "default", "e", nil)
		create(t, west, "default", "w1", nil)
		create(t, west, "default", "w2", nil)
		stop := runIn(t, operator.Config{REST: hub.REST(),
			Clusters: map[string]*rest.Config{"east": east.REST(), "west": west.REST()}},
			operator.For(func(d operator.Deps) courier { return courier{d} }))
		time.Sleep(time.Minute)
		stop()
		recorded := func(s *apitest.Server) string {
			var all []string
			for _, e := range s.Objects("events") {
				all = append(all, fmt.Sprint(e["reason"], " ", e["involvedObject"].(map[string]any)["name"]))
			}
			slices.Sort(all)
			return strings.Join(slices.Compact(all), ", ")
		}
		for s, want := range map[*apitest.Server]string{
			hub: "", east: "Named s, Watched e, Written of-e",
			west: "Named s, Watched w1, Watched w2, Written of-w1, Written of-w2",
		} {
			assert.Equal(t, recorded(s), want)
		}
		if len(east.Objects("pods")) != 1 || len(west.Objects("pods")) != 2 {
			t.Errorf("pods: %v, %v", east.Objects("pods"), west.Objects("pods"))
		}
	})
}
