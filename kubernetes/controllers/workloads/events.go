package workloads

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
)

// clientset is a client that writes all Events. client-go names an Event by its object and the time
// in nanoseconds. In virtual time, a controller can record several Events about one object at the
// same nanosecond; the server would refuse all but the first.
type clientset struct{ kubernetes.Interface }

func (c clientset) CoreV1() core.CoreV1Interface { return coreClient{c.Interface.CoreV1()} }

type coreClient struct{ core.CoreV1Interface }

func (c coreClient) Events(namespace string) core.EventInterface {
	return eventClient{c.CoreV1Interface.Events(namespace)}
}

type eventClient struct{ core.EventInterface }

// maxNames is how many names an Event can take.
const maxNames = 100

// CreateWithEventNamespace creates the Event, with another name if its own is taken.
func (c eventClient) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	return c.CreateWithEventNamespaceWithContext(context.Background(), event)
}

// CreateWithEventNamespaceWithContext does the same as CreateWithEventNamespace.
func (c eventClient) CreateWithEventNamespaceWithContext(ctx context.Context,
	event *corev1.Event) (*corev1.Event, error) {
	named := event
	for i := 1; ; i++ {
		created, err := c.EventInterface.CreateWithEventNamespaceWithContext(ctx, named)
		if !apierrors.IsAlreadyExists(err) || i == maxNames {
			return created, err
		}
		named = event.DeepCopy()
		named.Name = fmt.Sprintf("%s.%d", event.Name, i)
	}
}
